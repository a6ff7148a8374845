//! The other way into a collector: parcels that another part received, which must know when they are safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

use super::Figures;
use super::budget::Budget;
use super::session::{Arrived, Call, Kept, Said, SessionKey, now_s};
use crate::omsp::{Decoder, ROW_COST_MAX, SessionError};

/// Octets of a parcel, at most: clients make them of 64 KiB, a header and a row that may be longer, 16 MiB at most.
pub const PARCEL_OCTETS_MAX: u64 = 17 << 20;

/// Parcels have keys of sessions from here on, which clients that connect never reach.
const FIRST_KEY: SessionKey = 1 << 63;

/// Gives parcels to a collector. It must be gone before the collector is stopped.
#[derive(Debug)]
pub struct Intake {
    calls: SyncSender<Call>,
    figures: Arc<Figures>,
    rows: Arc<Budget>,
    next: AtomicU64,
}

/// A parcel that was given.
#[derive(Debug)]
#[must_use = "it is not safe yet"]
pub struct Pledge(Receiver<Kept>);

impl Intake {
    pub(super) const fn new(
        calls: SyncSender<Call>,
        figures: Arc<Figures>,
        rows: Arc<Budget>,
    ) -> Self {
        Self {
            calls,
            figures,
            rows,
            next: AtomicU64::new(FIRST_KEY),
        }
    }

    /// Takes a parcel. Waits while the databases are behind.
    ///
    /// # Errors
    /// It is none, and never will be.
    pub fn take(&self, octets: &[u8]) -> Result<Pledge, IntakeError> {
        let most = octets.len().saturating_mul(ROW_COST_MAX);
        let mut held = self.rows.take(most);
        let mut decoder = Decoder::default();
        decoder.feed(octets)?;
        decoder.finish();
        let header = decoder.header().cloned().ok_or(IntakeError::NoHeader)?;
        let parcel = header.parcel.ok_or(IntakeError::NoParcel)?;
        let batch = decoder.take();
        held.shrink(batch.octets());
        let (verdict, pledge) = mpsc::sync_channel(1);
        let rows = u64::try_from(batch.rows.len()).unwrap_or_default();
        self.figures.rows.fetch_add(rows, Ordering::Relaxed);
        self.figures
            .rejected
            .fetch_add(batch.refused.total(), Ordering::Relaxed);
        let call = Call {
            session: self.next.fetch_add(1, Ordering::Relaxed),
            said: Said::Parcel(Arrived {
                header: Box::new(header),
                parcel,
                batch,
                came_s: now_s(),
                held,
                verdict,
            }),
        };
        // If the store has ended, the pledge says so.
        let _ = self.calls.send(call);
        Ok(Pledge(pledge))
    }
}

impl Pledge {
    /// Waits until the fate of the parcel is known.
    #[must_use]
    pub fn wait(self) -> Kept {
        let ended = || Kept::Not("the collector has ended".to_owned());
        self.0.recv().unwrap_or_else(|_| ended())
    }
}

/// Why octets are no parcel.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The octets are no session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The octets end within a header.
    #[error("it ends within its header")]
    NoHeader,
    /// The octets are a session without a number: when they come again, nobody can tell.
    #[error("its header has no line 'parcel'")]
    NoParcel,
}
