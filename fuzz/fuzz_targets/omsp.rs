//! Any octets as a session of measurements.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    dhow_measure::oracle::check_session(octets);
});
