//! Octets written as hexadecimal digits.

/// The octets; anything but digits is ignored.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |octet, digit| octet << 4 | digit))
        .collect()
}
