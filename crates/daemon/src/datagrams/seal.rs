//! Keys of LTP's authentication (RFC 5327 2.1), and the values that datagrams leave with.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{Context, HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key, sign};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    KeyPair as _, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaParameters,
};
use bytes::{Bytes, BytesMut};
use dhow_bundle::protocol::LtpAuthentication;
use dhow_bundle::storage::Piece;
use dhow_link::Batch;
use dhow_link::ltp::{Authentication, Ciphersuite, LEAST_MTU, Seal, VALUE_OCTETS};
use rustix::fs::{Mode, OFlags};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Octets of a shared key, at least: as many as a value of the ciphersuite has, below which guessing the key is easier.
pub const KEY_OCTETS_MIN: usize = 10;

/// Octets of a shared key, at most: longer ones are hashed, and no better.
pub const KEY_OCTETS_MAX: usize = 64;

/// Octets of the file of a key, at most: a pair of 8,192 bits takes 8,000.
const FILE_OCTETS_MAX: u64 = 64 << 10;

/// Bits of a key of RSA.
const RSA_BITS: std::ops::RangeInclusive<u32> = 2_048..=8_192;

/// The start of each part of a PEM file.
const PEM: &str = "-----BEGIN ";

/// The start of a private key that a passphrase guards, in both of its forms.
const ENCRYPTED: [&str; 2] = ["-----BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];

/// The keys of a link's segments. Key IDs that segments name are not looked at: there is one key of each engine, and a value is right or not.
pub enum SegmentKey {
    /// A key that both engines have, for HMAC-SHA1-80.
    Shared(Box<Key>),
    /// The private key of the engine here, and the public key of the peer, for RSA-SHA256.
    Pair {
        /// The private key, which signs outgoing segments.
        own: Box<RsaKeyPair>,
        /// The public key, which verifies incoming segments.
        peer: Box<ParsedPublicKey>,
    },
}

/// The reason for which a file is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// The path is a directory, a pipe, a device or the like.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file is too long.
    #[error("it has more than 64 KiB, and is no key")]
    TooLong,
    /// The key is not hexadecimal.
    #[error("it has something else than hexadecimal digits, and no PEM")]
    NotHexadecimal,
    /// The key is too short or too long.
    #[error("it has {0} octets, and a key has from {KEY_OCTETS_MIN} to {KEY_OCTETS_MAX}")]
    Length(usize),
    /// A part of a PEM file is missing, or is not read.
    #[error("it has no {part} (PEM): {why}")]
    Pem {
        /// The part.
        part: &'static str,
        /// The fault.
        why: String,
    },
    /// A PEM file has other keys, too.
    #[error("it has {0} keys (PEM), and a pair is one PRIVATE KEY and one PUBLIC KEY")]
    TooMany(usize),
    /// The private key needs a passphrase.
    #[error("its {OWN} is encrypted, and nobody can be asked for the passphrase")]
    Encrypted,
    /// A part of a PEM file is no key of RSA.
    #[error("its {part} is no key of RSA of 2048 to 8192 bits: {why}")]
    NotRsa {
        /// The part.
        part: &'static str,
        /// The fault.
        why: &'static str,
    },
    /// The peer's key is too short or too long.
    #[error("its {PEER} has {0} bits, and a key of RSA has from 2048 to 8192")]
    RsaBits(u32),
    /// The public key is not the peer's.
    #[error("its {PEER} belongs to the {OWN}: both ends would have one key")]
    OwnTwice,
}

impl KeyError {
    /// The way to make a key.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Pem { .. }
            | Self::TooMany(_)
            | Self::NotRsa { .. }
            | Self::RsaBits(_)
            | Self::OwnTwice => {
                "openssl genrsa -out own.key 3072 && openssl rsa -in own.key -pubout -out own.pub; the key file is: cat own.key peer.pub"
            }
            Self::Encrypted => {
                "openssl rsa -in own.key -out plain.key writes it without one; chmod 600 plain.key"
            }
            Self::Unreadable(_) => "look at its name, and for whom it can be read: ls -l",
            Self::NotAFile => {
                "write the key into a file that this user alone can read: chmod 600 FILE"
            }
            Self::TooLong | Self::NotHexadecimal | Self::Length(_) => {
                "a key is made by: openssl rand -hex 20"
            }
        }
    }
}

