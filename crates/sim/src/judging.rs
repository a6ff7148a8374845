//! What referees are shown, and what they say.

use crate::connection::EndState;
use crate::oracle::{Blocked, Foul};
use crate::queue::{ConnectionKey, Side};
use crate::world::World;

impl World {
    /// What one end says breaks a rule.
    pub(crate) fn call_foul(&mut self, key: ConnectionKey, side: Side, foul: &Foul) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let ends = [side, side.other()].map(|side| connection.end(side).machine);
        let [speaker, listener] = ends.map(|at| self.name(at));
        let sentence = format!("in a session with {listener}, {speaker} {foul}");
        self.accuse("wire", sentence, &ends);
    }

    /// Looks whether both ends that are there have done what is to be done in time.
    pub(crate) fn check_time(&mut self, key: ConnectionKey) {
        let now = self.now;
        for side in [Side::Dialling, Side::Accepting] {
            let Some(connection) = self.connection(key) else {
                return;
            };
            let end = connection.end(side);
            let is_there = end.state == EndState::Open && self.lives(end.machine, end.life);
            if !is_there || connection.broken {
                continue;
            }
            let Some(connection) = self.connection_mut(key) else {
                return;
            };
            let wants = connection.end(side).way.wants;
            let has_unread = !connection.towards_mut(side).unread.is_empty();
            let Some(referee) = &mut connection.referee else {
                return;
            };
            if wants {
                referee.handle_blocked(side, Blocked::Writing, now);
            }
            if has_unread {
                referee.handle_blocked(side, Blocked::Reading, now);
            }
            if let Err(foul) = referee.check_time(side, now) {
                self.call_foul(key, side, &foul);
            }
        }
    }
}
