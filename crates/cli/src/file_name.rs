//! Names of files, as a person reads them in a line.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path in a line of text: what is no character, or would move the cursor or end the line, is escaped.
pub fn shown(path: &Path) -> String {
    let octets = path.as_os_str().as_bytes();
    if octets.is_empty() {
        return "''".to_owned();
    }
    let mut shown = String::new();
    for chunk in octets.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_control() {
                true => shown.extend(character.escape_default()),
                false => shown.push(character),
            }
        }
        for octet in chunk.invalid() {
            shown.extend(octet.escape_ascii().map(char::from));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_name_is_one_line_whatever_it_has() {
        for (octets, text) in [
            (&b"../scan 1.img"[..], "../scan 1.img"),
            (b"new\nline", "new\\nline"),
            (b"esc\x1b[31m", "esc\\u{1b}[31m"),
            (b"no\xff\xfetext", "no\\xff\\xfetext"),
            ("\u{e9}\u{85}".as_bytes(), "\u{e9}\\u{85}"),
            (b"", "''"),
        ] {
            assert_eq!(shown(Path::new(OsStr::from_bytes(octets))), text);
        }
    }
}