/// The parts of a PEM file.
const OWN: &str = "PRIVATE KEY of this end";
const PEER: &str = "PUBLIC KEY of the peer";

impl SegmentKey {
    /// The key in a file: hexadecimal digits, between which white space means nothing, of a shared key; PEM with the private key of this end and the
    /// public key of the peer for signatures.
    ///
    /// # Errors
    /// The file cannot be read, or is no key.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        Self::parse(&read(path)?)
    }

    fn parse(text: &str) -> Result<Self, KeyError> {
        match text.contains(PEM) {
            true => Self::parse_pair(text.as_bytes()),
            false => Self::parse_shared(text),
        }
    }

    fn parse_shared(text: &str) -> Result<Self, KeyError> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .filter(|it| !it.is_whitespace())
            .map(|it| it.to_digit(16).and_then(|it| u8::try_from(it).ok()))
            .collect();
        let digits = digits.ok_or(KeyError::NotHexadecimal)?;
        let pairs = digits.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return Err(KeyError::NotHexadecimal);
        }
        let octets: Vec<u8> = pairs
            .map(|pair| pair.iter().fold(0, |octet, digit| octet << 4 | digit))
            .collect();
        match octets.len() {
            KEY_OCTETS_MIN..=KEY_OCTETS_MAX => Ok(Self::shared(&octets)),
            length => Err(KeyError::Length(length)),
        }
    }

    fn parse_pair(pem: &[u8]) -> Result<Self, KeyError> {
        let no_pem = |part| {
            move |error: pem::Error| KeyError::Pem {
                part,
                why: pem_fault(&error),
            }
        };
        let is_in = |text: &&str| pem.windows(text.len()).any(|it| it == text.as_bytes());
        if ENCRYPTED.iter().any(is_in) {
            return Err(KeyError::Encrypted);
        }
        let count = keys(pem);
        if count > 2 {
            return Err(KeyError::TooMany(count));
        }
        let own = PrivateKeyDer::from_pem_slice(pem).map_err(no_pem(OWN))?;
        let peer = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(no_pem(PEER))?;
        let no_rsa = |part, why| KeyError::NotRsa { part, why };
        let own = match &own {
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            other => RsaKeyPair::from_der(other.secret_der()),
        };
        let own = own.map_err(|error| no_rsa(OWN, rsa_fault(error.description_())))?;
        let (_, named) = SubjectPublicKeyInfo::from_der(peer.as_ref())
            .map_err(|_| no_rsa(PEER, rsa_fault("")))?;
        let numbers = &*named.subject_public_key.data;
        let bits =
            RsaParameters::public_modulus_len(numbers).map_err(|_| no_rsa(PEER, rsa_fault("")))?;
        if !RSA_BITS.contains(&bits) {
            return Err(KeyError::RsaBits(bits));
        }
        if own.public_key().as_ref() == numbers {
            return Err(KeyError::OwnTwice);
        }
        let peer = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, peer.as_ref())
            .map_err(|error| no_rsa(PEER, rsa_fault(error.description_())))?;
        Ok(Self::Pair {
            own: Box::new(own),
            peer: Box::new(peer),
        })
    }

    /// A shared key of these octets.
    #[must_use]
    pub fn shared(octets: &[u8]) -> Self {
        Self::Shared(Box::new(Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, octets)))
    }

    /// The ciphersuite of segments sent.
    const fn suite(&self) -> Ciphersuite {
        match self {
            Self::Shared(_) => Ciphersuite::HmacSha1,
            Self::Pair { .. } => Ciphersuite::RsaSha256,
        }
    }

    /// Octets of the values of segments sent.
    #[must_use]
    pub fn value_octets(&self) -> u64 {
        let octets = match self {
            Self::Shared(_) => VALUE_OCTETS,
            Self::Pair { own, .. } => own.public_modulus_len(),
        };
        u64::try_from(octets).unwrap_or(u64::MAX)
    }

    /// Octets of the smallest datagram that may be asked for.
    #[must_use]
    pub fn least_mtu(&self) -> u64 {
        match self {
            Self::Shared(_) => LEAST_MTU,
            Self::Pair { .. } => LEAST_MTU.saturating_add(self.value_octets()),
        }
    }

    /// The authentication as a link's policy says it.
    #[must_use]
    pub fn policy(&self) -> LtpAuthentication {
        match self {
            Self::Shared(_) => LtpAuthentication::Key,
            Self::Pair { .. } => LtpAuthentication::Signature(self.value_octets()),
        }
    }

    /// The authentication by this key of all segments, both ways.
    #[must_use]
    pub fn authentication(self: &Arc<Self>) -> Authentication {
        let seal: Arc<dyn Seal> = Arc::<Self>::clone(self);
        Authentication {
            suite: self.suite(),
            key_id: Vec::new(),
            value_octets: self.value_octets(),
            seal: Some(seal),
        }
    }

    /// Append its value to each datagram of a batch, of which `octets` are the octets.
    pub fn seal(&self, batch: &mut Batch, octets: &mut Vec<Bytes>) {
        let mut sealed = Batch::new();
        let mut out = Vec::with_capacity(octets.len() + batch.len());
        // The values of all datagrams share their room.
        let room = usize::try_from(self.value_octets()).unwrap_or(VALUE_OCTETS);
        let mut values = BytesMut::with_capacity(batch.len() * room);
        let mut octets_in = octets.drain(..);
        for datagram in batch.datagrams() {
            let start = out.len();
            for piece in octets_in.by_ref().take(datagram.len()) {
                sealed.push(Piece::Octets(piece.clone()));
                out.push(piece);
            }
            self.write_value(out.get(start..).unwrap_or_default(), &mut values);
            let value = values.split().freeze();
            sealed.push(Piece::Octets(value.clone()));
            out.push(value);
            sealed.end_datagram();
        }
        drop(octets_in);
        *batch = sealed;
        *octets = out;
    }

    /// The value of a datagram. One that cannot be signed has a value that is not right: the peer drops it.
    fn write_value(&self, pieces: &[Bytes], out: &mut BytesMut) {
        match self {
            Self::Shared(key) => {
                let mut context = Context::with_key(key);
                pieces.iter().for_each(|piece| context.update(piece));
                let tag = context.sign();
                out.extend_from_slice(tag.as_ref().get(..VALUE_OCTETS).unwrap_or_default());
            }
            Self::Pair { own, .. } => {
                let mut value = vec![0; own.public_modulus_len()];
                let signed = own.sign(
                    &RSA_PKCS1_SHA256,
                    &SystemRandom::new(),
                    &pieces.concat(),
                    &mut value,
                );
                if signed.is_err() {
                    tracing::warn!("a segment of LTP cannot be signed");
                }
                out.extend_from_slice(&value);
            }
        }
    }
}

