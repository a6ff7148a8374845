//! Any octets as a beacon of any format.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_link::discovery::oracle::check_beacon(octets);
});
