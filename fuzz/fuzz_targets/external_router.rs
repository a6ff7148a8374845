//! Any octets as what a router that is a program says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_node::external::oracle::check_program(octets);
});
