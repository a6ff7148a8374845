//! Access to the sockets of applications and operators, in a node file.

use dhow_document::schema::{Absent, Key, Kind, key};
use dhow_document::{Document, FileError};

use crate::groups::gid_of;

/// The group of `[api]`.
pub(super) const API_GROUP: Key = key(
    "group",
    Kind::Text,
    Absent::Means("the group of the node's process"),
    "\"dhow\"",
    "Group of the system, by name or number, whose members may send and receive over 'socket'.",
);

/// The group of `[admin]`.
pub(super) const ADMIN_GROUP: Key = key(
    "group",
    Kind::Text,
    Absent::Means("nobody but root and the user that runs the node"),
    "\"dhow-admin\"",
    "Group of the system whose members may operate the node over the admin socket.",
);

/// The group that may look, of `[admin]`.
pub(super) const READ_GROUP: Key = key(
    "read_group",
    Kind::Text,
    Absent::Means("nobody else"),
    "\"dhow\"",
    "Group of the system whose members may read what the admin socket tells, and change nothing. Membership is what the system's database says of the user.",
);

/// The groups of the system that may use a node's sockets, as they are written; none where nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The group of applications.
    pub api: Option<String>,
    /// The group of operators.
    pub admin: Option<String>,
    /// The group that may only look.
    pub readers: Option<String>,
}

/// The keys of the groups: each with its section.
const KEYS: [(&str, &str); 3] = [
    ("api", API_GROUP.name),
    ("admin", ADMIN_GROUP.name),
    ("admin", READ_GROUP.name),
];

/// Reads who may open the sockets.
///
/// # Errors
/// When a section is there twice.
pub(super) fn read_access(document: &Document<'_>) -> Result<Access, FileError> {
    let mut groups = [const { None }; KEYS.len()];
    for (group, (section, key)) in groups.iter_mut().zip(KEYS) {
        *group = document.one(section)?.text(key).map(str::to_owned);
    }
    let [api, admin, readers] = groups;
    Ok(Access {
        api,
        admin,
        readers,
    })
}

/// Each group that is named is one of this system.
///
/// # Errors
/// When one is not.
pub(super) fn check_groups(document: &Document<'_>) -> Result<(), FileError> {
    for (section, key) in KEYS {
        let entries = document.one(section)?;
        let Some(Err(error)) = entries.text(key).map(gid_of) else {
            continue;
        };
        let what = format!("'{key}' cannot be used: {error}");
        return Err(document.fault_of(&entries, key, what).with_hint(
            "`getent group` shows the groups of this system; `groupadd --system NAME` makes one",
        ));
    }
    Ok(())
}
