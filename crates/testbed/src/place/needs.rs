//! The needs of a lab: root's rights, programs, devices.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dhow_scenario::Scenario;
use dhow_scenario::scenario::AtEnd;
use rustix::fs::{Access, access};

use super::congestion;
use super::group::Groups;
use super::layout::{Layout, Made};
use crate::failure::LabError;

/// Says what is missing for a scenario, before anything is made.
///
/// # Errors
/// The first thing that is missing, and how to get it.
pub fn check(scenario: &Scenario, layout: &Layout) -> Result<(), LabError> {
    if !rustix::process::geteuid().is_root() {
        let hint = "sudo dhow lab …; `dhow lab run` does without where users may make namespaces";
        return Err(LabError::new("network namespaces are for root").with_hint(hint));
    }
    need("ip", "iproute2")?;
    if layout.links.iter().any(|link| link.made.has_queue()) {
        need("tc", "iproute2")?;
    }
    let delayed = |made: &Made| matches!(made, Made::Netem(_));
    if layout.links.iter().any(|link| delayed(&link.made)) && lacks_netem() {
        let error = LabError::new("this kernel has no netem");
        return Err(error.with_hint("modprobe sch_netem; by = \"emulator\" needs none"));
    }
    let emulated = |made: &Made| matches!(made, Made::Emulator(..));
    let silent = layout
        .links
        .iter()
        .any(|it| it.planned && it.at_end == AtEnd::Silence && !emulated(&it.made));
    if silent {
        need("nft", "nftables")?;
    }
    if layout.links.iter().any(|link| emulated(&link.made)) {
        let tun = Path::new("/dev/net/tun");
        if !tun.exists() {
            let error = LabError::new("no /dev/net/tun, which emulated links need");
            return Err(error.with_hint(
                "modprobe tun; links that only have a rate do without it by = \"tbf\"",
            ));
        }
        if access(tun, Access::READ_OK | Access::WRITE_OK).is_err() {
            let error = LabError::new("/dev/net/tun, which emulated links need, is not for users");
            return Err(error.with_hint("chmod a+rw /dev/net/tun, or sudo dhow lab …"));
        }
    }
    let groups = Groups::of(&layout.lab);
    let missing = scenario.nodes.iter().find_map(|node| {
        let lacks = groups.missing(&node.host)?;
        Some(format!(
            "node '{}' has limits, and there is {lacks}",
            node.name
        ))
    });
    match missing {
        Some(what) => {
            let hint = "as root, with control groups mounted, there is; or leave 'cpu', 'memory', 'disk_rate' and 'disk_operations' out";
            Err(LabError::new(what).with_hint(hint))
        }
        None => Ok(()),
    }
}

/// True if the kernel does not know the netem queue, asked in a network namespace that is gone at once.
fn lacks_netem() -> bool {
    let asked = Command::new("unshare")
        .args(["--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem"])
        .stdin(Stdio::null())
        .output();
    // A user without the right to ask gets the error when the link is made.
    asked.is_ok_and(|said| String::from_utf8_lossy(&said.stderr).contains("unknown"))
}

/// A program that must be on the way.
///
/// # Errors
/// When it is not, with the package that has it, or may not be run.
pub fn need(program: &str, package: &str) -> Result<(), LabError> {
    if let Some(found) = found(program) {
        return access(&found, Access::EXEC_OK).map_err(|_| {
            let what = format!("{} may not be run by this user", found.display());
            LabError::new(what).with_hint("sudo dhow lab …")
        });
    }
    let error = LabError::new(format!("there is no program '{program}'"));
    Err(error.with_hint(format!("apt-get install {package}")))
}

/// The words before the name of a congestion control that a variant needs.
const CONGESTION: &str = "congestion control ";

/// True if what a variant needs is there: a program, or a congestion control that namespaces may use.
#[must_use]
pub fn is_there(needed: &str) -> bool {
    match needed.strip_prefix(CONGESTION) {
        Some(name) => congestion::check(Some(name.trim())).is_ok(),
        None => found(needed).is_some(),
    }
}

/// Says that it is not there.
#[must_use]
pub fn absence(needed: &str) -> String {
    match needed.strip_prefix(CONGESTION) {
        Some(name) => format!(
            "namespaces of this kernel have no congestion control '{}'",
            name.trim()
        ),
        None => format!("there is no program '{needed}'"),
    }
}

/// The path of a program, as a shell finds it; `None` for a relative path, whose meaning depends on the directory.
#[must_use]
pub fn found(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let place = PathBuf::from(program);
        return (place.is_absolute() && place.is_file()).then_some(place);
    }
    let ways = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&ways).map(|way| way.join(program));
    places.find(|place| place.is_file())
}
