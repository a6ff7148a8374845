//! Names of the numbers of the Bundle Protocol (RFC 9171 4.2.3, 4.2.4; RFC 5050 4.2, 4.3).

/// Bundle processing control flags (RFC 9171 4.2.3).
pub const BUNDLE_FLAGS: [(u64, &str); 9] = [
    (0x0001, "fragment"),
    (0x0002, "administrative record"),
    (0x0004, "must not be fragmented"),
    (0x0020, "application acknowledgment requested"),
    (0x0040, "status times requested"),
    (0x4000, "report reception"),
    (0x1_0000, "report forwarding"),
    (0x2_0000, "report delivery"),
    (0x4_0000, "report deletion"),
];

/// Block processing control flags (RFC 9171 4.2.4).
pub const BLOCK_FLAGS: [(u64, &str); 4] = [
    (0x01, "replicate in fragments"),
    (0x02, "report if unprocessable"),
    (0x04, "delete bundle if unprocessable"),
    (0x10, "discard if unprocessable"),
];

/// Bundle processing control flags of version 6, but for the class of service (RFC 5050 4.2).
pub const VERSION_6_BUNDLE_FLAGS: [(u64, &str); 11] = [
    (0x0001, "fragment"),
    (0x0002, "administrative record"),
    (0x0004, "must not be fragmented"),
    (0x0008, "custody requested"),
    (0x0010, "singleton destination"),
    (0x0020, "application acknowledgment requested"),
    (0x4000, "report reception"),
    (0x8000, "report custody"),
    (0x1_0000, "report forwarding"),
    (0x2_0000, "report delivery"),
    (0x4_0000, "report deletion"),
];

/// Block processing control flags of version 6 (RFC 5050 4.3).
pub const VERSION_6_BLOCK_FLAGS: [(u64, &str); 7] = [
    (0x01, "replicate in fragments"),
    (0x02, "report if unprocessable"),
    (0x04, "delete bundle if unprocessable"),
    (0x08, "last"),
    (0x10, "discard if unprocessable"),
    (0x20, "forwarded unprocessed"),
    (0x40, "has references"),
];

/// The names of the flags that are set, and the number that the others make.
pub fn flags(set: u64, names: &[(u64, &'static str)]) -> String {
    let mut words: Vec<String> = names
        .iter()
        .filter(|(flag, _)| set & flag != 0)
        .map(|(_, name)| (*name).to_owned())
        .collect();
    let unnamed = names.iter().fold(set, |rest, (flag, _)| rest & !flag);
    if unnamed != 0 {
        words.push(format!("unassigned {unnamed:#x}"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_without_a_name_are_shown_as_a_number() {
        assert_eq!(
            flags(0x2_0004, &BUNDLE_FLAGS),
            "must not be fragmented, report delivery"
        );
        assert_eq!(flags(0x0108, &BLOCK_FLAGS), "unassigned 0x108");
        assert_eq!(flags(0, &BUNDLE_FLAGS), "");
    }
}
