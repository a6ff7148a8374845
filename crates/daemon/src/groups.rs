//! Groups of users of the system: by name, and their members.

use std::ffi::CString;
use std::io;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

/// The number of a group that is named by its name or number.
///
/// # Errors
/// When the system has no such group, or cannot say.
pub fn gid_of(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse::<u32>() {
        return Ok(number);
    }
    match Group::from_name(name)? {
        Some(group) => Ok(group.gid.as_raw()),
        None => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no group '{name}'"),
        )),
    }
}

/// Whether a user is in a group by the system's database, or has it as the process's own.
#[must_use]
pub fn is_member(uid: u32, own: u32, group: u32) -> bool {
    own == group || groups_of(uid).is_some_and(|groups| groups.contains(&Gid::from_raw(group)))
}

fn groups_of(uid: u32) -> Option<Vec<Gid>> {
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    let name = CString::new(user.name).ok()?;
    getgrouplist(&name, user.gid).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_name_and_number() {
        assert_eq!(gid_of("root").ok(), Some(0));
        assert_eq!(gid_of("4711").ok(), Some(4711));
        let error = gid_of("no-such-group").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_user_is_in_the_group_of_the_process_and_in_those_of_the_database() {
        assert!(is_member(0, 4711, 4711));
        assert!(is_member(0, 4711, 0), "root's own group");
        assert!(!is_member(0, 4711, 4712));
        // A user that the database does not know is in no other.
        assert!(!is_member(4_000_000_000, 4711, 0));
    }
}
