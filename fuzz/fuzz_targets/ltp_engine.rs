//! Any datagrams to an LTP engine, whatever its node does meanwhile.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_link::ltp::oracle::check_engine(octets);
});
