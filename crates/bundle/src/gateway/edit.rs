//! [`Edit`]: the facts about a gateway and a hop that a translation needs.

use super::untranslatable::Untranslatable;
use crate::crc::CrcType;
use crate::eid::NodeId;
use crate::v6::{self, Priority};

/// The block that tells a bundle's age in version 6: programs differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgeDialect {
    /// Type 10, as IBR-DTN and DTN2 have it; ION, HDTN and DTNME take it for a custody ID.
    Type10,
    /// Type 20, as ION has it, and nobody takes for anything else.
    #[default]
    Type20,
}

impl AgeDialect {
    pub(super) const fn block_type(self) -> v6::BlockType {
        match self {
            Self::Type10 => v6::BlockType::CUSTODY_OR_AGE,
            Self::Type20 => v6::BlockType::AGE,
        }
    }
}

/// The parts of a translation that come from the gateway and not from the bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The gateway's node ID for the block of the previous node; without it the bundle leaves with none.
    pub previous_node: Option<NodeId>,
    /// Milliseconds since the bundle was received: its age grows by them. A bundle without creation time that came without age has this age.
    pub age_increase_ms: u64,
    /// The hop count that the bundle has here at least, before the crossing is counted: a copy that ended at the gateway may have had a greater one.
    pub least_hops: u64,
    /// Octets of the translated administrative record; of no meaning for other bundles.
    pub record_octets: Option<u64>,
    /// Towards 7: the payload block's checksum; none for the type that the bundle had in version 7, or CRC-32C.
    pub payload_crc: Option<CrcType>,
    /// Towards 6: the block that tells the age.
    pub age_dialect: AgeDialect,
    /// Towards 6: the class of service of a bundle that had none yet.
    pub priority: Priority,
    /// Towards 6: the node that takes custody, if it is requested: the gateway.
    pub custodian: Option<NodeId>,
}

impl Default for Edit {
    fn default() -> Self {
        Self {
            previous_node: None,
            age_increase_ms: 0,
            least_hops: 0,
            record_octets: None,
            payload_crc: None,
            age_dialect: AgeDialect::default(),
            priority: Priority::Normal,
            custodian: None,
        }
    }
}

/// The payload of a bundle that crosses.
pub(super) struct Payload {
    pub(super) octets: u64,
    pub(super) is_record: bool,
    pub(super) is_fragment: bool,
}

impl Edit {
    /// Octets of payload in the other version.
    pub(super) fn payload_octets(&self, came: &Payload) -> Result<u64, Untranslatable> {
        if !came.is_record {
            return Ok(came.octets);
        }
        if came.is_fragment {
            return Err(Untranslatable::FragmentOfRecord);
        }
        self.record_octets.ok_or(Untranslatable::Record)
    }
}
