//! The commented node file that `dhow node init` writes: every key, its meaning, unit and default.

use std::fmt::Write as _;
use std::path::Path;

use dhow_document::schema::{Absent, Key, Occurs, Section};

use super::schema::SECTIONS;

/// Keys that are written live, since a reader wants to see them first.
const LIVE: &[(&str, &str)] = &[
    ("", "version"),
    ("node", "id"),
    ("store", "path"),
    ("store", "durability"),
    ("store", "quota"),
    ("api", "socket"),
];

/// The place of a node's store and sockets, in its node file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Beside the node file.
    Beside,
    /// The places of a service of the system: `/var/lib/dhow`, `/run/dhow`.
    System,
}

impl Layout {
    /// The value in place of a key's example, if there is one.
    fn value(self, section: &str, key: &str) -> Option<&'static str> {
        match (self, section, key) {
            (Self::System, "store", "path") => Some("\"/var/lib/dhow\""),
            (Self::System, "api", "socket") => Some("\"/run/dhow/dhow.sock\""),
            _ => None,
        }
    }
}

/// The text of a node file for `node_id` that works as it is, with every other key as a comment that
/// may be uncommented; `dir` is where the file will lie.
#[must_use]
pub fn write_commented(node_id: &str, dir: &Path, layout: Layout) -> String {
    let mut out = String::new();
    out.push_str("## The node file of a Dhow node. Run it with:\n");
    let _ = writeln!(
        out,
        "##   dhow node run --config {}",
        dir.join("node.toml").display()
    );
    out.push_str(
        "##\n## Every key is here. Lines with one '#' may be uncommented; lines with two explain them.\n\
         ## Sizes: kB = 1000, KiB = 1024 octets. Times: ms, s, min, h, d, w.\n\
         ## Relative paths start at this file.\n",
    );
    for section in SECTIONS {
        write_section(&mut out, section, node_id, layout);
    }
    out
}

fn write_section(out: &mut String, section: &Section, node_id: &str, layout: Layout) {
    out.push('\n');
    let live = LIVE.iter().any(|(name, _)| *name == section.name);
    if section.occurs != Occurs::Top {
        write_talk(out, section.meaning);
        let _ = writeln!(out, "{}{}", if live { "" } else { "# " }, section.title());
    }
    for key in section.keys() {
        let live = LIVE.contains(&(section.name, key.name));
        let value = if (section.name, key.name) == ("node", "id") {
            format!("\"{}\"", node_id.escape_default())
        } else {
            let value = layout.value(section.name, key.name);
            value.unwrap_or(key.example).to_owned()
        };
        write_key(out, key, &value, live);
    }
}

fn write_key(out: &mut String, key: &Key, value: &str, live: bool) {
    let absent = match key.absent {
        Absent::Refused => "Must be set.".to_owned(),
        Absent::Means(meaning) => format!("Default: {meaning}."),
        Absent::Default(text) => format!("Default: {text}."),
        Absent::Always => "Must be absent.".to_owned(),
    };
    write_talk(out, &format!("{} {absent}", key.meaning));
    let _ = writeln!(
        out,
        "{}{} = {value}",
        if live { "" } else { "# " },
        key.name
    );
}

/// A sentence as comment lines. Two '#' mark talk, so that one '#' marks what may be uncommented.
fn write_talk(out: &mut String, sentence: &str) {
    /// Characters of a line, at most.
    const WIDTH: usize = 100;
    let mut width = 0;
    for word in sentence.split(' ') {
        if width == 0 || width + 1 + word.len() > WIDTH {
            out.push_str(if width == 0 { "##" } else { "\n##" });
            width = 2;
        }
        out.push(' ');
        out.push_str(word);
        width += 1 + word.len();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeFile;

    fn uncommented(text: &str) -> String {
        text.lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest)
                    if rest.starts_with('[')
                        || rest.split_once(" = ").is_some_and(|(key, _)| {
                            key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                        }) =>
                {
                    rest
                }
                _ => line,
            })
            .fold(String::new(), |text, line| text + line + "\n")
    }

    #[test]
    fn the_commented_file_is_a_node_file() {
        let text = write_commented("ipn:2.0", Path::new("beta"), Layout::Beside);
        let file = NodeFile::parse(&text, Path::new("beta/node.toml")).unwrap();
        assert_eq!(file.node.node_ids, ["ipn:2.0".parse().unwrap()]);
        assert_eq!(file.api_socket, Path::new("beta/dhow.sock"));
        assert_eq!(file.admin_socket(), Path::new("beta/dhow.sock.admin"));
        assert_eq!(file.store.path, Path::new("beta/store"));
        assert_eq!(file.node.quota_octets, 10 << 30);
        assert!(file.node.links.is_empty() && file.listen.is_empty());
    }

    #[test]
    fn the_file_of_a_service_has_its_store_and_sockets_where_the_system_keeps_them() {
        let text = write_commented("ipn:2.0", Path::new("/etc/dhow"), Layout::System);
        let file = NodeFile::parse(&text, Path::new("/etc/dhow/node.toml")).unwrap();
        assert_eq!(file.store.path, Path::new("/var/lib/dhow"));
        assert_eq!(file.api_socket, Path::new("/run/dhow/dhow.sock"));
    }

    #[test]
    fn the_commented_file_is_a_node_file_with_every_example_uncommented() {
        let text = uncommented(&write_commented(
            "dtn://beta/",
            Path::new("beta"),
            Layout::Beside,
        ));
        // The link is one over TCP, and the router one of the node itself.
        let of_others = [
            "mtu =",
            "rate =",
            "engine =",
            "remote_engine =",
            "red =",
            "light_time =",
            "largest_block =",
            "blocks =",
            "aggregate =",
            "on_sent =",
            "dialect =",
            "custody =",
            "latency =",
            "signal_delay =",
        ];
        let is_of_others = |line: &str| of_others.iter().any(|key| line.starts_with(key));
        let mut section = "";
        let mut without = String::new();
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let is_of_one_router = section == "[[routing]]"
                && ["program =", "copies =", "acknowledgments ="]
                    .iter()
                    .any(|key| line.starts_with(key));
            let is_lacking = section == "[telemetry]" && !cfg!(feature = "otlp");
            if !is_of_one_router && !is_lacking && (section != "[[link]]" || !is_of_others(line)) {
                without = without + line + "\n";
            }
        }
        let text = without;
        let file = NodeFile::parse(&text, Path::new("beta/node.toml")).unwrap();
        assert_eq!(file.node.links.len(), 1);
        assert_eq!(file.node.listeners.len(), 1);
        assert_eq!(file.node.routes.len(), 1);
        assert_eq!(file.node.reports.generate, 0x2_0000);
        assert!(file.tls.is_some() && file.admin.is_some());
    }

    #[test]
    fn the_commented_file_shows_every_key_and_its_default() {
        let text = write_commented("ipn:2.0", Path::new("beta"), Layout::Beside);
        assert!(text.lines().all(|line| line.len() <= 100));
        let text = text.replace("\n## ", " ");
        for section in SECTIONS {
            let after = text
                .split_once(&section.title())
                .map_or(text.as_str(), |(_, after)| after);
            for key in section.keys() {
                assert!(
                    after.contains(&format!("\n# {} = ", key.name))
                        || after.contains(&format!("\n{} = ", key.name)),
                    "{}",
                    key.name
                );
                if let Absent::Default(default) = key.absent {
                    assert!(
                        after.contains(&format!("Default: {default}.")),
                        "{}",
                        key.name
                    );
                }
            }
        }
    }
}
