//! The receiver: reads, checks, keeps, and acknowledges what is kept.
//!
//! One thread reads the socket into pieces of 128 KiB and checks every frame where it lies. Another takes all
//! pieces that wait, appends them to the log in one gather-write, syncs once, and acknowledges with one message.

use std::collections::VecDeque;
use std::io::{IoSlice, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::frame::{Acknowledgment, FrameReader};
use crate::log::{Log, Mode};
use crate::processor::cpu_seconds;
use crate::queue::{PIECE_OCTETS, Piece, Queue};

/// The longest silence of a peer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The storage of a receiver's frames.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The condition that holds before an acknowledgment.
    pub mode: Mode,
    /// The log's file, unless in memory.
    pub log: PathBuf,
    /// Octets of the log.
    pub log_octets: u64,
    /// Octets that may wait for the log.
    pub queue_octets: usize,
    /// Added to every sync.
    pub flush_delay: Duration,
}

/// The result of a receiver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Received {
    /// Frames checked and kept.
    pub frames: u64,
    /// Octets of the stream, headers included.
    pub octets: u64,
    /// Appends to the log, each followed by one acknowledgment.
    pub commits: u64,
    /// Syncs.
    pub flushes: u64,
    /// Processor time from the connection to its end, user and system.
    pub cpu_s: f64,
}

/// The place in which pieces are kept.
enum Keep {
    Memory {
        pieces: VecDeque<Piece>,
        bound: usize,
    },
    File(Log),
}

/// A receiver whose log is prepared.
pub struct Receiver {
    queue: Queue,
    keep: Keep,
}

impl Receiver {
    /// Prepares log and buffers.
    ///
    /// # Errors
    /// The log cannot be made.
    pub fn new(terms: &Terms) -> Result<Self, Failure> {
        let waiting = (terms.queue_octets / PIECE_OCTETS).max(2);
        let bound = usize::try_from(terms.log_octets).unwrap_or(usize::MAX) / PIECE_OCTETS;
        let open = || {
            Log::open(&terms.log, terms.log_octets)
                .map_err(|error| Failure::Log(terms.log.clone(), error))
        };
        Ok(match terms.mode {
            Mode::Memory => Self {
                queue: Queue::new(waiting + bound),
                keep: Keep::Memory {
                    pieces: VecDeque::new(),
                    bound,
                },
            },
            Mode::Os => Self {
                queue: Queue::new(waiting),
                keep: Keep::File(open()?),
            },
            Mode::Sync => Self {
                queue: Queue::new(waiting),
                keep: Keep::File(open()?.with_flush(terms.flush_delay)),
            },
        })
    }

    /// Takes one stream to its end.
    ///
    /// # Errors
    /// The stream is not one of frames, or the system refused.
    pub fn receive(mut self, stream: &TcpStream) -> Result<Received, Failure> {
        let before = cpu_seconds();
        stream.set_nodelay(true).map_err(Failure::Stream)?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .map_err(Failure::Stream)?;
        let queue = &self.queue;
        let keep = &mut self.keep;
        let (read, kept) = std::thread::scope(|scope| {
            let keeper = scope.spawn(move || {
                let kept = commit_all(stream, queue, keep);
                queue.end();
                kept
            });
            let read = read_all(stream, queue);
            queue.end();
            (read, keeper.join())
        });
        let (acknowledged, commits) =
            kept.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        read?;
        let flushes = match &self.keep {
            Keep::Memory { .. } => 0,
            Keep::File(log) => log.flushes(),
        };
        let Acknowledgment { octets, frames } = acknowledged;
        Ok(Received {
            frames,
            octets,
            commits,
            flushes,
            cpu_s: cpu_seconds() - before,
        })
    }
}

/// Reads and checks until the stream ends.
fn read_all(stream: &TcpStream, queue: &Queue) -> Result<(), Failure> {
    let mut reader = FrameReader::default();
    while let Some(mut piece) = queue.place() {
        match recv(stream, piece.room(), RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                queue.put(piece);
                break;
            }
            Ok((octets, _)) => {
                let read = piece.room();
                reader.take(read.get(..octets).unwrap_or_default())?;
                piece.fill(octets, reader.frames());
                queue.put(piece);
            }
            Err(Errno::AGAIN) => {
                queue.put(piece);
                wait_for_octets(stream)?;
            }
            Err(Errno::INTR) => queue.put(piece),
            Err(error) => return Err(Failure::Stream(error.into())),
        }
    }
    if reader.between_frames() {
        Ok(())
    } else {
        Err(Failure::Cut(reader.frames()))
    }
}

/// Waits for the next octets and leaves them where they are.
fn wait_for_octets(stream: &TcpStream) -> Result<(), Failure> {
    match recv(stream, &mut [0; 1], RecvFlags::PEEK) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(Errno::AGAIN) => Err(Failure::Silent),
        Err(error) => Err(Failure::Stream(error.into())),
    }
}

/// Commits everything that waits, again and again, until the queue ends. Returns what is kept and the number of commits.
fn commit_all(
    mut stream: &TcpStream,
    queue: &Queue,
    keep: &mut Keep,
) -> Result<(Acknowledgment, u64), Failure> {
    let mut kept = Acknowledgment::default();
    let mut commits = 0;
    while let Some(pieces) = queue.take() {
        for piece in &pieces {
            kept.octets += u64::try_from(piece.octets().len()).unwrap_or(u64::MAX);
            kept.frames = piece.frames();
        }
        match keep {
            Keep::File(log) => {
                let mut slices: Vec<_> = pieces
                    .iter()
                    .map(|piece| IoSlice::new(piece.octets()))
                    .collect();
                log.append(&mut slices).map_err(Failure::Append)?;
                queue.free(pieces);
            }
            Keep::Memory {
                pieces: held,
                bound,
            } => {
                held.extend(pieces);
                queue.free(held.drain(..held.len().saturating_sub(*bound)));
            }
        }
        stream.write_all(&kept.octets()).map_err(Failure::Stream)?;
        commits += 1;
    }
    Ok((kept, commits))
}
