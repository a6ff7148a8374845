//! Files and directories that a node file names and that must be there.

use std::io::ErrorKind;
use std::path::Path;

use dhow_bundle::protocol::Protocol;
use dhow_document::{Document, Entries, FileError};

use super::access::check_groups;
use super::file::{DialSettings, NodeFile, TlsSettings};
use super::schema::SECTIONS;
use super::socket::PATH_OCTETS_MAX;
use crate::datagrams::seal::{KeyError, KeyFile, Keys, SegmentKey};
use crate::streams::tls::{Tls, TlsError};

impl NodeFile {
    /// Refuse a node file that names files which are not there or are of no use: its `text` was read from `path` as this value. Contact plans
    /// are not read ([`Self::contacts`] does).
    ///
    /// # Errors
    /// When it does; the first such file is named.
    pub fn check_named_files(&self, text: &str, path: &Path) -> Result<(), FileError> {
        let document = Document::read(path, text, SECTIONS)?;
        if let Some((entries, settings)) = document.all("tls").next().zip(self.tls.as_ref()) {
            check_tls(&document, entries, settings)?;
        }
        for (entries, dial) in document.all("link").zip(&self.dial) {
            if let Some(key) = &dial.key {
                match SegmentKey::load(key) {
                    // The node may be another user's.
                    Err(KeyError::Unreadable(error))
                        if error.kind() == ErrorKind::PermissionDenied => {}
                    loaded => check_key(&document, entries, (key, loaded), &dial.protocol)?,
                }
            }
        }
        check_groups(&document)?;
        // The admin socket's path is the longer one.
        let api = document.one("api")?;
        check_socket(
            &document,
            &api,
            &self.admin_socket(),
            " with \".admin\" behind it",
        )?;
        match &self.external_socket {
            Some(path) => check_socket(&document, &document.one("external")?, path, ""),
            None => Ok(()),
        }
    }

    /// Refuse a link whose key this process cannot read or use: the `text` was read from `path` as this value.
    ///
    /// # Errors
    /// When it cannot.
    pub fn check_key_of_link(&self, text: &str, path: &Path, name: &str) -> Result<(), FileError> {
        let document = Document::read(path, text, SECTIONS)?;
        let links = document.all("link").zip(&self.dial).zip(&self.node.links);
        for ((entries, dial), _) in links.filter(|(_, link)| link.name == name) {
            if let Some(key) = &dial.key {
                let loaded = SegmentKey::load(key);
                check_key(&document, entries, (key, loaded), &dial.protocol)?;
            }
        }
        Ok(())
    }

    /// Take up the keys that links over LTP name: those that are `known`, and all others from their files. Of one that cannot be read now, its link
    /// hears when its conversation begins.
    pub fn settle_keys(&mut self, known: &Keys) {
        for (link, dial) in self.node.links.iter_mut().zip(&mut self.dial) {
            let Some(path) = dial.key.as_deref() else {
                continue;
            };
            let known = known.get(path).cloned();
            dial.segment_key = known.or_else(|| KeyFile::load(path).ok());
            let Some(file) = &dial.segment_key else {
                continue;
            };
            for protocol in [&mut link.protocol, &mut dial.protocol] {
                if let Protocol::Ltp(policy) = protocol {
                    policy.authentication = file.key.policy();
                }
            }
        }
    }

    /// The keys that [`Self::settle_keys`] took up.
    #[must_use]
    pub fn keys(&self) -> Keys {
        let keys = self.dial.iter().filter_map(|dial| {
            let path = dial.key.clone()?;
            Some((path, dial.segment_key.clone()?))
        });
        keys.collect()
    }

    /// Refuse a node file with a key that could not be taken up: its link would go on with none.
    ///
    /// # Errors
    /// When there is such a key; the first one is named.
    pub fn check_keys(&self) -> Result<(), FileError> {
        let lacks = |dial: &&DialSettings| dial.key.is_some() && dial.segment_key.is_none();
        let Some(path) = self.dial.iter().find(lacks).and_then(|it| it.key.as_ref()) else {
            return Ok(());
        };
        let Err(error) = KeyFile::load(path) else {
            return Ok(());
        };
        let what = format!("'key' of a link names {}: {error}", path.display());
        Err(FileError::of_file(&self.path, what).with_hint(error.hint()))
    }
}

/// A socket can be made where a section says; `with` tells of a path that is longer than what is written.
fn check_socket(
    document: &Document<'_>,
    entries: &Entries,
    path: &Path,
    with: &str,
) -> Result<(), FileError> {
    let line = entries.line_of("socket");
    let octets = path.as_os_str().len();
    if octets > PATH_OCTETS_MAX {
        let what = format!(
            "'socket' leads to a path of {octets} octets{with}, and {PATH_OCTETS_MAX} are allowed"
        );
        return Err(document
            .fault(line, what)
            .with_hint("choose a shorter one, such as \"/run/dhow.sock\""));
    }
    let directory = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    if is_denied(directory) || directory.is_dir() {
        return Ok(());
    }
    let what = format!(
        "'socket' is to be in {}, which is not a directory",
        directory.display()
    );
    Err(document
        .fault(line, what)
        .with_hint("make it, or name a path in a directory that is there"))
}

/// A link's key over LTP was read, and its values have room in datagrams.
fn check_key(
    document: &Document<'_>,
    entries: &Entries,
    (path, loaded): (&Path, Result<SegmentKey, KeyError>),
    protocol: &Protocol,
) -> Result<(), FileError> {
    let error = match loaded {
        Err(error) => error,
        Ok(key) => {
            let least = key.least_mtu();
            return match protocol {
                Protocol::Ltp(policy) if policy.mtu_octets < least => {
                    let what = format!("'mtu' must be {least} octets or more with this 'key'");
                    let fault = document.fault(entries.line_of("mtu"), what);
                    Err(fault.with_hint("each datagram has a signature"))
                }
                _ => Ok(()),
            };
        }
    };
    let what = format!("'key' names {}: {error}", path.display());
    Err(document
        .fault(entries.line_of("key"), what)
        .with_hint(error.hint()))
}

/// Certificates and keys can be read and belong together.
fn check_tls(
    document: &Document<'_>,
    entries: &Entries,
    settings: &TlsSettings,
) -> Result<(), FileError> {
    let TlsSettings {
        certificate,
        key,
        authorities,
    } = settings;
    let named = [("certificate", certificate), ("key", key)];
    let mut named = named
        .into_iter()
        .chain(authorities.iter().map(|path| ("authorities", path)));
    // A key that only the node's user may read is checked when the node starts.
    if named.clone().any(|(_, path)| is_denied(path)) {
        return Ok(());
    }
    let (key, what) = match Tls::load(settings) {
        Ok(_) => return Ok(()),
        Err(error) => match &error {
            TlsError::Pem { path, .. } => {
                let found = named.find(|(_, named)| *named == path);
                (found.map_or("certificate", |(key, _)| key), error)
            }
            TlsError::Identity(_) => ("certificate", error),
        },
    };
    let hint = match &what {
        TlsError::Pem { .. } => "paths are relative to this file, and the files are PEM",
        TlsError::Identity(_) => {
            "'key' must be that of 'certificate', and 'authorities' certificates of authorities"
        }
    };
    Err(document
        .fault(
            entries.line_of(key),
            format!("'{key}' cannot be used: {what}"),
        )
        .with_hint(hint))
}

/// Whether this user may not look.
fn is_denied(path: &Path) -> bool {
    let denied = |error: std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => std::fs::File::open(path).is_err_and(denied),
        Ok(_) => false,
        Err(error) => denied(error),
    }
}
