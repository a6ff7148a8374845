//! Settings as The ONE reads them: `Namespace.key = value` in layers of files, later ones over earlier ones.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Settings that all files may have together.
const SETTINGS_MAX: usize = 100_000;

/// All settings, and which have been asked for.
#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
    run: usize,
}

impl Settings {
    /// None yet; of a value with several for runs (`[a; b]`) that of a run's number, from 0, counts.
    pub(super) fn of_run(run: usize) -> Self {
        Self {
            run,
            ..Self::default()
        }
    }

    /// Adds those of one file.
    ///
    /// # Errors
    /// The first line that is none, and its number.
    pub(super) fn add(&mut self, text: &str) -> Result<(), (usize, String)> {
        let mut lines = (1..).zip(text.lines());
        while let Some((number, line)) = lines.next() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let mut whole = line.trim_end().to_owned();
            // A line that ends with a backslash goes on in the next.
            while whole.ends_with('\\') {
                whole.pop();
                let Some((_, next)) = lines.next() else {
                    break;
                };
                whole.push_str(next.trim());
            }
            let Some((key, value)) = whole.split_once(['=', ':']) else {
                return Err((number, format!("'{whole}' is not a setting")));
            };
            let value = value.trim().to_owned();
            self.values.insert(key.trim().to_owned(), value);
            if self.values.len() > SETTINGS_MAX {
                return Err((number, format!("more than {SETTINGS_MAX} settings")));
            }
        }
        Ok(())
    }

    /// The value of a setting for this run, where it is set.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key)?;
        self.used.borrow_mut().insert(key.to_owned());
        let list = value
            .strip_prefix('[')
            .and_then(|list| list.strip_suffix(']'));
        let Some(list) = list else {
            return Some(value);
        };
        let values: Vec<&str> = list.split(';').map(str::trim).collect();
        values.get(self.run % values.len().max(1)).copied()
    }

    /// The value of a setting of a group, or else of all groups.
    pub(super) fn of_group(&self, group: u64, key: &str) -> Option<&str> {
        let all = self.text(&format!("Group.{key}"));
        self.text(&format!("Group{group}.{key}")).or(all)
    }

    /// A text with the value of each key between two `%%` in its place; a key that is not set stays.
    pub(super) fn filled(&self, text: &str) -> String {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once("%%") {
            let found = behind.split_once("%%");
            let found = found.and_then(|(key, after)| Some((self.text(key)?, after)));
            filled.push_str(before);
            match found {
                Some((value, after)) => {
                    filled.push_str(value);
                    rest = after;
                }
                None => {
                    filled.push_str("%%");
                    rest = behind;
                }
            }
        }
        filled + rest
    }

    /// Takes all settings whose keys begin so for asked for.
    pub(super) fn leave(&self, start: &str) {
        let keys = self.values.keys().filter(|key| key.starts_with(start));
        self.used.borrow_mut().extend(keys.cloned());
    }

    /// Settings that nobody has asked for.
    pub(super) fn unused(&self) -> Vec<String> {
        let used = self.used.borrow();
        let keys = self.values.keys();
        keys.filter(|key| !used.contains(*key)).cloned().collect()
    }
}

/// A number, with a suffix as The ONE has them: `250k`, `5M`, `1Gi`.
pub(super) fn number(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 6] = [
        ("ki", 1_024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
    ];
    let text = text.trim();
    let found = SUFFIXES.iter().find_map(|(suffix, factor)| {
        let digits = text.strip_suffix(suffix)?;
        Some(digits.trim().parse::<f64>().ok()? * factor)
    });
    let number = found.or_else(|| text.parse().ok())?;
    (number.is_finite() && (0.0..=1e15).contains(&number)).then_some(number)
}

/// One number or two, as a range.
pub(super) fn range(text: &str) -> Option<(f64, f64)> {
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let (least, most) = (number(least)?, number(most)?);
    (least <= most).then_some((least, most))
}
