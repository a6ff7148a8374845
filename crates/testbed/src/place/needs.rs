//! What has to be there before a lab can be: root's rights, programs, devices.

use std::env;
use std::path::Path;

use dhow_scenario::Scenario;
use dhow_scenario::scenario::AtEnd;

use super::group::Groups;
use super::layout::{Layout, Made};
use crate::failure::LabError;

/// Says what is missing for a scenario, before anything is made.
///
/// # Errors
/// The first thing that is missing, and how to get it.
pub fn check(scenario: &Scenario, layout: &Layout) -> Result<(), LabError> {
    if !rustix::process::geteuid().is_root() {
        let hint = "sudo dhow lab …";
        return Err(LabError::new("network namespaces are for root").with_hint(hint));
    }
    need("ip", "iproute2")?;
    let shaped = |made: &Made| matches!(made, Made::Tbf { .. } | Made::Netem(_));
    if layout.links.iter().any(|link| shaped(&link.made)) {
        need("tc", "iproute2")?;
    }
    let emulated = |made: &Made| matches!(made, Made::Emulator(..));
    let silent = layout
        .links
        .iter()
        .any(|it| it.planned && it.at_end == AtEnd::Silence && !emulated(&it.made));
    if silent {
        need("nft", "nftables")?;
    }
    if layout.links.iter().any(|link| emulated(&link.made)) && !Path::new("/dev/net/tun").exists() {
        let error = LabError::new("no /dev/net/tun, which emulated links need");
        return Err(error.with_hint("modprobe tun"));
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
            let hint = "mount control groups, or leave 'cpu', 'memory' and 'disk_rate' out";
            Err(LabError::new(what).with_hint(hint))
        }
        None => Ok(()),
    }
}

/// A program that must be on the way.
///
/// # Errors
/// When it is not, with the package that has it.
pub fn need(program: &str, package: &str) -> Result<(), LabError> {
    let ways = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&ways).any(|way| way.join(program).is_file()) {
        return Ok(());
    }
    let error = LabError::new(format!("there is no program '{program}'"));
    Err(error.with_hint(format!("apt-get install {package}")))
}
