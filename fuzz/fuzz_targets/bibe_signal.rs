//! Any octets as a custody signal of Bundle-in-Bundle Encapsulation.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_bundle::v7::admin::bibe::oracle::check_signal(octets);
});
