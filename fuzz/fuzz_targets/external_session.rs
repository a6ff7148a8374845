//! Any octets as what a program says that leads to a neighbour.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_link::external::oracle::check_session(octets);
});
