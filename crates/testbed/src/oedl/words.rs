//! Words of a command line, with addresses of the script replaced by the names of their nodes.

use std::collections::BTreeMap;

/// The node and link of each address in a script.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    /// Names of nodes in the script, which it may take for addresses too, and in the scenario.
    hosts: BTreeMap<String, String>,
    by_text: BTreeMap<String, Owner>,
}

/// The node and links that have an address.
#[derive(Clone, Debug)]
struct Owner {
    node: String,
    link: String,
    /// True if the node has the address on further links, for which a scenario has other addresses.
    is_of_several: bool,
}

/// All addresses of a host.
const ANY_ADDRESS: &str = "0.0.0.0";

impl Addresses {
    /// An address of a node on a link; nodes may have one on several.
    pub fn add(&mut self, address: &str, node: &str, link: &str) {
        let found = self.by_text.entry(address.to_owned());
        found
            .and_modify(|owner| owner.is_of_several |= owner.node == node && owner.link != link)
            .or_insert_with(|| Owner {
                node: node.to_owned(),
                link: link.to_owned(),
                is_of_several: false,
            });
    }

    /// A node by its name in the script.
    pub fn add_host(&mut self, id: &str, node: &str) {
        self.hosts.insert(id.to_owned(), node.to_owned());
    }

    /// A word that may be a node's name, or have addresses in it, with these replaced.
    pub fn name_word(&self, word: &str, here: &str) -> String {
        match self.hosts.get(word) {
            Some(node) => format!("{{{node}}}"),
            None => self.name(word, here),
        }
    }

    /// A line of such words.
    pub fn name_words(&self, line: &str, here: &str) -> String {
        let words = line.split(' ').map(|word| self.name_word(word, here));
        words.collect::<Vec<_>>().join(" ")
    }

    /// The text with each address in it replaced: `{NODE:LINK}` stands for it in a scenario, and `{NODE}` where nobody says which link. A node's
    /// own address on several links becomes that of all of them: neighbours reach it at different ones.
    fn name(&self, text: &str, here: &str) -> String {
        let mut named = String::new();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let mut rest = text;
        while !rest.is_empty() {
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(length);
            let trimmed = word.trim_end_matches('.');
            match self.by_text.get(trimmed) {
                Some(Owner { node, .. }) if node != here => named += &format!("{{{node}}}"),
                Some(owner) if owner.is_of_several => named += ANY_ADDRESS,
                Some(Owner { node, link, .. }) => named += &format!("{{{node}:{link}}}"),
                None => named += trimmed,
            }
            named += word.get(trimmed.len()..).unwrap_or_default();
            let mut characters = behind.chars();
            named.extend(characters.next());
            rest = characters.as_str();
        }
        named
    }
}

/// A command line of words, as a scenario's `run` takes it.
pub(super) fn join(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    quoted.join(" ")
}

/// A word that a scenario reads as it is.
fn quote(word: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !"'\"\\".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    quote_for_shell(word)
}

/// A word that a shell reads as it is, whatever is in it; a scenario does so too.
pub(super) fn quote_for_shell(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The command line of a command that a shell was to read: without a shell where it needs none.
pub(super) fn command(text: &str) -> String {
    let needs_shell = text.contains(|c: char| "|&;<>()$`*?[]~#\"'\\\n=".contains(c));
    if needs_shell {
        return format!("sh -c {}", quote(text));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_the_nodes_that_have_them() {
        let mut addresses = Addresses::default();
        addresses.add("192.168.0.1", "one", "air");
        addresses.add("192.168.0.2", "two", "air");
        for (text, named) in [
            ("192.168.0.2", "{two}"),
            ("192.168.0.1", "{one:air}"),
            ("ping 192.168.0.2.", "ping {two}."),
            ("192.168.0.2:80,192.168.0.1", "{two}:80,{one:air}"),
            ("192.168.0.21 x192.168.0.2", "192.168.0.21 x192.168.0.2"),
        ] {
            assert_eq!(addresses.name(text, "one"), named, "{text}");
        }
        // Neighbours reach a node with several links at different addresses.
        addresses.add("192.168.0.2", "two", "air");
        assert_eq!(addresses.name("192.168.0.2", "two"), "{two:air}");
        addresses.add("192.168.0.2", "two", "air-2");
        assert_eq!(addresses.name("192.168.0.2", "two"), "0.0.0.0");
        assert_eq!(addresses.name("192.168.0.2", "one"), "{two}");
        addresses.add_host("omf.two", "two");
        assert_eq!(
            addresses.name_words("ping omf.two -x.omf.two", "one"),
            "ping {two} -x.omf.two"
        );
    }

    #[test]
    fn words_are_quoted_as_a_scenario_reads_them() {
        let words = ["sh", "-c", "echo 'a b'", ""].map(str::to_owned);
        assert_eq!(join(&words), r"sh -c 'echo '\''a b'\''' ''");
        assert_eq!(command("ping -c 3 {two}"), "ping -c 3 {two}");
        assert_eq!(command("ls | wc"), "sh -c 'ls | wc'");
    }
}
