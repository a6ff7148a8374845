//! Payloads on their way to stdout: small ones are collected, so that many of them are one write.

use std::io::{self, Read, Seek as _, SeekFrom, Write};

use super::filing::{self, CopyError};
use crate::digest::Sha256;

/// Octets that are collected before they are written.
const COLLECTED_OCTETS: usize = 1 << 20;

/// Collected octets; each payload is in them whole or not at all.
#[derive(Debug, Default)]
pub struct Outflow {
    collected: Vec<u8>,
}

impl Outflow {
    /// Takes a payload of so many octets, which `digest` sees too. One that is small is written with the next
    /// [`flush`](Self::flush), a larger one at once, behind what was collected.
    pub fn take(
        &mut self,
        payload: &mut impl Read,
        octets: u64,
        digest: Option<&mut Sha256>,
        out: &mut impl Write,
    ) -> Result<u64, CopyError> {
        if usize::try_from(octets).is_ok_and(|octets| octets <= COLLECTED_OCTETS) {
            return self.collect(payload, octets, digest);
        }
        // A payload that breaks off must not be half on stdout.
        let mut spool = tempfile::tempfile().map_err(CopyError::Outgoing)?;
        let octets = filing::copy(payload, &mut spool, digest)?;
        spool
            .seek(SeekFrom::Start(0))
            .map_err(CopyError::Outgoing)?;
        self.flush(out).map_err(CopyError::Outgoing)?;
        filing::copy(&mut spool, out, None)?;
        Ok(octets)
    }

    fn collect(
        &mut self,
        payload: &mut impl Read,
        octets: u64,
        digest: Option<&mut Sha256>,
    ) -> Result<u64, CopyError> {
        let start = self.collected.len();
        let whole = payload.read_to_end(&mut self.collected);
        let read = self.collected.len().saturating_sub(start);
        if whole.is_err() || u64::try_from(read) != Ok(octets) {
            self.collected.truncate(start);
            return Err(CopyError::Incoming);
        }
        if let Some(digest) = digest {
            digest.update(self.collected.get(start..).unwrap_or_default());
        }
        Ok(octets)
    }

    /// True when what was collected should be written.
    pub fn is_full(&self) -> bool {
        self.collected.len() >= COLLECTED_OCTETS
    }

    /// Writes what was collected.
    pub fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        let outcome = out.write_all(&self.collected).and_then(|()| out.flush());
        self.collected.clear();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload whose connection breaks.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    #[test]
    fn payloads_come_out_in_order_whole_or_not_at_all() {
        let (mut outflow, mut out) = (Outflow::default(), Vec::new());
        let large = vec![7; COLLECTED_OCTETS + 1];
        let lengths = [3, 4, u64::try_from(large.len()).unwrap(), 5];
        for (payload, octets) in [&b"abc"[..], b"half", &large, b"after"]
            .into_iter()
            .zip(lengths)
        {
            let outcome = match payload {
                b"half" => outflow.take(&mut b"ha".chain(Broken), octets, None, &mut out),
                payload => outflow.take(&mut &payload[..], octets, None, &mut out),
            };
            assert_eq!(outcome.is_ok(), payload != b"half");
        }
        assert_eq!(out.len(), 3 + large.len(), "what is large does not wait");
        outflow.flush(&mut out).unwrap();
        assert_eq!(out, [b"abc", &large[..], b"after"].concat());
    }

    #[test]
    fn the_digest_is_of_the_payload_alone() {
        let (mut outflow, mut out) = (Outflow::default(), Vec::new());
        for payload in [b"abc", b"xyz"] {
            let mut digest = Sha256::default();
            let taken = outflow.take(&mut &payload[..], 3, Some(&mut digest), &mut out);
            assert!(taken.is_ok());
            assert_eq!(digest.hexadecimal(), Sha256::of(payload));
        }
    }
}
