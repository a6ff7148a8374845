//! Bundle-in-Bundle Encapsulation (draft-ietf-dtn-bibect-03): a whole bundle as the payload of another, and the custody signals that answer it.
//!
//! Both are administrative records, which [`AdministrativeRecord`](super::AdministrativeRecord) leaves alone: the encapsulated bundle may be
//! larger than memory, so the BIBE protocol data unit is read and written up to its first octet ([`BpduHead`]), and codes of the
//! dispositions in a signal depend on the peer ([`Numbering`]). Neither record type was ever registered, so they are a policy of each peer
//! ([`BibeTypes`]).

mod bpdu;
mod disposition;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod oracle;
mod record_type;
mod refusal;
mod signal;

pub use bpdu::{BpduHead, MAX_BPDU_HEAD_OCTETS};
pub use disposition::{Disposition, Numbering};
pub use record_type::{BibeRecord, BibeTypes};
pub use refusal::BibeRefusal;
pub use signal::{BibeSignal, MAX_RUNS};
