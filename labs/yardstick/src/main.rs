//! The yardstick: what one TCP connection and one log can do on this machine, and no more than that.
//!
//! `frame` is the protocol, `sender` and `receiver` the two sides, `origin` and `log` what they read from and append
//! to, `queue` what lies between the receiver's two threads, `run` one measurement with both sides as processes.

mod failure;
mod frame;
mod log;
mod origin;
mod processor;
mod queue;
mod receiver;
mod run;
mod sender;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::log::Mode;
use crate::receiver::Receiver;

const MIB: u64 = 1 << 20;

/// Moves checksummed frames over one TCP connection into a recycled log with group commit: the limit of TCP plus log
/// on this machine, with nothing of a DTN node in between.
///
/// The sender reads frames from a log that it filled before (a file in the page cache; memory with --mode memory)
/// in pieces of 128 KiB, numbers them, computes the CRC-32C of every payload, and writes each piece with one call while
/// no more octets than the window are unacknowledged. The receiver reads 128 KiB at a time, checks every header and
/// payload where it lies, and hands the buffer to a second thread, which appends everything that waits to a log of fixed
/// size with one gather-write, calls fdatasync once (--mode sync), and acknowledges it with one message of 16 octets.
/// The log was written with zeros before and is written over from its start when its end is reached. No octet is copied
/// by the processes themselves. Time runs from the first octet to the last acknowledgment.
#[derive(Parser)]
#[command(name = "yardstick", version)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure once: starts both sides as processes, connects them over loopback, prints one JSON object.
    Run(Run),
    /// The receiving side: prints its address, takes one connection, prints what it did as JSON.
    Receive(Receive),
    /// The sending side: fills its log, connects, sends, prints what it did as JSON.
    Send(Send),
}

/// The arguments that both sides have.
#[derive(Args, Clone)]
struct Shared {
    /// The condition that holds before a frame is acknowledged.
    #[arg(long, value_enum, default_value = "sync")]
    mode: Mode,
    /// MiB of each side's log.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    log_mib: u64,
}

#[derive(Args, Clone)]
struct Load {
    /// Payload octets of a frame.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=1 << 30))]
    size: u32,
    /// Frames.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    count: u64,
    /// MiB sent and not yet acknowledged, at most.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    window_mib: u64,
}

#[derive(Args, Clone)]
struct Keeping {
    /// Milliseconds added to every sync, as a slower disk would.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    flush_delay: u64,
    /// MiB read and not yet in the log, at most.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    queue_mib: u64,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    keeping: Keeping,
    /// The directory of the two logs, which stay there and are used again. Without it they are removed.
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Args)]
struct Receive {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    keeping: Keeping,
    /// The address to listen at.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The log's file.
    #[arg(long, default_value = "received.log")]
    log: PathBuf,
}

#[derive(Args)]
struct Send {
    /// The receiver.
    address: SocketAddr,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    load: Load,
    /// The log's file.
    #[arg(long, default_value = "sent.log")]
    log: PathBuf,
}

fn receive(words: &Receive) -> Result<(), Failure> {
    let receiver = Receiver::new(&receiver::Terms {
        mode: words.shared.mode,
        log: words.log.clone(),
        log_octets: words.shared.log_mib * MIB,
        queue_octets: usize::try_from(words.keeping.queue_mib * MIB).unwrap_or(usize::MAX),
        flush_delay: Duration::from_millis(words.keeping.flush_delay),
    })?;
    let listener = TcpListener::bind(words.listen).map_err(Failure::Stream)?;
    say(&listener.local_addr().map_err(Failure::Stream)?.to_string());
    let (stream, _) = listener.accept().map_err(Failure::Stream)?;
    say(&json(&receiver.receive(&stream)?));
    Ok(())
}

fn send(words: &Send) -> Result<(), Failure> {
    let sent = sender::send(
        words.address,
        &sender::Terms {
            mode: words.shared.mode,
            log: words.log.clone(),
            log_octets: words.shared.log_mib * MIB,
            size: usize::try_from(words.load.size).unwrap_or(usize::MAX),
            count: words.load.count,
            window_octets: words.load.window_mib * MIB,
        },
    )?;
    say(&json(&sent));
    Ok(())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// One line on standard output; who does not listen any more needs no error.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The exit code after Ctrl-C, as shells count it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let interrupted = Arc::new(AtomicBool::new(false));
    let done = match Words::parse().command {
        Command::Run(words) => {
            // Both sides get the signal too and end; this process lives on to remove their files.
            for signal in [SIGINT, SIGTERM] {
                let _ = signal_hook::flag::register(signal, Arc::clone(&interrupted));
            }
            run::run(&words).map(|measured| say(&json(&measured)))
        }
        Command::Receive(words) => receive(&words),
        Command::Send(words) => send(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if interrupted.load(Ordering::Relaxed) => ExitCode::from(INTERRUPTED),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "yardstick: cannot measure: {failure}");
            ExitCode::FAILURE
        }
    }
}
