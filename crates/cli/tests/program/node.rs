//! Nodes as whole programs: started in a directory of their own, waited for by their ready line, always
//! ended and reaped.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::dhow_under;

/// No step of a test takes nearly this long; one that hangs ends here.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A child process that does not outlive its test.
pub struct Reaped(pub Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Reaped {
    /// Ends it with a signal and returns its exit code, if it had time to give one.
    pub fn end(mut self, signal: rustix::process::Signal) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, signal).unwrap();
        self.0.wait().unwrap().code()
    }
}

/// Lines of a child's output, read as they come.
pub struct Lines(mpsc::Receiver<String>);

impl Lines {
    pub fn of(output: impl std::io::Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    /// The next line; `None` at the end.
    pub fn next(&self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line came"),
        }
    }

    /// The next line as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.next().expect("a line")).unwrap()
    }
}

/// A running node.
pub struct Node {
    process: Reaped,
    lines: Lines,
    /// The fields of its ready line.
    pub ready: Value,
    directory: PathBuf,
}

impl Node {
    /// Writes a configuration into the directory and starts a node with it.
    pub fn start(directory: &Path, configuration: &str) -> Self {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("node.toml"), configuration).unwrap();
        Self::start_again(directory)
    }

    /// As [`Self::start`], run by another program.
    pub fn start_under(program: &[&str], directory: &Path, configuration: &str) -> Self {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("node.toml"), configuration).unwrap();
        Self::launch(program, directory)
    }

    /// Starts a node with the configuration that is there.
    pub fn start_again(directory: &Path) -> Self {
        Self::launch(&[], directory)
    }

    fn launch(program: &[&str], directory: &Path) -> Self {
        let config = directory.join("node.toml");
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(directory.join("log"))
            .unwrap();
        let arguments = ["node", "run", "--config", config.to_str().unwrap()];
        let mut child = dhow_under(program, &arguments)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        let process = Reaped(child);
        let Some(line) = lines.next() else {
            panic!(
                "the node did not start: {}",
                fs::read_to_string(directory.join("log")).unwrap()
            );
        };
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["event"], "ready");
        Self {
            process,
            lines,
            ready,
            directory: directory.to_owned(),
        }
    }

    /// Its API socket.
    pub fn socket(&self) -> String {
        self.ready["api"].as_str().unwrap().to_owned()
    }

    /// The address at which it listens: `HOST:PORT`.
    pub fn address(&self) -> String {
        self.ready["listen"][0].as_str().unwrap().to_owned()
    }

    /// SIGKILL; returns its directory, to start it again.
    pub fn kill(self) -> PathBuf {
        self.process.end(rustix::process::Signal::KILL);
        self.directory
    }

    /// Its log so far.
    pub fn logged(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap()
    }

    /// Gives the program a signal that does not end it.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.process.0);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// SIGTERM; asserts that it said nothing after its ready line, and returns its exit code.
    pub fn terminate(self) -> Option<i32> {
        self.end(rustix::process::Signal::TERM)
    }

    fn end(self, signal: rustix::process::Signal) -> Option<i32> {
        let code = self.process.end(signal);
        assert_eq!(self.lines.next(), None, "nothing follows the ready line");
        code
    }
}