/// The key of a link as its file had it when a configuration was read. Two are equal where the files had the same text.
#[derive(Clone)]
pub struct KeyFile {
    /// SHA-256 of the text.
    digest: Vec<u8>,
    /// The key.
    pub key: Arc<SegmentKey>,
}

/// The keys of links by the paths of their files.
pub type Keys = BTreeMap<PathBuf, KeyFile>;

impl KeyFile {
    /// The key in a file, as by [`SegmentKey::load`].
    ///
    /// # Errors
    /// The file cannot be read, or is no key.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let text = read(path)?;
        Ok(Self {
            digest: digest(&SHA256, text.as_bytes()).as_ref().to_vec(),
            key: Arc::new(SegmentKey::parse(&text)?),
        })
    }
}

impl PartialEq for KeyFile {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for KeyFile {}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyFile")
    }
}

/// The text of a file that may be a key. Nothing waits for the other end of a pipe, and no more is read than a key has.
fn read(path: &Path) -> Result<String, KeyError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?;
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(KeyError::NotAFile);
    }
    let mut octets = Vec::new();
    file.take(FILE_OCTETS_MAX + 1).read_to_end(&mut octets)?;
    if u64::try_from(octets.len()).is_ok_and(|count| count > FILE_OCTETS_MAX) {
        return Err(KeyError::TooLong);
    }
    String::from_utf8(octets).map_err(|_| KeyError::NotHexadecimal)
}

/// The number of keys of any kind in PEM.
fn keys(pem: &[u8]) -> usize {
    let lines = pem.split(|octet| *octet == b'\n').map(<[u8]>::trim_ascii);
    let begins = |line: &&[u8]| line.starts_with(PEM.as_bytes()) && line.ends_with(b" KEY-----");
    lines.filter(begins).count()
}

/// Whether every user of this machine may read a file.
#[must_use]
pub fn is_open_to_all(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.mode() & Mode::ROTH.bits() != 0)
}

