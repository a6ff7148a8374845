//! Any octets as a message of IBR-DTN's routing handshake.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_node::handshake_oracle::check_handshake(octets);
});
