//! A path within a folder, of which no part leads out of it.

use std::fmt;

use thiserror::Error;

/// Octets of a path, at most.
pub const PATH_OCTETS_MAX: usize = 4_095;

/// Octets of a name in a path, at most: file systems take no more.
pub const NAME_OCTETS_MAX: usize = 255;

/// Names in a path, at most: each costs a system call and maybe a directory.
pub const DEPTH_MAX: usize = 64;

/// First names that no path has: outbox and inbox keep their own files there.
pub const RESERVED: [&str; 2] = [".dhow-inbox", ".dhow-outbox"];

/// A path within a folder: 1 to 64 names of 1 to 255 octets, joined by `/`, in 4,095 octets at most.
///
/// No name is `.` or `..` or has control characters, and the first is none of [`RESERVED`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(String);

/// The rule that a path breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathRefusal {
    /// The path has no octets.
    #[error("a path is empty")]
    Empty,
    /// The path is longer than [`PATH_OCTETS_MAX`].
    #[error("a path has {0} octets, and at most {PATH_OCTETS_MAX} are allowed")]
    TooLong(usize),
    /// The path begins with `/`.
    #[error("a path is absolute")]
    Absolute,
    /// Two `/` stand side by side, or one at the end.
    #[error("a path has an empty name")]
    EmptyName,
    /// A name is `.` or `..`.
    #[error("a path has the name '{0}'")]
    Dots(&'static str),
    /// A name is longer than [`NAME_OCTETS_MAX`].
    #[error("a path has a name of {0} octets, and at most {NAME_OCTETS_MAX} are allowed")]
    NameTooLong(usize),
    /// There are more names than [`DEPTH_MAX`].
    #[error("a path has more than {DEPTH_MAX} names")]
    TooDeep,
    /// There is a control character.
    #[error("a path has the control character U+{:04X}", u32::from(*.0))]
    Control(char),
    /// The first name is one of [`RESERVED`].
    #[error("a path leads into {0}")]
    Reserved(&'static str),
}

impl RelativePath {
    /// Reads a path.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn new(text: &str) -> Result<Self, PathRefusal> {
        if text.is_empty() {
            return Err(PathRefusal::Empty);
        }
        if text.len() > PATH_OCTETS_MAX {
            return Err(PathRefusal::TooLong(text.len()));
        }
        if text.starts_with('/') {
            return Err(PathRefusal::Absolute);
        }
        for (number, name) in text.split('/').enumerate() {
            if number >= DEPTH_MAX {
                return Err(PathRefusal::TooDeep);
            }
            check_name(name)?;
        }
        let first = text.split('/').next().unwrap_or_default();
        // Some file systems do not tell upper case from lower case.
        match RESERVED.iter().find(|it| first.eq_ignore_ascii_case(it)) {
            Some(reserved) => Err(PathRefusal::Reserved(reserved)),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its names, outermost first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The last name.
    #[must_use]
    pub fn last(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The directories that it leads through, outermost first: `a` and `a/b` for `a/b/c`.
    pub fn directories(&self) -> impl DoubleEndedIterator<Item = Self> {
        self.0
            .match_indices('/')
            .filter_map(|(at, _)| self.0.get(..at))
            .map(|path| Self(path.to_owned()))
    }

    /// True when it leads through a directory.
    #[must_use]
    pub fn is_within(&self, directory: &str) -> bool {
        self.0
            .strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with('/'))
    }
}

fn check_name(name: &str) -> Result<(), PathRefusal> {
    if let Some(control) = name.chars().find(|it| it.is_control()) {
        return Err(PathRefusal::Control(control));
    }
    match name {
        "" => Err(PathRefusal::EmptyName),
        "." => Err(PathRefusal::Dots(".")),
        ".." => Err(PathRefusal::Dots("..")),
        _ if name.len() > NAME_OCTETS_MAX => Err(PathRefusal::NameTooLong(name.len())),
        _ => Ok(()),
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(text: &str) -> PathRefusal {
        RelativePath::new(text).unwrap_err()
    }

    #[test]
    fn each_rule_refuses_the_path_that_breaks_it() {
        assert_eq!(refusal(""), PathRefusal::Empty);
        assert_eq!(refusal("/etc/passwd"), PathRefusal::Absolute);
        for text in ["a//b", "a/", "a/b//"] {
            assert_eq!(refusal(text), PathRefusal::EmptyName, "{text}");
        }
        for text in ["..", "../x", "a/../b", "a/.."] {
            assert_eq!(refusal(text), PathRefusal::Dots(".."), "{text}");
        }
        for text in [".", "./x", "a/./b"] {
            assert_eq!(refusal(text), PathRefusal::Dots("."), "{text}");
        }
        for control in ['\0', '\n', '\x1b', '\x7f', '\u{85}'] {
            assert_eq!(
                refusal(&format!("a/b{control}c")),
                PathRefusal::Control(control)
            );
        }
        for text in [".dhow-inbox/state.db", ".DHOW-Inbox", ".dhow-outbox/x"] {
            assert!(
                matches!(refusal(text), PathRefusal::Reserved(_)),
                "{text} is taken"
            );
        }
        assert_eq!(
            refusal("a\0").to_string(),
            "a path has the control character U+0000"
        );
    }

    #[test]
    fn lengths_are_refused_one_past_their_bounds() {
        let name = "n".repeat(NAME_OCTETS_MAX);
        assert!(RelativePath::new(&name).is_ok());
        assert_eq!(
            refusal(&format!("a/{name}n")),
            PathRefusal::NameTooLong(NAME_OCTETS_MAX + 1)
        );
        let deepest = vec!["d"; DEPTH_MAX].join("/");
        assert!(RelativePath::new(&deepest).is_ok());
        assert_eq!(refusal(&format!("{deepest}/d")), PathRefusal::TooDeep);
        let longest = vec![name.as_str(); 16].join("/");
        assert_eq!(longest.len(), PATH_OCTETS_MAX);
        assert!(RelativePath::new(&longest).is_ok());
        assert_eq!(
            refusal(&format!("{longest}n")),
            PathRefusal::TooLong(PATH_OCTETS_MAX + 1)
        );
    }

    #[test]
    fn what_only_looks_dangerous_is_taken() {
        for text in [
            "...",
            "a..b/..c",
            "a/.dhow-inbox",
            ".dhow-inbox2",
            "C:\\x",
            "-rf",
            "ä/漢 字",
        ] {
            assert!(RelativePath::new(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_path_knows_the_directories_that_it_leads_through() {
        let path = RelativePath::new("a/b/c").unwrap();
        let directories: Vec<_> = path.directories().map(|it| it.to_string()).collect();
        assert_eq!(directories, ["a", "a/b"]);
        assert_eq!(path.last(), "c");
        assert!(path.is_within("a") && path.is_within("a/b"));
        assert!(!path.is_within("a/b/c") && !path.is_within("a/"));
        let single = RelativePath::new("a").unwrap();
        assert_eq!((single.directories().count(), single.last()), (0, "a"));
    }

    proptest! {
        #[test]
        fn no_path_that_is_taken_leads_out_of_its_folder(text in "[a./\\PC\u{0}-\u{20}]{0,40}") {
            if let Ok(path) = RelativePath::new(&text) {
                prop_assert_eq!(path.as_str(), text.as_str());
                let joined = std::path::Path::new("/folder").join(path.as_str());
                prop_assert!(joined.components().skip(2).all(
                    |it| matches!(it, std::path::Component::Normal(_))));
                prop_assert_eq!(joined.components().count(), 2 + path.names().count());
                prop_assert!(!text.chars().any(char::is_control));
            }
        }
    }
}
