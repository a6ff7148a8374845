//! Limits of hosts: control groups of the kernel, in either of their versions.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use dhow_scenario::scenario::Host;
use rustix::fs::{Access, access};

use crate::failure::LabError;

/// The directory of control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// The time over which processor time is shared out, microseconds, where a part of it is long enough.
const CPU_PERIOD_US: u64 = 100_000;

/// The processor time that the kernel shares out at least, microseconds.
const CPU_QUOTA_MIN_US: u64 = 1_000;

/// The longest time over which it shares it out, microseconds.
const CPU_PERIOD_MAX_US: u64 = 1_000_000;

/// Controllers by what of a host they limit.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "blkio"];

/// Files of limits, in both versions.
const LIMITS: [&str; 9] = [
    "cpu.cfs_period_us",
    "cpu.cfs_quota_us",
    "memory.limit_in_bytes",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.write_iops_device",
    "blkio.throttle.read_iops_device",
    "cpu.max",
    "memory.max",
    "io.max",
];

/// Lines of `memory.stat` that count pages which were read again, of files and others.
const READ_AGAIN: &str = "workingset_refault_";

/// Puts a shell into the groups whose files are named before `--`, and makes it the program behind that.
const ENTER: &str =
    "while [ \"$1\" != -- ]; do echo $$ > \"$1\" || exit 126; shift; done; shift; exec \"$@\"";

/// Groups of one lab.
#[derive(Clone, Debug)]
pub struct Groups {
    lab: String,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// A tree for each controller.
    One,
    /// One tree of control groups.
    Two,
}

/// The group of one host.
#[derive(Clone, Debug)]
pub struct Group {
    directories: Vec<PathBuf>,
}

impl Groups {
    /// The groups of a lab; none are made yet.
    #[must_use]
    pub fn of(lab: &str) -> Self {
        let two = Path::new(ROOT).join("cgroup.controllers").exists();
        Self {
            lab: format!("dhow-{lab}"),
            version: if two { Version::Two } else { Version::One },
        }
    }

    /// Directories in which those of hosts are, one for each controller that is there.
    #[must_use]
    pub fn directories(&self) -> Vec<PathBuf> {
        match self.version {
            Version::Two => vec![Path::new(ROOT).join(&self.lab)],
            Version::One => CONTROLLERS
                .iter()
                .map(|controller| Path::new(ROOT).join(controller).join(&self.lab))
                .collect(),
        }
    }

    /// The reason why a host cannot have its limits, if there is one: a missing controller or right.
    #[must_use]
    pub fn missing(&self, host: &Host) -> Option<String> {
        let wanted = controllers(host);
        if self.version == Version::One {
            let lacks = wanted
                .iter()
                .find(|it| !Path::new(ROOT).join(it).join("cgroup.procs").exists());
            return lacks
                .map(|it| format!("no '{it}' controller of control groups under {ROOT}"))
                .or_else(|| self.closed(&wanted));
        }
        let known = fs::read_to_string(Path::new(ROOT).join("cgroup.controllers"));
        let known = known.unwrap_or_default();
        let lacks = wanted
            .iter()
            .map(|it| second_name(it))
            .find(|it| !known.split_whitespace().any(|known| known == *it));
        lacks
            .map(|it| format!("no '{it}' controller in {ROOT}/cgroup.controllers"))
            .or_else(|| self.closed(&wanted))
    }

    /// The reason why groups of these controllers cannot be made, if there is one: only root may write to their directory.
    fn closed(&self, wanted: &[&str]) -> Option<String> {
        let places = wanted.iter().map(|it| match self.version {
            Version::Two => PathBuf::from(ROOT),
            Version::One => Path::new(ROOT).join(it),
        });
        let closed = |place: &PathBuf| access(place, Access::WRITE_OK).is_err();
        let found = places.into_iter().find(closed)?;
        Some(format!(
            "no right to make control groups in {}",
            found.display()
        ))
    }