/// The fault of a part in PEM.
fn pem_fault(error: &pem::Error) -> String {
    let line = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("the line -----END {}----- is missing", line(end_marker))
        }
        pem::Error::IllegalSectionStart { line: start } => {
            format!("the line '{}' begins no part", line(start).escape_debug())
        }
        pem::Error::Base64Decode(_) => "its lines are not base64".to_owned(),
        pem::Error::NoItemsFound => "there is no such part".to_owned(),
        _ => "it cannot be read".to_owned(),
    }
}

/// The fault of a key of RSA, from the word of the library.
fn rsa_fault(word: &str) -> &'static str {
    match word {
        "TooSmall" => "it is too small",
        "TooLarge" => "it is too large",
        "InconsistentComponents" => "its numbers do not belong together",
        _ => "it is of another kind, or broken",
    }
}

impl Seal for SegmentKey {
    fn accepts(&self, suite: Ciphersuite, _: &[u8], octets: &[u8], value: &[u8]) -> bool {
        match (self, suite) {
            (Self::Shared(key), Ciphersuite::HmacSha1) => {
                let tag = sign(key, octets);
                let right = tag.as_ref().get(..VALUE_OCTETS).unwrap_or_default();
                verify_slices_are_equal(right, value).is_ok()
            }
            (Self::Pair { peer, .. }, Ciphersuite::RsaSha256) => {
                peer.verify_sig(octets, value).is_ok()
            }
            // Of NULL everybody has the key.
            _ => false,
        }
    }
}

