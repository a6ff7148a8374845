//! Any octets as a bundle.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_bundle::v7::oracle::check_bundle(octets);
});