    /// Makes the group of a host and sets its limits; `None` if it has none. The host's files are on the disk of `place`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn make(&self, name: &str, host: &Host, place: &Path) -> Result<Option<Group>, LabError> {
        let wanted = controllers(host);
        if wanted.is_empty() {
            return Ok(None);
        }
        let mut directories = Vec::new();
        if self.version == Version::Two {
            let parent = Path::new(ROOT).join(&self.lab);
            make(&parent)?;
            for above in [Path::new(ROOT), &parent] {
                let enabled: String = wanted
                    .iter()
                    .map(|it| format!("+{} ", second_name(it)))
                    .collect();
                set(above, "cgroup.subtree_control", enabled.trim())?;
            }
            directories.push(parent.join(name));
        } else {
            let of = |it: &&str| Path::new(ROOT).join(it).join(&self.lab).join(name);
            directories.extend(wanted.iter().map(of));
        }
        for directory in &directories {
            make(directory)?;
        }
        let group = Group { directories };
        if let Some(octets) = host.memory_octets {
            let file = match self.version {
                Version::Two => "memory.max",
                Version::One => "memory.limit_in_bytes",
            };
            set(group.of("memory"), file, &octets.to_string())?;
        }
        let limits = [
            ("wbps", "write_bps", host.disk_octets_per_s),
            ("wiops", "write_iops", host.disk_operations_per_s),
            ("riops", "read_iops", host.disk_operations_per_s),
        ];
        for (second, first, limit) in limits {
            if let Some(limit) = limit {
                self.limit_disk(&group, (second, first), limit, place)?;
            }
        }
        Ok(Some(group))
    }

    /// Sets a limit of the disk of a place, by its names in the second version and in the first.
    fn limit_disk(
        &self,
        group: &Group,
        (second, first): (&str, &str),
        limit: u64,
        place: &Path,
    ) -> Result<(), LabError> {
        let disk = disk_of(place)?;
        let at = group.of("blkio");
        match self.version {
            Version::Two => set(at, "io.max", &format!("{disk} {second}={limit}")),
            Version::One => {
                let file = format!("blkio.throttle.{first}_device");
                set(at, &file, &format!("{disk} {limit}"))
            }
        }
    }
}

impl Group {
    /// A program that is in a group from its first instruction on, so that it never sees another limit; in none where there is no group.
    #[must_use]
    pub fn command(group: Option<&Self>, program: &Path) -> Command {
        let Some(group) = group else {
            return Command::new(program);
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ENTER, "sh"]);
        let directories = group.directories.iter();
        command.args(directories.map(|directory| directory.join("cgroup.procs")));
        command.arg("--").arg(program);
        command
    }

    /// Has its programs take no more than so many millionths of a core from now on, or have no limit.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_processor(&self, millionths: Option<u32>) -> Result<(), LabError> {
        let at = self.of("cpu");
        let shared = millionths.map(shared_out);
        if at.join("cpu.max").exists() {
            let most = shared.map_or_else(
                || "max".to_owned(),
                |(quota, period)| format!("{quota} {period}"),
            );
            return set(at, "cpu.max", &most);
        }
        let Some((quota, period)) = shared else {
            return set(at, "cpu.cfs_quota_us", "-1");
        };
        set(at, "cpu.cfs_period_us", &period.to_string())?;
        set(at, "cpu.cfs_quota_us", &quota.to_string())
    }

    /// The kernel's words for its limits, by the names of its files.
    #[must_use]
    pub fn limits(&self) -> BTreeMap<String, String> {
        let files = self.directories.iter().flat_map(|directory| {
            let read = |file: &str| fs::read_to_string(directory.join(file)).ok();
            let of_file = move |file: &'static str| {
                let text = read(file)?;
                // Some have a line of what has no limit.
                let lines = text.trim().replace('\n', "; ");
                Some((file.to_owned(), lines)).filter(|(_, lines)| !lines.is_empty())
            };
            LIMITS.into_iter().filter_map(of_file)
        });
        files.collect()
    }

    /// The number of its programs that were killed because no memory was left.
    #[must_use]
    pub fn out_of_memory(&self) -> u64 {
        let at = self.of("memory");
        let text = fs::read_to_string(at.join("memory.events"))
            .or_else(|_| fs::read_to_string(at.join("memory.oom_control")));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Pages that were read again, since memory had no room to keep them; none where it has no limit of memory.
    #[must_use]
    pub fn read_again(&self) -> Option<u64> {
        let text = fs::read_to_string(self.of("memory").join("memory.stat")).ok()?;
        let lines = text.lines().filter(|line| line.starts_with(READ_AGAIN));
        let counts = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        Some(counts.sum())
    }

    /// Its directory under a controller of the first version; in the second it is one.
    fn of(&self, controller: &str) -> &Path {
        let part = Path::new(ROOT).join(controller);
        let found = self.directories.iter().find(|it| it.starts_with(&part));
        let found = found.or(self.directories.first());
        found.map_or(Path::new(ROOT), PathBuf::as_path)
    }
}

