//! Any datagrams to a conversation over UDP, whatever its node does meanwhile.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_link::udpcl::oracle::check_conversation(octets);
});
