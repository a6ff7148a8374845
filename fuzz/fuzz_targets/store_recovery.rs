//! Any octets as a log, and any changes to a real one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = dhow_store::oracle::check_recovery(input);
});
