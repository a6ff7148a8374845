//! Any octets as an export of a store, frames of any content with right checksums, and changes to a real one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = dhow_daemon::export::oracle::check_export(input);
});
