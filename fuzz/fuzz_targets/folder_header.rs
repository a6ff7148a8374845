//! Any octets as the payload of a file that an outbox sent.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_client::folder::oracle::check_header(octets);
});
