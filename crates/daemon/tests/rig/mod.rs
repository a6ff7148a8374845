//! Nodes for tests, each with a directory and ports of its own.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use dhow_daemon::config::NodeFile;
use dhow_daemon::run::{Ready, RunError, run_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Longest wait for anything: reached by failing tests only.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory for some nodes; it goes with the value.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A node that listens on any port of loopback; the same ID means the same store.
    pub fn node(&self, id: &str) -> NodePlan {
        let name = id.replace([':', '/', '.'], "-");
        NodePlan {
            directory: self.directory.path().join(name),
            id: id.to_owned(),
            threads: 1,
            listen: "127.0.0.1:0".to_owned(),
            policy: String::new(),
            store: "quota = \"64MiB\"".to_owned(),
            rest: String::new(),
        }
    }

    /// Certificates for nodes, signed by one authority, each with its node ID as BundleEID.
    pub fn write_identities(&self, ids: &[&str]) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(self.path().join("authority.crt"), authority.pem()).unwrap();
        for id in ids {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params
                .custom_extensions
                .push(CustomExtension::from_oid_content(
                    &[2, 5, 29, 17],
                    bundle_eid_names(id),
                ));
            let certificate = params.signed_by(&key, &authority).unwrap();
            let directory = self.node(id).directory;
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("node.crt"), certificate.pem()).unwrap();
            std::fs::write(directory.join("node.key"), key.serialize_pem()).unwrap();
        }
    }
}

/// The DER of a subjectAltName with one BundleEID (RFC 9174 4.4.2.1).
fn bundle_eid_names(id: &str) -> Vec<u8> {
    let wrap = |tag: u8, content: &[u8]| {
        let mut value = vec![tag, u8::try_from(content.len()).unwrap()];
        value.extend_from_slice(content);
        value
    };
    let mut name = vec![0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x08, 0x0b];
    name.extend(wrap(0xa0, &wrap(0x16, id.as_bytes())));
    wrap(0x30, &wrap(0xa0, &name))
}

/// A node that is not running.
#[derive(Clone)]
pub struct NodePlan {
    directory: PathBuf,
    id: String,
    threads: usize,
    listen: String,
    policy: String,
    store: String,
    rest: String,
}

impl NodePlan {
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    pub fn with_listen(mut self, address: &str) -> Self {
        self.listen = address.to_owned();
        self
    }

    pub fn with_link(mut self, name: &str, address: &str, policy: &str) -> Self {
        self.rest += &format!("[[link]]\nname = \"{name}\"\naddress = \"{address}\"\n{policy}\n");
        self
    }

    pub fn with_route(mut self, to: &str, via: &str) -> Self {
        self.rest += &format!("[[route]]\nto = \"{to}\"\nvia = \"{via}\"\n");
        self
    }

    /// Keys of `[[listen]]`.
    pub fn with_policy(mut self, policy: &str) -> Self {
        self.policy = policy.to_owned();
        self
    }

    /// Keys of `[store]`; without them a small quota.
    pub fn with_store(mut self, keys: &str) -> Self {
        self.store = keys.to_owned();
        self
    }

    /// Any other sections.
    pub fn with(mut self, text: &str) -> Self {
        self.rest += text;
        self
    }

    pub fn with_tls(self) -> Self {
        self.with("[tls]\ncertificate = \"node.crt\"\nkey = \"node.key\"\nauthorities = [\"../authority.crt\"]\n")
    }

    pub fn file(&self) -> NodeFile {
        std::fs::create_dir_all(&self.directory).unwrap();
        let text = format!(
            "[node]\nid = \"{}\"\nthreads = {}\n[store]\n{}\n[[listen]]\naddress = \"{}\"\n{}\n{}",
            self.id, self.threads, self.store, self.listen, self.policy, self.rest
        );
        NodeFile::parse(&text, &self.directory.join("node.toml"))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Run the node on a thread and wait until it is ready.
    pub fn start(&self) -> RunningNode {
        self.try_start().unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_start(&self) -> Result<RunningNode, RunError> {
        let file = self.file();
        let admin = file.admin_socket();
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let stopped = async {
                let _ = stopped.await;
            };
            run_until(file, None, |ready| tell.send(ready).unwrap(), stopped)
        });
        match told.recv_timeout(PATIENCE) {
            Ok(ready) => Ok(RunningNode {
                ready,
                admin,
                stop: Some(stop),
                thread: Some(thread),
            }),
            Err(_) => Err(thread.join().unwrap().unwrap_err()),
        }
    }
}

/// A node that runs; it is stopped with the value.
pub struct RunningNode {
    pub ready: Ready,
    admin: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), RunError>>>,
}

impl RunningNode {
    /// The address at which it accepts neighbours.
    pub fn listen(&self) -> &str {
        &self.ready.listen[0]
    }

    /// End it in order.
    pub fn stop(mut self) {
        self.end().unwrap();
    }

    fn end(&mut self) -> Result<(), RunError> {
        drop(self.stop.take());
        self.thread
            .take()
            .map_or(Ok(()), |thread| thread.join().unwrap())
    }

    /// A request to the admin socket: status and JSON.
    pub fn admin(&self, method: &str, path: &str, body: &str) -> (u16, serde_json::Value) {
        let (status, body) = request(
            UnixStream::connect(&self.admin).unwrap(),
            method,
            path,
            body,
            "",
        );
        (
            status,
            serde_json::from_str(&body).unwrap_or(serde_json::Value::String(body)),
        )
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        let ended = self.end();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// The application interface's socket.
pub fn api(node: &RunningNode) -> PathBuf {
    PathBuf::from(&node.ready.api)
}

/// One HTTP request on a connection of its own: status and body.
pub fn request(
    mut stream: impl std::io::Read + std::io::Write,
    method: &str,
    path: &str,
    body: &str,
    headers: &str,
) -> (u16, String) {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: dhow\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = head.contains("transfer-encoding: chunked");
    let body = if is_chunked {
        joined(body)
    } else {
        body.to_owned()
    };
    (status, body)
}

/// The octets of a chunked body (RFC 9112 7.1).
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    loop {
        let (length, rest) = chunks.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.push_str(&rest[..length]);
        chunks = rest[length..].strip_prefix("\r\n").unwrap();
    }
}
