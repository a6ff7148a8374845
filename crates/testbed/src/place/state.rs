//! The parts of a lab, in a file that is written before anything is made: any process that finds it can remove them.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use dhow_scenario::scenario::HostKind;
use serde::{Deserialize, Serialize};

use super::group::Groups;
use super::layout::{HostPlace, Layout};
use crate::failure::LabError;

/// Octets of entropy in a lab's name.
const NAME_OCTETS: usize = 3;

/// A lab as its file tells it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct State {
    /// Its name, six hexadecimal digits.
    pub lab: String,
    /// The scenario's name.
    pub scenario: String,
    /// The process that keeps it.
    pub process: u32,
    /// When that process began, in the kernel's ticks: another one may have its number by now.
    pub process_began: u64,
    /// True once all parts are there.
    pub is_up: bool,
    /// The directory of the run's files.
    pub directory: PathBuf,
    /// A short way to that directory, for sockets.
    pub shortcut: PathBuf,
    /// Its network namespaces.
    pub namespaces: Vec<String>,
    /// Directories of its control groups.
    pub groups: Vec<PathBuf>,
    /// Its hosts.
    pub nodes: Vec<NodeState>,
    /// Its links.
    pub links: Vec<LinkState>,
}

/// A host of a lab.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Its node's ID; none where there is no node.
    pub id: Option<String>,
    /// Its network namespace.
    pub namespace: String,
    /// Its address on the control network.
    pub control: Ipv4Addr,
    /// Its node's process, while there is one.
    pub process: Option<u32>,
    /// The socket on which its node serves applications.
    pub api: Option<PathBuf>,
}

/// A link of a lab.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct LinkState {
    /// Its name.
    pub name: String,
    /// The kind of link: `emulator`, `tbf`, `netem`, `veth`.
    pub by: String,
    /// True if it is there only during contacts.
    pub planned: bool,
    /// Its ends: node, interface, address.
    pub ends: [(String, String, Ipv4Addr); 2],
}

/// The variable that names another place for the files of labs.
const PLACE: &str = "DHOW_LAB_DIR";

/// The directory of labs' files: `$DHOW_LAB_DIR`, `/run/dhow/lab`, or below `$XDG_RUNTIME_DIR` for users other than root.
#[must_use]
pub fn state_directory() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
    if let Some(place) = set(PLACE) {
        return PathBuf::from(place);
    }
    match set("XDG_RUNTIME_DIR") {
        Some(own) if !rustix::process::geteuid().is_root() => PathBuf::from(own).join("dhow/lab"),
        _ => PathBuf::from("/run/dhow/lab"),
    }
}

/// When a process began, in the kernel's ticks; none where it is not there.
#[must_use]
pub fn process_began(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may have anything in it, field 22 of proc(5) is the twentieth.
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// The socket at which the node of a host serves applications, by a way that is short enough for a socket; nothing where none runs.
pub(crate) fn api_of(layout: &Layout, host: &HostPlace) -> Option<PathBuf> {
    let nodes = state_directory().join(&layout.lab).join("nodes");
    (host.kind == HostKind::Dhow).then(|| nodes.join(&host.name).join("api.sock"))
}

impl State {
    /// The state of a lab that this process makes.
    #[must_use]
    pub fn new(layout: &Layout, scenario: &str, directory: &Path) -> Self {
        let process = std::process::id();
        let shortcut = state_directory().join(&layout.lab);
        let mut namespaces = vec![layout.control_namespace()];
        namespaces.extend(layout.own_hosts().map(|host| host.namespace.clone()));
        let nodes = layout.hosts.iter().map(|host| {
            let runs = host.kind == HostKind::Dhow;
            NodeState {
                name: host.name.clone(),
                id: runs.then(|| format!("ipn:{}.0", host.number)),
                namespace: host.namespace.clone(),
                control: host.control,
                process: None,
                api: api_of(layout, host),
            }
        });
        let links = layout.links.iter().map(|link| {
            let end = |end: &super::layout::End| {
                let host = layout.hosts.get(end.host);
                let name = host.map_or_else(String::new, |host| host.name.clone());
                (name, end.interface.clone(), end.address)
            };
            let [first, second] = &link.ends;
            LinkState {
                name: link.name.clone(),
                by: link.made.name().to_owned(),
                planned: link.planned,
                ends: [end(first), end(second)],
            }
        });
        Self {
            lab: layout.lab.clone(),
            scenario: scenario.to_owned(),
            process,
            process_began: process_began(process).unwrap_or(0),
            is_up: false,
            directory: directory.to_path_buf(),
            shortcut: shortcut.clone(),
            namespaces,
            groups: Groups::of(&layout.lab).directories(),
            nodes: nodes.collect(),
            links: links.collect(),
        }
    }

    /// A name that no lab has.
    ///
    /// # Errors
    /// When the system has no entropy.
    pub fn draw_name() -> Result<String, LabError> {
        let failed = |error: io::Error| LabError::io("/dev/urandom", &error);
        loop {
            let mut octets = [0; NAME_OCTETS];
            let mut source = File::open("/dev/urandom").map_err(failed)?;
            source.read_exact(&mut octets).map_err(failed)?;
            let name: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
            if !path(&name).exists() {
                return Ok(name);
            }
        }
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> Result<(), LabError> {
        let path = path(&self.lab);
        let failed = |error: io::Error| LabError::io(path.display(), &error);
        fs::create_dir_all(state_directory()).map_err(failed)?;
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| LabError::new(format!("{}: {error}", path.display())))?;
        let new = path.with_extension("new");
        let mut file = File::create(&new).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)
    }

    /// The lab of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(lab: &str) -> Result<Self, LabError> {
        let path = path(lab);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LabError::new(format!("there is no lab '{lab}'"))
                .with_hint("`dhow lab inspect` lists those that there are"),
            _ => LabError::io(path.display(), &error),
        })?;
        serde_json::from_str(&text)
            .map_err(|error| LabError::new(format!("{}: {error}", path.display())))
    }

    /// All labs, in the order of their names; a file that is no lab's is left alone.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir(state_directory()) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_state = path.extension().is_some_and(|it| it == "json");
            is_state.then(|| path.file_stem()?.to_str().map(str::to_owned))?
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
            .iter()
            .filter_map(|name| Self::read(name).ok())
            .collect()
    }

    /// True if the process that keeps the lab is still there.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        process_began(self.process) == Some(self.process_began)
    }

    /// Removes the file: the last of a lab.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(path(&self.lab));
        // The directories go with the last lab.
        let directory = state_directory();
        if fs::remove_dir(&directory).is_ok()
            && let Some(above) = directory.parent()
        {
            let _ = fs::remove_dir(above);
        }
    }
}

fn path(lab: &str) -> PathBuf {
    state_directory().join(format!("{lab}.json"))
}
