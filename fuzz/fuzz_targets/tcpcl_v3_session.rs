//! Any octets to a TCPCLv3 session, from its start and once it is established.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_link::tcpcl::v3::oracle::check_session(octets);
});
