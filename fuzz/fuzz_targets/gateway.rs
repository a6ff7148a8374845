//! Any octets as a bundle of either version that crosses into the other and back.
#![no_main]

use dhow_bundle::gateway::{Edit, oracle::check_octets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = check_octets(&octets.to_vec().into(), &Edit::default());
});
