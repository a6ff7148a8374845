//! Generators of messages, and the lifetime of these.

use super::settings::{number, range};
use super::{Writer, Wrong, toml_text};

impl Writer<'_> {
    /// Messages of one generator, with the lifetime of a group.
    pub(super) fn write_events(&mut self, events: u64, group: u64) -> Result<(), Wrong> {
        let key = |name: &str| format!("Events{events}.{name}");
        let class = self.need(&key("class"), |text| Some(text.to_owned()))?;
        if class != "MessageEventGenerator" {
            let what = format!("{} = {class} is not heeded", key("class"));
            self.notes.push(what);
            return Ok(());
        }
        let (least, most) = self.need(&key("interval"), range)?;
        let (small, large) = self.need(&key("size"), range)?;
        let among = self.need(&key("hosts"), range)?;
        let to = match self.settings.text(&key("tohosts")) {
            Some(_) => Some(self.need(&key("tohosts"), range)?),
            None => None,
        };
        // The name of the messages is for The ONE's reports.
        let _ = self.settings.text(&key("prefix"));
        let among = self.names(among);
        let to = to.map(|to| self.names(to));
        for (setting, names) in [("hosts", Some(&among)), ("tohosts", to.as_ref())] {
            if names.is_some_and(String::is_empty) {
                let what = format!("{} names no host: its messages are left out", key(setting));
                self.notes.push(what);
                return Ok(());
            }
        }
        self.line(format_args!(
            "\n[[messages]]\namong = [{among}]\nevery = \"{least}s..{most}s\"\nsize = \"{small}..{large}\""
        ));
        if let Some(to) = to {
            self.line(format_args!("to = [{to}]"));
        }
        if let Some((start, until)) = match self.settings.text(&key("time")) {
            Some(_) => Some(self.need(&key("time"), range)?),
            None => None,
        } {
            self.line(format_args!("start = \"{start}s\"\nuntil = \"{until}s\""));
        }
        let lifetime = self.lifetime(group)?;
        self.line(format_args!("lifetime = \"{lifetime}\""));
        Ok(())
    }

    /// The lifetime of messages: where none is set, or -1, they have no end.
    fn lifetime(&mut self, group: u64) -> Result<String, Wrong> {
        if self.settings.of_group(group, "msgTtl") == Some("-1") {
            return Ok("365d".to_owned());
        }
        match self.of(group, "msgTtl", number)? {
            Some(minutes) if minutes > 0.0 => Ok(format!("{minutes}min")),
            Some(_) => {
                // Hosts look for messages whose time is over once a minute, and take none to hand on of which less than a minute is left.
                let what = "Group.msgTtl = 0: The ONE lets go of each message within a minute and relays none; the lifetime is one minute here, and relays take part";
                self.note(what.to_owned());
                Ok("1min".to_owned())
            }
            None => Ok("365d".to_owned()),
        }
    }

    /// The names of hosts from one address to before another.
    fn names(&self, (least, most): (f64, f64)) -> String {
        let within = |address: usize| {
            let address = f64::from(u32::try_from(address).unwrap_or(u32::MAX));
            // One address is a range of one.
            least <= address && (address < most || (least == most && address == least))
        };
        let named = self.hosts.iter().enumerate();
        let named: Vec<&String> = named
            .filter_map(|(address, name)| within(address).then_some(name))
            .collect();
        if named.len() == self.hosts.len() {
            return "\"*\"".to_owned();
        }
        let named: Vec<String> = named.into_iter().map(|name| toml_text(name)).collect();
        named.join(", ")
    }
}
