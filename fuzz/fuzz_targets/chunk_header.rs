//! Any octets as the payload of a chunk of a stream.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_client::chunk::check_chunk(octets);
});
