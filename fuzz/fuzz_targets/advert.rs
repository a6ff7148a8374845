//! Any octets as the payload of an advert of a neighbour's router.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = dhow_node::adverts_oracle::check_advert(octets);
});
