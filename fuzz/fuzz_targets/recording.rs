//! Any octets as the content of a recording's frame.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_node::recording::oracle::check_entries(octets);
});
