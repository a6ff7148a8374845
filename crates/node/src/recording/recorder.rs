//! The recorder: the events and actions of its node become octets of a recording.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;

use dhow_bundle::Now;
use dhow_bundle::storage::Piece;
use dhow_link::Batch;
use dhow_link::datagram::Limit;

use super::digest::Digest;
use super::entry::{CALLS_MAX, Content, Entry, Finish};
use super::frame::{FRAME_HEAD_OCTETS, FrameHead, file_head};
use super::item::Item as _;
use super::omission::{Omission, Runs, Stored};
use crate::config::Config;
use crate::driver::{Action, Event, StreamId, Telling};

/// Octets after which a frame ends and another begins.
const FRAME_OCTETS: usize = 1 << 20;

/// Writes a node's recording, from its first octet; the node's driver takes the octets along.
#[derive(Debug)]
pub struct Recorder {
    /// Whole frames, and one that has only place for its head yet.
    out: Vec<u8>,
    /// The place in `out` at which the last frame begins.
    frame: usize,
    content: Content,
    now: Option<Now>,
    /// Calls of `poll` that are not written yet, and actions that they gave.
    polled: (u64, u64),
    digest: Digest,
    /// Finds the octets to leave out, where there are some.
    omission: Option<Omission>,
    runs: Runs,
}

impl Recorder {
    /// Begins the recording of a node; `program` is the name and version of the program that it runs in.
    #[must_use]
    pub fn new(program: &str, config: &Config, telling: Telling, content: Content) -> Self {
        let mut recorder = Self {
            out: file_head().to_vec(),
            frame: 0,
            content,
            now: None,
            polled: (0, 0),
            digest: Digest::default(),
            omission: match content {
                Content::Whole => None,
                Content::Without => Some(Omission::new(config)),
            },
            runs: Runs::default(),
        };
        recorder.open_frame();
        recorder.write(&Entry::Start {
            program: program.to_owned(),
            content,
            telling,
            config: Box::new(config.clone()),
        });
        recorder
    }

    /// The node is about to be told something; where that is octets from the store, they are `stored`.
    pub(crate) fn handle(&mut self, now: Now, event: &Event, stored: Stored) {
        self.at(now);
        match (&mut self.omission, event) {
            (Some(omission), Event::Octets { stream, octets }) => {
                omission.octets(*stream, octets, &mut self.runs);
                Entry::write_octets(&mut self.out, *stream, &mut self.runs);
            }
            (
                Some(omission),
                Event::Read {
                    ticket,
                    octets: Some(octets),
                },
            ) => {
                omission.stored(octets, stored, &mut self.runs);
                Entry::write_read(&mut self.out, *ticket, &mut self.runs);
            }
            (Some(omission), Event::Datagrams { stream, datagrams }) => {
                let omit = |datagram: &_, runs: &mut _| omission.datagram(datagram, runs);
                Entry::write_datagrams(&mut self.out, *stream, datagrams, &mut self.runs, omit);
            }
            (omission, event) => {
                if let Some(omission) = omission {
                    omission.watch(event);
                }
                Entry::write_event(&mut self.out, event);
            }
        }
        self.end_long_frame();
    }

    /// The node is about to be told that its time has come.
    pub(crate) fn handle_timeout(&mut self, now: Now) {
        self.at(now);
        self.write(&Entry::Timeout);
    }

    /// The node has been asked what to do.
    pub(crate) fn polled(&mut self, now: Now, action: Option<&Action>) {
        if self.now != Some(now) || self.polled.0 == CALLS_MAX {
            self.at(now);
        }
        self.polled.0 += 1;
        self.polled.1 += u64::from(action.is_some());
        self.digest.add(action, self.content);
    }

    /// The node has been asked for a stream's octets, at most about `limit` with the `held` ones that the list had before,
    /// and gave these.
    pub(crate) fn written(
        &mut self,
        now: Now,
        stream: StreamId,
        (limit, held): (usize, u64),
        pieces: &[Piece],
    ) {
        self.at(now);
        let mut octets = 0_u64;
        for piece in pieces {
            octets = octets.saturating_add(piece.length());
            self.digest.add_piece(piece, self.content);
        }
        self.write(&Entry::Written {
            stream,
            limit: u64::try_from(limit).unwrap_or(u64::MAX),
            held,
            octets,
            digest: self.digest.value(),
        });
    }

    /// The node has been asked for a conversation's datagrams, and gave these.
    pub(crate) fn given(&mut self, now: Now, stream: StreamId, limit: Limit, given: &Batch) {
        self.at(now);
        self.digest.add_datagrams(given, self.content);
        self.write(&Entry::Given {
            stream,
            limit: limit.datagrams,
            limit_octets: limit.octets,
            datagrams: given.len(),
            octets: given.octets(),
            digest: self.digest.value(),
        });
    }

    /// Adds the octets that were written since the last time to `out`: whole frames.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        self.write_polled();
        self.close_frame();
        if out.is_empty() {
            core::mem::swap(out, &mut self.out);
        } else {
            out.append(&mut self.out);
        }
        self.open_frame();
    }

    /// Octets that wait for `take`, about.
    #[must_use]
    pub const fn octets(&self) -> usize {
        self.out.len()
    }

    /// Ends the recording, and adds the octets that are left to `out`.
    pub fn finish(mut self, finish: Finish, out: &mut Vec<u8>) {
        self.write_polled();
        self.write(&Entry::End { finish });
        self.take(out);
    }

    /// The frame that ends a recording where some other frames before it are left out.
    #[must_use]
    pub fn end(finish: Finish) -> Vec<u8> {
        let mut content = Vec::new();
        Entry::End { finish }.write(&mut content);
        let head = FrameHead::of(&content).map(FrameHead::encode);
        let mut frame = head.map(Vec::from).unwrap_or_default();
        frame.append(&mut content);
        frame
    }

    /// Writes down what was polled before, and what the clocks show where they have moved on.
    fn at(&mut self, now: Now) {
        self.write_polled();
        if self.now != Some(now) {
            self.now = Some(now);
            self.write(&Entry::Time { now });
        }
    }

    fn write_polled(&mut self) {
        let (calls, actions) = core::mem::take(&mut self.polled);
        if calls > 0 {
            self.write(&Entry::Polled {
                calls,
                actions,
                digest: self.digest.value(),
            });
        }
    }

    fn write(&mut self, entry: &Entry) {
        entry.write(&mut self.out);
        self.end_long_frame();
    }

    fn end_long_frame(&mut self) {
        if self.out.len() - self.frame >= FRAME_OCTETS {
            self.close_frame();
            self.open_frame();
        }
    }

    fn open_frame(&mut self) {
        self.frame = self.out.len();
        self.out.extend_from_slice(&[0; FRAME_HEAD_OCTETS]);
    }

    /// Gives the last frame its head, or takes it back where it has no content.
    fn close_frame(&mut self) {
        let Some((place, content)) = self
            .out
            .get_mut(self.frame..)
            .and_then(|frame| frame.split_at_mut_checked(FRAME_HEAD_OCTETS))
        else {
            return;
        };
        match FrameHead::of(content) {
            Some(head) if head.length > 0 => place.copy_from_slice(&head.encode()),
            _ => self.out.truncate(self.frame),
        }
    }
}
