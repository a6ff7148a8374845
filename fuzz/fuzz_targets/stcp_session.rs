//! Any octets to sessions of STCP and MTCP: to one that receives, and as bundles through one that sends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_link::stcp::oracle::check_session(octets);
});
