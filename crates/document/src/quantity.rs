//! Sizes, durations and the like as people write them: `10GiB`, `50kB`, `1d`, `250ms`, `24Mbit`, `800mW`.

use std::time::Duration;

/// Why a text is no size, duration or the like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not begin with a number.
    #[error("'{0}' does not begin with a number")]
    NoNumber(String),
    /// The unit is not known.
    #[error("'{unit}' is not a unit of {of} (one of {known})")]
    UnknownUnit {
        /// The text that stood there.
        unit: String,
        /// "size", "rate", "time", "speed", "power" or "energy".
        of: &'static str,
        /// The units that are known.
        known: &'static str,
    },
    /// A time without a unit.
    #[error("a time needs a unit: {0}s")]
    NoUnit(String),
    /// More than 2^64 - 1 octets or nanoseconds.
    #[error("'{0}' is too large")]
    TooLarge(String),
    /// Finer than one octet or one nanosecond.
    #[error("'{0}' is finer than its unit allows")]
    TooFine(String),
}

/// Octets in `text`: digits, at most one decimal point, and a unit out of `B`, `kB` = 1000, `MB`, `GB`,
/// `TB`, `KiB` = 1024, `MiB`, `GiB`, `TiB`; no unit means octets.
///
/// # Errors
/// When the text is no size, or one that is not a whole number of octets below 2^64.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    const UNITS: [(&str, u64); 10] = [
        ("", 1),
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    parse(
        text,
        &UNITS,
        "size",
        "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
    )
}

/// Octets a second in `text`, a rate as links are sold: digits, at most one decimal point, and a unit out of
/// `bit`, `kbit` = 1000, `Mbit`, `Gbit`, each with or without `/s`.
///
/// # Errors
/// When the text is not a rate, or one that is not a whole number of octets a second.
pub fn parse_rate(text: &str) -> Result<u64, QuantityError> {
    const UNITS: [(&str, u64); 4] = [
        ("bit", 1),
        ("kbit", 1_000),
        ("Mbit", 1_000_000),
        ("Gbit", 1_000_000_000),
    ];
    let plain = text.trim().trim_end_matches("/s");
    let bits = parse(plain, &UNITS, "rate", "bit, kbit, Mbit, Gbit")?;
    if bits.is_multiple_of(8) {
        Ok(bits / 8)
    } else {
        Err(QuantityError::TooFine(text.to_owned()))
    }
}

/// Millimetres an hour in `text`: digits, at most one decimal point, and a unit out of `m/s` and `km/h`.
///
/// # Errors
/// When the text is no speed, or one that is not a whole number of millimetres an hour.
pub fn parse_speed(text: &str) -> Result<u64, QuantityError> {
    const UNITS: [(&str, u64); 2] = [("m/s", 3_600_000), ("km/h", 1_000_000)];
    parse(text, &UNITS, "speed", "m/s, km/h")
}

/// Microwatts in `text`: digits, at most one decimal point, and a unit out of `uW`, `mW`, `W`, `kW`.
///
/// # Errors
/// When the text is no power, or one that is not a whole number of microwatts.
pub fn parse_power(text: &str) -> Result<u64, QuantityError> {
    const UNITS: [(&str, u64); 4] = [
        ("uW", 1),
        ("mW", 1_000),
        ("W", 1_000_000),
        ("kW", 1_000_000_000),
    ];
    parse(text, &UNITS, "power", "uW, mW, W, kW")
}

/// Picojoules in `text`: digits, at most one decimal point, and a unit out of `pJ`, `nJ`, `uJ`, `mJ`, `J`.
///
/// # Errors
/// When the text is no energy, or one that is not a whole number of picojoules.
pub fn parse_energy(text: &str) -> Result<u64, QuantityError> {
    const UNITS: [(&str, u64); 5] = [
        ("pJ", 1),
        ("nJ", 1_000),
        ("uJ", 1_000_000),
        ("mJ", 1_000_000_000),
        ("J", 1_000_000_000_000),
    ];
    parse(text, &UNITS, "energy", "pJ, nJ, uJ, mJ, J")
}

/// The duration in `text`: digits, at most one decimal point, and a unit out of `ns`, `us`, `ms`, `s`,
/// `min` (or `m`), `h`, `d`, `w`, or several of these, which add up (`3h5min`, `3 h 5 min`); the unit may be left out
/// of a plain `0` only.
///
/// # Errors
/// When the text is no duration, or one longer than 584 years.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    const S: u64 = 1_000_000_000;
    const UNITS: [(&str, u64); 9] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", S),
        ("min", 60 * S),
        ("m", 60 * S),
        ("h", 3_600 * S),
        ("d", 86_400 * S),
        ("w", 604_800 * S),
    ];
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = 0_u64;
    for part in parts(text.trim()) {
        if part.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(QuantityError::NoUnit(part.to_owned()));
        }
        let nanos = parse(part, &UNITS, "time", "ns, us, ms, s, min, h, d, w")?;
        let sum = total.checked_add(nanos);
        total = sum.ok_or_else(|| QuantityError::TooLarge(text.to_owned()))?;
    }
    Ok(Duration::from_nanos(total))
}

