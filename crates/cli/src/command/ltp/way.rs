//! The path between two engines, as both commands describe it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dhow_daemon::datagrams::seal::{SegmentKey, is_open_to_all};
use dhow_daemon::ltp_files::{PLAIN_FILES, Way};
use dhow_link::ltp::{LEAST_MTU, MAX_COOKIE_OCTETS, MAX_MTU};

use crate::arguments::{parse_duration, parse_number, parse_rate};
use crate::failure::Failure;
use crate::output;

/// The port of LTP over UDP (RFC 7122 2).
pub const PORT: u16 = 1113;

/// The options of a path.
#[derive(Args, Clone, Debug)]
pub struct WayOptions {
    /// The client service of the files: the same at both ends
    #[arg(long, value_name = "N", value_parser = parse_number, default_value_t = PLAIN_FILES)]
    service: u64,
    /// UDP payload that leaves in a second; nothing else slows it down. At once leaves no more than a tenth of it, or one datagram
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "10Mbit")]
    rate: u64,
    /// One-way light time to the other engine
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "50ms")]
    light_time: Duration,
    /// Octets of UDP payload in a datagram, at most
    #[arg(long, value_name = "OCTETS", default_value_t = 1400, value_parser = clap::value_parser!(u64).range(LEAST_MTU..=MAX_MTU))]
    mtu: u64,
    /// A file with a key of 10 to 64 octets as hexadecimal digits, which both ends have: segments are authenticated by HMAC-SHA1-80. Or PEM with the private
    /// key of this end and the public key of the other: by RSA-SHA256
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Octets of the cookie that this end adds to the segments of each session, up to 64; 0 for none
    #[arg(long, value_name = "OCTETS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MAX_COOKIE_OCTETS))]
    cookie: u64,
}

impl WayOptions {
    /// The path; sessions in which nothing comes for so long end.
    pub const fn way(&self, silence: Duration) -> Way {
        Way {
            octets_per_s: self.rate,
            mtu_octets: self.mtu,
            light_time: self.light_time,
            service: self.service,
            silence,
            cookie_octets: self.cookie,
        }
    }

    /// Octets of UDP payload in a datagram, at most.
    pub const fn mtu(&self) -> u64 {
        self.mtu
    }

    /// UDP payload that leaves in a second, octets.
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// One-way light time.
    pub const fn light_time(&self) -> Duration {
        self.light_time
    }

    /// The file of the key, where segments are authenticated.
    pub fn key_file(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    /// The key, where there is one.
    pub fn key(&self) -> Result<Option<Arc<SegmentKey>>, Failure> {
        let key = self.key.as_deref().map(load).transpose()?;
        let least = key.as_ref().map_or(LEAST_MTU, |key| key.least_mtu());
        match self.mtu < least {
            true => {
                let what = format!("--mtu must be {least} or more with this key");
                Err(Failure::usage(what).with_hint("each datagram has a signature"))
            }
            false => {
                self.note_open_key();
                Ok(key)
            }
        }
    }

    /// A note where the key is no secret on this machine.
    fn note_open_key(&self) {
        if let Some(path) = self.key.as_deref().filter(|path| is_open_to_all(path)) {
            let path = path.display();
            output::note(&format!(
                "every user of this machine can read the key in {path}"
            ));
            output::hint(&format!("chmod 600 {path}"));
        }
    }
}

fn load(path: &Path) -> Result<Arc<SegmentKey>, Failure> {
    SegmentKey::load(path).map(Arc::new).map_err(|error| {
        Failure::usage(format!(
            "cannot take the key in {}: {error}",
            path.display()
        ))
        .with_hint(error.hint())
    })
}

/// A number that is hard to guess.
pub fn seed() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::refused(format!("no random numbers: {error}")))
}