fn controllers(host: &Host) -> Vec<&'static str> {
    let wanted = [
        host.processor.is_some(),
        host.memory_octets.is_some(),
        host.disk_octets_per_s.is_some() || host.disk_operations_per_s.is_some(),
    ];
    let all = CONTROLLERS.into_iter().zip(wanted);
    all.filter_map(|(name, wanted)| wanted.then_some(name))
        .collect()
}

/// The processor time that a part of a core has, and of which time, microseconds.
fn shared_out(millionths: u32) -> (u64, u64) {
    let parts = u64::from(millionths).max(1);
    // If the usual period has too little, a longer one has enough.
    let enough = (CPU_QUOTA_MIN_US * 1_000_000).div_ceil(parts);
    let period = enough.clamp(CPU_PERIOD_US, CPU_PERIOD_MAX_US);
    ((period * parts / 1_000_000).max(CPU_QUOTA_MIN_US), period)
}

/// The name in the second version.
const fn second_name(controller: &str) -> &str {
    match controller.as_bytes() {
        b"blkio" => "io",
        _ => controller,
    }
}

fn make(directory: &Path) -> Result<(), LabError> {
    fs::create_dir_all(directory).map_err(|error| {
        let what = format!("cannot make the control group {}", directory.display());
        LabError::io(what, &error)
    })
}

fn set(directory: &Path, file: &str, value: &str) -> Result<(), LabError> {
    let path = directory.join(file);
    fs::write(&path, value).map_err(|error| {
        LabError::io(
            format!("cannot write '{value}' to {}", path.display()),
            &error,
        )
    })
}

/// The disk of a place, as `MAJOR:MINOR`: of a partition the whole disk, which is what can be limited.
fn disk_of(place: &Path) -> Result<String, LabError> {
    let failed = |error: &io::Error| LabError::io(place.display(), error);
    let device = fs::metadata(place).map_err(|error| failed(&error))?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let entry = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let Ok(entry) = entry.canonicalize() else {
        let what = format!(
            "'disk_rate' and 'disk_operations' need a disk, and {} is on none",
            place.display()
        );
        return Err(LabError::new(what).with_hint("--out names a directory on a disk"));
    };
    if entry.join("partition").exists()
        && let Some(whole) = entry.parent()
    {
        let text = fs::read_to_string(whole.join("dev")).map_err(|error| failed(&error))?;
        return Ok(text.trim().to_owned());
    }
    Ok(format!("{major}:{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_of_a_core_is_shared_out_over_longer() {
        let shared: Vec<_> = [2_000_000, 100_000, 25_000, 10_000, 3_000, 1_000]
            .map(shared_out)
            .into();
        let expected = [
            (200_000, 100_000),
            (10_000, 100_000),
            (2_500, 100_000),
            (1_000, 100_000),
            (1_000, 333_334),
            (1_000, 1_000_000),
        ];
        assert_eq!(shared, expected);
    }

    #[test]
    fn a_program_is_in_all_its_groups_before_it_does_anything() {
        let place = tempfile::tempdir().unwrap();
        let directories = ["cpu", "memory"].map(|name| place.path().join(name));
        for directory in &directories {
            fs::create_dir(directory).unwrap();
        }
        let group = Group {
            directories: directories.to_vec(),
        };
        let mut command = Group::command(Some(&group), Path::new("sh"));
        command.args(["-c", r#"cat "$1/cgroup.procs" "$2/cgroup.procs"; echo $$"#]);
        let output = command.arg("sh").args(&directories).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let found: Vec<&str> = text.lines().collect();
        assert!(found.len() == 3 && found.iter().all(|it| *it == found[2]));
        fs::remove_dir_all(&directories[1]).unwrap();
        let refused = Group::command(Some(&group), Path::new("true")).output();
        assert!(!refused.unwrap().status.success());
    }
}