/// The parts that add up to a time: a new part begins at each number that follows a unit. An empty text is one part.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    core::iter::from_fn(move || {
        let text = rest?;
        let is_unit = |c: char| c.is_alphabetic();
        let unit = text.find(is_unit).unwrap_or(text.len());
        let behind = text.get(unit..)?.find(|c: char| c.is_ascii_digit());
        let end = behind.map_or(text.len(), |behind| unit + behind);
        let (part, more) = text.split_at(end);
        rest = (!more.is_empty()).then_some(more);
        Some(part.trim())
    })
}

/// Reads a decimal number and a unit; the result is exact or an error, never rounded.
fn parse(
    text: &str,
    units: &[(&str, u64)],
    of: &'static str,
    known: &'static str,
) -> Result<u64, QuantityError> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: String = number.chars().filter(|c| *c != '_').collect();
    let unit = unit.trim_start();
    let (whole, fraction) = number.split_once('.').unwrap_or((number.as_str(), ""));
    if whole.is_empty() || fraction.contains('.') {
        return Err(QuantityError::NoNumber(text.to_owned()));
    }
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(QuantityError::UnknownUnit {
            unit: unit.to_owned(),
            of,
            known,
        });
    };
    let too_large = || QuantityError::TooLarge(text.to_owned());
    let whole = whole.parse::<u64>().map_err(|_| too_large())?;
    let mut total = u128::from(whole) * u128::from(*scale);
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        // More digits than 18 cannot be a whole number of any unit above.
        let digits = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
        if digits > 18 {
            return Err(QuantityError::TooFine(text.to_owned()));
        }
        let numerator =
            u128::from(fraction.parse::<u64>().map_err(|_| too_large())?) * u128::from(*scale);
        let denominator = 10_u128.pow(digits);
        if !numerator.is_multiple_of(denominator) {
            return Err(QuantityError::TooFine(text.to_owned()));
        }
        total += numerator / denominator;
    }
    u64::try_from(total).map_err(|_| too_large())
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        for (text, octets) in [
            ("0", 0),
            ("512", 512),
            ("50kB", 50_000),
            ("50 kB", 50_000),
            ("4KiB", 4_096),
            ("1.5MiB", 1_572_864),
            ("10GiB", 10 << 30),
            ("1_000B", 1_000),
        ] {
            assert_eq!(parse_size(text), Ok(octets), "{text}");
        }
    }

    #[test]
    fn speeds_have_units() {
        assert_eq!(parse_speed("1.4m/s"), Ok(5_040_000));
        assert_eq!(parse_speed("50 km/h"), Ok(50_000_000));
        assert!(parse_speed("5").is_err());
        assert!(parse_speed("5kn").is_err());
    }

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("1d", 86_400_000),
            ("60s", 60_000),
            ("250ms", 250),
            ("0", 0),
            ("1.5s", 1_500),
            ("2min", 120_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(ms)),
                "{text}"
            );
        }
    }

    #[test]
    fn rates_count_bits_and_are_octets() {
        for (text, octets) in [
            ("8bit", 1),
            ("24 Mbit/s", 3_000_000),
            ("100Mbit", 12_500_000),
            ("2.5Gbit", 312_500_000),
        ] {
            assert_eq!(parse_rate(text), Ok(octets), "{text}");
        }
        let refused = |text| parse_rate(text).unwrap_err().to_string();
        assert_eq!(refused("9bit"), "'9bit' is finer than its unit allows");
        assert_eq!(
            refused("3MB"),
            "'MB' is not a unit of rate (one of bit, kbit, Mbit, Gbit)"
        );
    }

    #[test]
    fn power_and_energy_have_units() {
        assert_eq!(parse_power("800mW"), Ok(800_000));
        assert_eq!(parse_power("2.5 W"), Ok(2_500_000));
        assert_eq!(parse_energy("0.1uJ"), Ok(100_000));
        assert_eq!(parse_energy("1J"), Ok(1_000_000_000_000));
        let refused = parse_power("3J").unwrap_err().to_string();
        assert_eq!(refused, "'J' is not a unit of power (one of uW, mW, W, kW)");
        assert!(parse_energy("0").is_err() && parse_energy("0.1pJ").is_err());
    }

    #[test]
    fn what_is_no_quantity_is_refused_by_reason() {
        for (text, error) in [
            ("GiB", "'GiB' does not begin with a number"),
            ("", "'' does not begin with a number"),
            (
                "10gb",
                "'gb' is not a unit of size (one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)",
            ),
            ("20000000TiB", "'20000000TiB' is too large"),
            (
                "99999999999999999999",
                "'99999999999999999999' is too large",
            ),
            ("0.5B", "'0.5B' is finer than its unit allows"),
        ] {
            assert_eq!(parse_size(text).unwrap_err().to_string(), error, "{text}");
        }
        assert_eq!(
            parse_duration("10").unwrap_err().to_string(),
            "a time needs a unit: 10s"
        );
        for text in ["3h5min", "3 h 5 min", "11100s", "3.0h 300s"] {
            let time = parse_duration(text);
            assert_eq!(time, Ok(Duration::from_secs(11_100)), "{text}");
        }
        for text in ["", "h", "3h5", "5x", "3h 5x", "500y1s", "500000w500000w"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
