//! Radios that share a channel do one thing at a time.
//!
//! The oracle is told when octets leave over a link and when contacts begin and end. It knows neither for which radios senders wait nor which radios the
//! network takes for busy.

use std::collections::BTreeMap;

use dhow_bundle::Instant;
use dhow_scenario::scenario::{Channel, Sharing};

use crate::queue::MachineIndex;

/// Octets on the air.
#[derive(Clone, Debug)]
pub struct Burst {
    /// The number of the link.
    pub link: u32,
    /// The channel of its radios.
    pub channel: Channel,
    /// The machine that sends.
    pub from: MachineIndex,
    /// The machine that receives.
    pub to: MachineIndex,
    /// When the first octet begins to leave.
    pub begins: Instant,
    /// When the last has left.
    pub ends: Instant,
}

/// The channels of all radios.
#[derive(Debug, Default)]
pub struct Airtime {
    /// The contacts of machines, by the number of the link: the other end, and the channel.
    contacts: BTreeMap<(MachineIndex, u32), (MachineIndex, Channel)>,
    /// Octets that machines send, receive or hear, as far as they were on the air when the machine took part in something last.
    heard: BTreeMap<MachineIndex, Vec<Burst>>,
}

impl Airtime {
    /// A contact of a link begins, or goes on.
    pub fn handle_contact(
        &mut self,
        link: u32,
        (one, other): (MachineIndex, MachineIndex),
        channel: Channel,
    ) {
        self.contacts.insert((one, link), (other, channel));
        self.contacts.insert((other, link), (one, channel));
    }

    /// A contact of a link ends, and with it what is on the air.
    pub fn handle_contact_end(&mut self, link: u32, (one, other): (MachineIndex, MachineIndex)) {
        for end in [one, other] {
            let hearers = self.neighbours(end, None);
            for at in hearers.into_iter().chain([end]) {
                if let Some(heard) = self.heard.get_mut(&at) {
                    heard.retain(|it| it.link != link);
                }
            }
        }
        for end in [one, other] {
            self.contacts.remove(&(end, link));
        }
    }

    /// Octets leave: what else the sender or the receiver sends, receives or hears meanwhile.
    pub fn handle_sent(&mut self, now: Instant, burst: Burst) -> Option<Burst> {
        let is_beside = |it: &&Burst| {
            let is_same_way = it.link == burst.link && it.from == burst.from;
            let is_together = it.begins < burst.ends && burst.begins < it.ends;
            it.channel.radio == burst.channel.radio && !is_same_way && is_together
        };
        let ends = [burst.from, burst.to];
        let found = ends
            .iter()
            .flat_map(|at| self.heard.get(at).into_iter().flatten())
            .find(is_beside)
            .cloned();
        let hearers = match burst.channel.sharing {
            Sharing::Ends => Vec::new(),
            Sharing::Reach => self.neighbours(burst.from, Some(burst.channel.radio)),
        };
        for at in hearers.into_iter().chain(ends) {
            let heard = self.heard.entry(at).or_default();
            heard.retain(|it| it.ends > now);
            heard.push(burst.clone());
        }
        found
    }

    /// The machines with which one has a contact by a radio, or by any.
    fn neighbours(&self, at: MachineIndex, radio: Option<u32>) -> Vec<MachineIndex> {
        let contacts = self.contacts.range((at, 0)..=(at, u32::MAX));
        let is_by = |channel: &Channel| radio.is_none_or(|radio| radio == channel.radio);
        let contacts = contacts.filter(|(_, (_, channel))| is_by(channel));
        contacts.map(|(_, (other, _))| *other).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn burst(link: u32, (from, to): (u32, u32), (begins, ends): (u64, u64)) -> Burst {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        Burst {
            link,
            channel: Channel {
                radio: 0,
                sharing: Sharing::Ends,
            },
            from: MachineIndex(from),
            to: MachineIndex(to),
            begins: at(begins),
            ends: at(ends),
        }
    }

    #[test]
    fn a_machine_that_does_two_things_at_a_time_is_found() {
        let mut airtime = Airtime::default();
        let mut sent = |it: Burst| airtime.handle_sent(it.begins, it).is_some();
        assert!(!sent(burst(0, (0, 1), (0, 10))));
        assert!(!sent(burst(1, (2, 3), (0, 10))), "others");
        assert!(!sent(burst(0, (0, 1), (10, 20))), "the next of the same");
        assert!(sent(burst(0, (1, 0), (19, 30))), "the other way");
        assert!(!sent(burst(2, (1, 2), (30, 40))), "when that has left");
        assert!(sent(burst(3, (3, 2), (39, 50))));
    }

    #[test]
    fn all_within_reach_of_a_sender_hear_it_while_there_is_a_contact() {
        let mut airtime = Airtime::default();
        let reach = |mut it: Burst| {
            it.channel.sharing = Sharing::Reach;
            it
        };
        let channel = reach(burst(0, (0, 1), (0, 1))).channel;
        for (link, one, other) in [(0, 0, 1), (1, 0, 2), (2, 2, 3)] {
            let ends = (MachineIndex(one), MachineIndex(other));
            airtime.handle_contact(link, ends, channel);
        }
        let mut sent = |it: Burst| airtime.handle_sent(it.begins, reach(it)).map(|it| it.link);
        assert_eq!(sent(burst(0, (0, 1), (0, 10))), None);
        assert_eq!(sent(burst(2, (2, 3), (5, 6))), Some(0), "2 hears 0");
        airtime.handle_contact_end(0, (MachineIndex(0), MachineIndex(1)));
        let mut sent = |it: Burst| airtime.handle_sent(it.begins, reach(it)).map(|it| it.link);
        assert_eq!(sent(burst(2, (2, 3), (6, 7))), None);
    }
}
