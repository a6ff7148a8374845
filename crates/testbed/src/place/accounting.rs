//! The kernel's account of the waits of processes: on while a lab runs that found it off, and off again when the last of these is gone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The file that switches it on and off (`sysctl kernel.task_delayacct`), for the whole machine.
const SWITCH: &str = "/proc/sys/kernel/task_delayacct";

/// A file for each lab that needs it on: of the machine, since labs with another `$DHOW_LAB_DIR` share the switch.
const HOLDERS: &str = "/run/dhow/task_delayacct";

/// The account, and the labs that need it.
#[derive(Debug)]
pub(crate) struct Accounting {
    switch: PathBuf,
    holders: PathBuf,
}

impl Accounting {
    /// The accounting of this machine.
    pub(crate) fn of_machine() -> Self {
        Self {
            switch: SWITCH.into(),
            holders: HOLDERS.into(),
        }
    }

    /// True if the kernel counts now.
    pub(crate) fn is_on(&self) -> bool {
        fs::read_to_string(&self.switch).is_ok_and(|text| text.trim() != "0")
    }

    /// Has it on from now on until a lab is gone. One that somebody else switched on stays as it is.
    ///
    /// # Errors
    /// When the kernel has no such switch, or it is not for this user.
    pub(crate) fn hold(&self, lab: &str) -> io::Result<()> {
        let is_held = || self.holders.is_dir();
        if self.is_on() && !is_held() {
            return Ok(());
        }
        let _lock = self.lock()?;
        if self.is_on() && !is_held() {
            return Ok(());
        }
        // A lab that finds the file switches off the account that is on by then.
        fs::create_dir_all(&self.holders)?;
        let own = self.holders.join(lab);
        File::create(own)?;
        fs::write(&self.switch, "1").inspect_err(|_| {
            let _ = self.leave(lab);
        })
    }

    /// A lab needs it no more: the last switches it off.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn release(&self, lab: &str) -> io::Result<()> {
        if !self.holders.join(lab).exists() {
            return Ok(());
        }
        let _lock = self.lock()?;
        if fs::read_dir(&self.holders)?.count() == 1 {
            fs::write(&self.switch, "0")?;
        }
        self.leave(lab)
    }

    fn leave(&self, lab: &str) -> io::Result<()> {
        fs::remove_file(self.holders.join(lab))?;
        match fs::remove_dir(&self.holders) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }

    /// One lab at a time, until the file is dropped.
    fn lock(&self) -> io::Result<File> {
        let path = self.holders.with_extension("lock");
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        let file = File::create(path)?;
        file.lock()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounting(place: &Path, switch: &str) -> Accounting {
        let accounting = Accounting {
            switch: place.join("switch"),
            holders: place.join("run/holders"),
        };
        fs::write(&accounting.switch, switch).unwrap();
        accounting
    }

    #[test]
    fn it_is_on_until_the_last_that_needs_it_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let accounting = accounting(place.path(), "0\n");
        accounting.hold("one").unwrap();
        accounting.hold("two").unwrap();
        assert!(accounting.is_on());
        accounting.release("one").unwrap();
        accounting.release("one").unwrap();
        assert!(accounting.is_on());
        accounting.release("two").unwrap();
        assert!(!accounting.is_on() && !accounting.holders.exists());
        accounting.release("two").unwrap();
    }

    #[test]
    fn what_somebody_else_switched_on_stays_on() {
        let place = tempfile::tempdir().unwrap();
        let accounting = accounting(place.path(), "1\n");
        accounting.hold("one").unwrap();
        accounting.release("one").unwrap();
        assert!(accounting.is_on());
    }

    #[test]
    fn one_that_is_held_and_off_is_switched_on_again() {
        let place = tempfile::tempdir().unwrap();
        let accounting = accounting(place.path(), "0\n");
        accounting.hold("killed").unwrap();
        fs::write(&accounting.switch, "0").unwrap();
        accounting.hold("one").unwrap();
        assert!(accounting.is_on());
        accounting.release("one").unwrap();
        assert!(accounting.is_on());
        accounting.release("killed").unwrap();
        assert!(!accounting.is_on());
    }

    #[test]
    fn where_there_is_no_switch_nobody_needs_it() {
        let place = tempfile::tempdir().unwrap();
        let mut accounting = accounting(place.path(), "0");
        accounting.switch = place.path().join("none/switch");
        accounting.hold("one").unwrap_err();
        assert!(!accounting.holders.exists());
    }
}
