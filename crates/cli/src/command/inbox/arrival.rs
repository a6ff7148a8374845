//! A bundle that came to an inbox, read as far as its payload says what to do with it.

use std::io::{self, Read};
use std::path::PathBuf;

use dhow_bundle::{BundleId, EndpointId};
use dhow_client::folder::{
    Change, FileHead, HEADER_OCTETS_MAX, Header, HeaderRefusal, MODE_BITS, RelativePath,
};
use dhow_client::{Delivery, Receipt};

use super::folder::Folder;
use super::folder::waiting::Waiter;
use super::incoming::{Arrived, CopyError, Incoming};
use super::refused::{KEPT_OCTETS, Reason};
use crate::calendar;

/// A bundle that came and is not confirmed.
#[derive(Debug)]
pub struct Arrival {
    /// Its identity.
    pub id: BundleId,
    /// The receipt by which the delivery is confirmed; `None` of a change that has waited, which was confirmed before.
    pub receipt: Option<Receipt>,
    /// The time that it took, where its creation time is known.
    pub delay_ms: Option<u64>,
    /// Octets of the file in it.
    pub octets: u64,
    /// Its fate: the intended one, and after the changes were made the real one.
    pub fate: Fate,
    /// Its payload, or the file in it, once written.
    pub file: Option<Arrived>,
    /// The place of its payload, once it was refused and kept.
    pub kept: Option<PathBuf>,
}

/// The fate of a bundle.
#[derive(Debug)]
pub enum Fate {
    /// The change is made.
    Make(Box<Header>),
    /// The change was made before, or a newer one was.
    Stale,
    /// The change cannot be made now: it waits in the folder, and is made later.
    Wait,
    /// The bundle is refused, with words about it and the path where it has one.
    Refuse(Reason, String, Option<RelativePath>),
}

/// The state of a delivery.
#[derive(Debug)]
pub enum Taken {
    /// The bundle came before.
    Repeat(Receipt),
    /// The bundle waits to be made durable.
    New(Box<Arrival>),
    /// A file could not be written, which has this path where the payload says one.
    Failed(Option<RelativePath>, io::Error),
}

impl Arrival {
    /// A change that has waited for its place.
    pub fn of_waiter(waiter: &Waiter) -> Self {
        let octets = match waiter.header.change {
            Change::File(file) => file.octets,
            Change::Removed => 0,
        };
        Self {
            octets,
            delay_ms: delay_ms(&waiter.id),
            id: waiter.id.clone(),
            receipt: None,
            fate: Fate::Make(Box::new(waiter.header.clone())),
            file: None,
            kept: None,
        }
    }

    /// Something is in the way of its change.
    pub fn refuse(&mut self, header: &Header, detail: String) {
        self.fate = Fate::Refuse(Reason::Place, detail, Some(header.path.clone()));
    }
}

/// Takes a delivery, and writes its file where that is not there already.
pub fn take(
    mut delivery: Delivery<'_>,
    folder: &Folder,
    incoming: &mut Incoming,
    allows: impl FnOnce(&EndpointId) -> bool,
) -> Result<Taken, CopyError> {
    let receipt = delivery.receipt();
    let id = delivery.head().id.clone();
    let payload_octets = delivery.head().payload_octets;
    let mut arrival = Box::new(Arrival {
        delay_ms: delay_ms(&id),
        id,
        receipt: Some(receipt),
        octets: 0,
        fate: Fate::Stale,
        file: None,
        kept: None,
    });
    if !allows(&arrival.id.source) {
        let detail = format!("--from does not name {}", arrival.id.source);
        arrival.fate = Fate::Refuse(Reason::Source, detail, None);
        return Ok(Taken::New(arrival));
    }
    let begin = read_beginning(&mut delivery, payload_octets)?;
    let (header, length) = match Header::decode(&begin) {
        Ok(read) => read,
        Err(refusal) => {
            let reason = match refusal {
                HeaderRefusal::Path(_) => Reason::Path,
                _ => Reason::Format,
            };
            arrival.fate = Fate::Refuse(reason, refusal.to_string(), None);
            let mut payload = begin.as_slice().chain(&mut delivery);
            arrival.file = keep(&mut payload, payload_octets, incoming)?;
            return Ok(Taken::New(arrival));
        }
    };
    let octets = payload_octets.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX));
    let file = match header.change {
        Change::File(file) => Some(file),
        Change::Removed => None,
    };
    let expected = file.map_or(0, |file| file.octets);
    if octets != expected {
        let detail = format!("it has {octets} octets behind a header of {expected}");
        arrival.fate = Fate::Refuse(Reason::Size, detail, Some(header.path));
        let mut payload = begin.as_slice().chain(&mut delivery);
        arrival.file = keep(&mut payload, payload_octets, incoming)?;
        return Ok(Taken::New(arrival));
    }
    if folder.is_stale(&header).map_err(database)? {
        return Ok(Taken::Repeat(receipt));
    }
    arrival.octets = octets;
    let is_there = match &file {
        Some(file) => folder.is_there(&header, file).map_err(database)?,
        None => true,
    };
    if let Some(file) = file
        && !is_there
    {
        let content = begin.get(length..).unwrap_or_default();
        let path = header.path.clone();
        let mut content = content.chain(&mut delivery);
        match write(&mut content, header, &file, incoming, &mut arrival) {
            Err(CopyError::Outgoing(error)) => return Ok(Taken::Failed(Some(path), error)),
            written => written?,
        }
    } else {
        arrival.fate = Fate::Make(Box::new(header));
    }
    Ok(Taken::New(arrival))
}

