//! Any octets as a bundle of version 6.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_bundle::v6::oracle::check_bundle(&octets.to_vec().into());
});