impl fmt::Debug for SegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SegmentKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hexadecimal_digits() {
        assert!(SegmentKey::parse_shared("00112233 44556677\n8899AAbb\n").is_ok());
        let error = |text| SegmentKey::parse_shared(text).unwrap_err().to_string();
        assert!(error("secret").contains("hexadecimal"));
        assert!(error("012").contains("hexadecimal"));
        assert!(error("0011").contains("it has 2 octets"));
        assert!(error(&"00".repeat(65)).contains("it has 65 octets"));
    }

    #[test]
    fn each_datagram_has_the_value_of_all_its_octets() {
        let key = SegmentKey::shared(b"secret");
        let (mut batch, mut octets) = (Batch::new(), Vec::new());
        let datagrams: [&[&[u8]]; 2] = [&[b"head", b"body"], &[b"other"]];
        for datagram in datagrams {
            for piece in datagram {
                let piece = Bytes::from_static(piece);
                batch.push(Piece::Octets(piece.clone()));
                octets.push(piece);
            }
            batch.end_datagram();
        }
        key.seal(&mut batch, &mut octets);
        let suite = Ciphersuite::HmacSha1;
        let (first, second) = octets.split_at(3);
        for (datagram, expected) in [(first, b"headbody".as_slice()), (second, b"other")] {
            let whole = datagram.concat();
            let (segment, value) = whole.split_at(expected.len());
            assert_eq!((segment, value.len()), (expected, VALUE_OCTETS));
            assert!(key.accepts(suite, &[], segment, value));
            assert!(!key.accepts(suite, &[], &whole, value));
            assert!(!key.accepts(Ciphersuite::Null, &[], segment, value));
        }
        assert_eq!((batch.len(), batch.octets()), (2, 18 + 15));
    }

    fn pair(name: &str) -> Arc<SegmentKey> {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ltp_rsa/");
        let key = SegmentKey::load(&Path::new(place).join(name));
        Arc::new(key.expect("it is a pair of keys"))
    }

    /// The signature is that of `openssl dgst -sha256 -sign` with the private key in `here.pem`.
    #[test]
    fn a_signature_is_that_of_another_program() {
        let segment = include_bytes!("../../tests/data/ltp_rsa/segment").as_slice();
        let signature = include_bytes!("../../tests/data/ltp_rsa/signature").as_slice();
        let (here, peer) = (pair("here.pem"), pair("peer.pem"));
        let (mut batch, mut octets) = (Batch::new(), vec![Bytes::from_static(segment)]);
        batch.push(Piece::Octets(Bytes::from_static(segment)));
        batch.end_datagram();
        here.seal(&mut batch, &mut octets);
        let datagram = Bytes::from(octets.concat());
        assert_eq!(datagram, [segment, signature].concat());
        assert!(peer.authentication().accepts_all(&datagram));
        assert!(!here.authentication().accepts_all(&datagram), "its own");
        for place in [8, segment.len() - 5, datagram.len() - 1] {
            let mut changed = datagram.to_vec();
            changed[place] ^= 1;
            assert!(
                !peer.authentication().accepts_all(&changed.into()),
                "{place}"
            );
        }
        let shared = Arc::new(SegmentKey::shared(b"secret secret"));
        assert!(!shared.authentication().accepts_all(&datagram));
    }

    #[test]
    fn a_key_is_in_a_regular_file_of_bounded_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let error = |path: &Path| SegmentKey::load(path).unwrap_err();
        assert!(matches!(error(Path::new("/dev/zero")), KeyError::NotAFile));
        assert!(matches!(error(directory.path()), KeyError::NotAFile));
        assert!(matches!(error(&path), KeyError::Unreadable(_)));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(matches!(error(&path), KeyError::NotAFile));
        std::fs::remove_file(&path).unwrap();
        let blank = |octets: usize| " ".repeat(octets - 40) + &"00".repeat(20);
        std::fs::write(&path, blank(64 << 10)).unwrap();
        assert!(SegmentKey::load(&path).is_ok());
        std::fs::write(&path, blank((64 << 10) + 1)).unwrap();
        assert!(matches!(error(&path), KeyError::TooLong));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(error(&path), KeyError::NotHexadecimal));
    }

    #[test]
    fn a_file_that_every_user_may_read_is_known() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "00").unwrap();
        for (mode, is_open) in [(0o600, false), (0o640, false), (0o604, true), (0o644, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_all(&path), is_open, "{mode:o}");
        }
    }

    #[test]
    fn a_third_key_is_not_passed_over() {
        let whole = include_str!("../../tests/data/ltp_rsa/here.pem");
        let (own, peer) = whole.split_at(whole.find("-----BEGIN PUBLIC KEY").unwrap());
        for third in [own, peer] {
            let error = SegmentKey::parse_pair(format!("{whole}{third}").as_bytes());
            assert!(matches!(error, Err(KeyError::TooMany(3))), "{error:?}");
        }
        let with_words = format!("# of this end\n{whole}# no more keys\n");
        assert!(SegmentKey::parse_pair(with_words.as_bytes()).is_ok());
    }

    #[test]
    fn the_public_key_of_this_end_is_not_the_peers() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ltp_rsa/");
        let text = |name| std::fs::read_to_string(Path::new(place).join(name)).unwrap();
        let (here, peer) = (text("here.pem"), text("peer.pem"));
        let public = |whole: &str| whole.find("-----BEGIN PUBLIC KEY").unwrap();
        // Each file has the public key of the other.
        let own_twice = [&here[..public(&here)], &peer[public(&peer)..]].concat();
        let error = SegmentKey::parse_pair(own_twice.as_bytes()).unwrap_err();
        assert!(matches!(error, KeyError::OwnTwice), "{error}");
    }

    #[test]
    fn a_file_without_both_keys_is_refused() {
        let error = |pem: &str| {
            SegmentKey::parse_pair(pem.as_bytes())
                .unwrap_err()
                .to_string()
        };
        let whole = include_str!("../../tests/data/ltp_rsa/here.pem");
        let public = whole.find("-----BEGIN PUBLIC KEY").expect("it is there");
        let (own, peer) = whole.split_at(public);
        assert!(
            error(own).contains("PUBLIC KEY of the peer"),
            "{}",
            error(own)
        );
        assert!(
            error(peer).contains("PRIVATE KEY of this end"),
            "{}",
            error(peer)
        );
        let truncated = error(&own[..900]);
        assert!(
            truncated.ends_with("the line -----END PRIVATE KEY----- is missing"),
            "{truncated}"
        );
        let short = include_str!("../../tests/data/ltp_rsa/short.pub");
        let short = error(&format!("{own}{short}"));
        assert!(
            short.contains("has 1024 bits, and a key of RSA has from 2048 to 8192"),
            "{short}"
        );
        let encrypted = peer.replace("PUBLIC KEY", "ENCRYPTED PRIVATE KEY");
        assert!(error(&format!("{encrypted}{peer}")).contains("encrypted"));
        let broken = format!("{own}-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n");
        assert!(
            error(&broken).contains("no key of RSA"),
            "{}",
            error(&broken)
        );
    }
}
