//! Hosts send and receive nothing once the energy of their batteries is used up.
//!
//! The oracle adds up, from the scenario and from what leaves over links, and knows nothing of when hosts find their batteries empty.

use std::time::Duration;

use dhow_bundle::Instant;
use dhow_scenario::scenario::Battery;

use crate::queue::MachineIndex;

/// The time after which a host has found its battery empty.
const FOUND: Duration = Duration::from_secs(2);

/// The batteries of all machines.
#[derive(Debug, Default)]
pub struct Energy {
    batteries: Vec<Option<Account>>,
}

/// The energy of one machine's battery.
#[derive(Clone, Copy, Debug)]
struct Account {
    kind: Battery,
    /// Times that it has been recharged.
    charges: u128,
    /// Femtojoules that sending and receiving took since.
    used: u128,
    /// When all was used up, as far as is known.
    empty: Option<Instant>,
}

impl Energy {
    /// The oracle for machines with these batteries.
    pub fn new(kinds: impl Iterator<Item = Option<Battery>>) -> Self {
        let account = |kind| Account {
            kind,
            charges: 0,
            used: 0,
            empty: None,
        };
        let batteries: Vec<_> = kinds.map(|kind| kind.map(account)).collect();
        match batteries.iter().any(Option::is_some) {
            true => Self { batteries },
            false => Self::default(),
        }
    }

    /// A machine begins to send or to receive for a time: since when its battery is empty, where it has been for too long.
    pub fn handle_use(
        &mut self,
        now: Instant,
        at: MachineIndex,
        (is_sending, time): (bool, Duration),
    ) -> Option<Duration> {
        let account = self.batteries.get_mut(at.at())?.as_mut()?;
        account.recharge(now);
        let empty_for = account.empty_for(now);
        let power = match is_sending {
            true => account.kind.send_uw,
            false => account.kind.receive_uw,
        };
        account.used += u128::from(power) * time.as_nanos();
        account.empty_for(now);
        empty_for.filter(|it| *it > FOUND)
    }
}

impl Account {
    fn recharge(&mut self, now: Instant) {
        let Some(every) = self.kind.recharge.filter(|it| !it.is_zero()) else {
            return;
        };
        let charges = now.since(Instant::START).as_nanos() / every.as_nanos();
        if charges > self.charges {
            (self.charges, self.used, self.empty) = (charges, 0, None);
        }
    }

    /// The time since all was used up, where it is.
    fn empty_for(&mut self, now: Instant) -> Option<Duration> {
        // A microwatt takes a femtojoule in a nanosecond.
        let capacity = u128::from(self.kind.energy_pj) * 1_000;
        let every = self.kind.recharge.unwrap_or_default().as_nanos();
        let full = self.charges * every;
        let looked = now.since(Instant::START).as_nanos().saturating_sub(full);
        let scanned = looked * u128::from(self.kind.scan_uw);
        if self.used + scanned < capacity {
            return None;
        }
        Some(now.since(*self.empty.get_or_insert(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_long_after_the_last_of_the_energy_is_found() {
        // 10 J at 10 mW are 1,000 s, and 9 s of sending at 1 W leave 100 s of it.
        let kind = Battery {
            energy_pj: 10_000_000_000_000,
            scan_uw: 10_000,
            send_uw: 1_000_000,
            receive_uw: 0,
            recharge: Some(Duration::from_secs(500)),
        };
        let mut energy = Energy::new([None, Some(kind)].into_iter());
        let at = |s| Instant::START + Duration::from_secs(s);
        let second = Duration::from_secs(1);
        let mut sends = |s| energy.handle_use(at(s), MachineIndex(1), (true, second));
        for s in 0..9 {
            assert_eq!(sends(s), None);
        }
        assert_eq!(sends(99), None, "a hundredth of a joule is left");
        assert_eq!(sends(100), None, "it may not be found yet");
        assert_eq!(sends(101), None);
        assert_eq!(sends(102), Some(Duration::from_secs(3)));
        assert_eq!(sends(500), None, "it is full again");
        assert_eq!(
            energy.handle_use(at(1), MachineIndex(0), (true, second)),
            None
        );
    }
}
