//! Any text as a scenario or a contact plan.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = dhow_scenario::oracle::check_scenario(text);
});
