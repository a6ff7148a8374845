//! Any octets from an application's connection.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| dhow_node::api::oracle::check_session(script));
