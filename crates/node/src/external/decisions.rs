//! The decisions of a program, and their effects.

use core::time::Duration;

use dhow_bundle::Instant;
use dhow_bundle::storage::BundleKey;

use super::router::{External, Routed, Standing, Wish};
use super::wire::{Mode, Said};

/// The longest time after which a program wants to be asked again, milliseconds: a year.
const AGAIN_MS_MAX: u64 = 365 * 86_400_000;

impl External {
    /// The program says this.
    pub(crate) fn hear(&mut self, now: Instant, said: Said) {
        match said {
            // It has said so before.
            Said::Router { .. } | Said::Neighbour { .. } => {
                self.fault = Some("a second greeting".into())
            }
            Said::Forward { number, mode, hops } => {
                if let Some(routed) = self.decide(number, Standing::Forward(mode, hops))
                    && mode != Mode::Keep
                {
                    // Said again, it is to go there again.
                    routed.done.clear();
                    routed.barred.clear();
                }
                self.offer(number);
            }
            Said::Hold { number, again_ms } => {
                let is_held = self.decide(number, Standing::Held).is_some();
                if is_held && again_ms > 0 {
                    let wait = Duration::from_millis(again_ms.min(AGAIN_MS_MAX));
                    self.set_timer(number, Some(now + wait));
                }
            }
            Said::Discard { number, reason } => {
                if let Some(routed) = self.decide(number, Standing::Held) {
                    let key = routed.key;
                    self.wishes.push_back(Wish::Discard(key, reason));
                }
            }
            Said::Routes { number } => {
                let is_left =
                    self.bundles.get(&number).map(|it| &it.standing) == Some(&Standing::Left);
                match is_left {
                    true => {
                        self.counts.decisions += 1;
                        self.answered(number);
                    }
                    false => {
                        if let Some(routed) = self.decide(number, Standing::Held) {
                            let key = routed.key;
                            self.wishes.push_back(Wish::Leave(key));
                        }
                    }
                }
            }
            Said::Advert { peer, octets } => {
                if self.up.contains(&peer) {
                    self.adverts.insert(peer, octets);
                }
            }
        }
    }

    /// The program has decided about a bundle: it has this standing from now on. None where it is not held.
    fn decide(&mut self, number: u64, standing: Standing) -> Option<&mut Routed> {
        if !self.bundles.contains_key(&number) {
            self.counts.stale += 1;
            return None;
        }
        self.counts.decisions += 1;
        self.answered(number);
        self.set_timer(number, None);
        let routed = self.bundles.get_mut(&number)?;
        let before = core::mem::replace(&mut routed.standing, standing);
        if before == Standing::Left {
            self.wishes.push_back(Wish::Return(routed.key));
        }
        if let Standing::Forward(_, hops) = before {
            for peer in &hops {
                self.unwant(peer, number);
            }
        }
        self.bundles.get_mut(&number)
    }

    /// A bundle goes by routes.
    pub(crate) fn left(&mut self, key: BundleKey) {
        let Some(&number) = self.numbers.get(&key) else {
            return;
        };
        if let Some(routed) = self.bundles.get_mut(&number) {
            routed.standing = Standing::Left;
        }
        self.set_timer(number, None);
    }
}
