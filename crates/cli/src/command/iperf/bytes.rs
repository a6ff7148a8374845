//! Quantities as iperf 2 writes and reads them: K, M and G are powers of 1024, k, m and g of 1000.

use std::time::Duration;

const SUFFIXES: [(char, u64); 6] = [
    ('K', 1 << 10),
    ('M', 1 << 20),
    ('G', 1 << 30),
    ('k', 1_000),
    ('m', 1_000_000),
    ('g', 1_000_000_000),
];

/// Octets, such as `128K`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let suffix = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(*suffix)?, *factor)));
    let (number, factor) = suffix.unwrap_or((text, 1));
    let factor = Duration::from_secs(factor).as_secs_f64();
    let number: f64 = number
        .parse()
        .map_err(|_| format!("'{text}' is not a number such as 1470, 128K or 1.5m"))?;
    match Duration::try_from_secs_f64(number * factor) {
        Ok(whole) if whole.as_secs() > 0 => Ok(whole.as_secs()),
        _ => Err(format!("'{text}' is not more than 0")),
    }
}

/// A rate in bit/s, such as `54M`.
pub fn parse_bits(text: &str) -> Result<u64, String> {
    parse_bytes(text)
}

/// Seconds, such as `0.5`.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("'{text}' is not a number of seconds such as 30"))
}

/// `1.25 MBytes`: three digits, powers of 1024.
pub fn bytes(octets: f64) -> String {
    scaled(octets, 1024.0, "Bytes")
}

/// `10.5 Mbits/sec`: three digits, powers of 1000.
pub fn bits_per_second(octets: f64, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let bits = if seconds > 0.0 {
        octets * 8.0 / seconds
    } else {
        0.0
    };
    format!("{}/sec", scaled(bits, 1000.0, "bits"))
}

fn scaled(number: f64, step: f64, unit: &str) -> String {
    let mut number = number;
    let mut prefix = "";
    for larger in ["K", "M", "G"] {
        if number < step {
            break;
        }
        number /= step;
        prefix = larger;
    }
    match number {
        ..9.995 => format!("{number:4.2} {prefix}{unit}"),
        9.995..99.95 => format!("{number:4.1} {prefix}{unit}"),
        _ => format!("{number:4.0} {prefix}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_iperf() {
        for (text, number) in [
            ("54M", 56_623_104),
            ("1m", 1_000_000),
            ("1470", 1_470),
            ("1.5K", 1_536),
        ] {
            assert_eq!(parse_bytes(text), Ok(number), "{text}");
        }
        assert!(
            parse_bytes("0").is_err() && parse_bytes("-1").is_err() && parse_bytes("x").is_err()
        );
        // As iperf 2.1.8 prints 893 datagrams of 1470 octets in a second.
        assert_eq!(bytes(1_312_710.0), "1.25 MBytes");
        assert_eq!(
            bits_per_second(1_312_710.0, Duration::from_secs(1)),
            "10.5 Mbits/sec"
        );
        assert_eq!(bytes(147_000.0), " 144 KBytes");
        assert_eq!(bytes(0.0), "0.00 Bytes");
    }
}
