//! Conversions between measured numbers and whole ones that are drawn.

/// The nearest whole number; nothing below none, and what is no number is none.
#[expect(
    clippy::as_conversions,
    reason = "a float becomes a whole number in no other way; `as` goes to the nearer end where there is none"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// A count as a float: exact below 2^53.
#[expect(
    clippy::as_conversions,
    reason = "no conversion is without loss for all counts; these are of octets and payloads"
)]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

/// Seconds as whole microseconds.
pub(crate) fn micros(seconds: f64) -> u64 {
    whole(seconds * 1e6)
}
