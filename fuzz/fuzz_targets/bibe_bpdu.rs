//! Any octets as the beginning of a BIBE protocol data unit.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_bundle::v7::admin::bibe::oracle::check_bpdu(octets);
});