/// Writes a file and compares it with its header.
fn write(
    content: &mut impl Read,
    header: Header,
    file: &FileHead,
    incoming: &mut Incoming,
    arrival: &mut Arrival,
) -> Result<(), CopyError> {
    let (arrived, sha256, octets) = incoming.write(content)?;
    if octets != file.octets {
        return Err(CopyError::Incoming);
    }
    if sha256 == file.sha256 {
        arrived.set(file, MODE_BITS).map_err(CopyError::Outgoing)?;
        arrival.fate = Fate::Make(Box::new(header));
    } else {
        let detail = "its octets have another SHA-256 than its header says".to_owned();
        arrival.fate = Fate::Refuse(Reason::Digest, detail, Some(header.path));
    }
    // Of a damaged file its octets are kept.
    if sha256 == file.sha256 || octets <= KEPT_OCTETS {
        arrival.file = Some(arrived);
    }
    Ok(())
}

/// Writes a payload that is refused, unless it is too large to be kept.
fn keep(
    payload: &mut impl Read,
    octets: u64,
    incoming: &mut Incoming,
) -> Result<Option<Arrived>, CopyError> {
    if octets > KEPT_OCTETS {
        return Ok(None);
    }
    let (arrived, _, written) = incoming.write(payload)?;
    match written == octets {
        true => Ok(Some(arrived)),
        false => Err(CopyError::Incoming),
    }
}

/// The octets of a payload that may have a header, or all that it has.
fn read_beginning(payload: &mut impl Read, octets: u64) -> Result<Vec<u8>, CopyError> {
    let most = u64::try_from(HEADER_OCTETS_MAX).unwrap_or(u64::MAX);
    let length = octets.min(most);
    let mut begin = Vec::new();
    let read = payload.take(length).read_to_end(&mut begin);
    match read.map(u64::try_from) {
        Ok(Ok(read)) if read == length => Ok(begin),
        _ => Err(CopyError::Incoming),
    }
}

fn database(error: rusqlite::Error) -> CopyError {
    CopyError::Outgoing(io::Error::other(error))
}

fn delay_ms(id: &BundleId) -> Option<u64> {
    let created = id.creation.time;
    created.is_known().then(|| {
        let now = calendar::now().as_millis();
        now.saturating_sub(created.as_millis())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_a_header_is_read_and_all_of_it() {
        let payload = vec![7; HEADER_OCTETS_MAX + 9];
        let octets = u64::try_from(payload.len()).unwrap();
        let begin = read_beginning(&mut payload.as_slice(), octets).unwrap();
        assert_eq!(begin.len(), HEADER_OCTETS_MAX);
        assert_eq!(read_beginning(&mut &b"ab"[..], 2).unwrap(), b"ab");
        assert_eq!(read_beginning(&mut &b""[..], 0).unwrap(), b"");
        assert!(read_beginning(&mut &b"ab"[..], 3).is_err());
    }
}
