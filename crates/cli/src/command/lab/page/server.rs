//! HTTP for the page: a few files and a stream of events, to few readers, each with a thread of its own. It takes nothing but GET.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::board::{Board, Place};

/// Connections at once, at most.
const CONNECTIONS_MAX: usize = 32;

/// Octets of a request, at most.
const REQUEST_OCTETS: u64 = 16 << 10;

/// The longest time for a request, and for a reader to take what it is sent.
const PATIENCE: Duration = Duration::from_secs(5);

/// From one word to a reader to the next where nothing is new.
const ALIVE: Duration = Duration::from_secs(2);

/// Nothing but these files runs or is loaded. The report that the page makes of what it was sent has its style in itself, and is under this rule too.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A server that ends with its value.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves the page at an address; the port may be 0.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub fn start(address: SocketAddr, board: &Arc<Board>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, board) = (Arc::clone(&is_over), Arc::clone(board));
        let accepting = thread::Builder::new()
            .name("page".to_owned())
            .spawn(move || accept(&listener, &board, &over))?;
        Ok(Self {
            address,
            is_over,
            accepting: Some(accepting),
        })
    }

    /// The address at which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The thread that accepts is woken by a connection: to the machine itself, where it listens at all its addresses.
        let ip = match self.address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            other => other,
        };
        let woken = TcpStream::connect_timeout(&SocketAddr::new(ip, self.address.port()), PATIENCE);
        if let (Ok(_), Some(accepting)) = (woken, self.accepting.take()) {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, board: &Arc<Board>, over: &AtomicBool) {
    let connections = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut stream) = stream else {
            // No file is left for it, which may be otherwise soon.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let limits = stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        if limits.is_err() {
            continue;
        }
        if connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            let _ = answer(
                &mut stream,
                "503 Service Unavailable",
                "text/plain",
                b"too many readers\n",
            );
            continue;
        }
        connections.fetch_add(1, Ordering::Relaxed);
        let (board, counted) = (Arc::clone(board), Arc::clone(&connections));
        let spawned = thread::Builder::new()
            .name("page reader".to_owned())
            .spawn(move || {
                // Whoever goes in the middle of an answer is gone.
                let _ = serve(&mut stream, &board);
                counted.fetch_sub(1, Ordering::Relaxed);
            });
        if spawned.is_err() {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(stream: &mut TcpStream, board: &Board) -> io::Result<()> {
    let Some(request) = Request::read(stream)? else {
        return answer(stream, "400 Bad Request", "text/plain", b"not a request\n");
    };
    let local = stream.local_addr()?.ip();
    if !is_own(&request.host, local) {
        // A name of somebody else's that leads to this machine: a page of theirs asks.
        return answer(stream, "403 Forbidden", "text/plain", b"ask by address\n");
    }
    if request.method != "GET" {
        return answer(
            stream,
            "405 Method Not Allowed",
            "text/plain",
            b"GET is all there is\n",
        );
    }
    match request.path.as_str() {
        "/" => answer(
            stream,
            "200 OK",
            "text/html; charset=utf-8",
            include_bytes!("index.html"),
        ),
        "/page.css" => answer(
            stream,
            "200 OK",
            "text/css; charset=utf-8",
            include_bytes!("page.css"),
        ),
        "/page.js" => answer(
            stream,
            "200 OK",
            "text/javascript; charset=utf-8",
            include_bytes!("page.js"),
        ),
        "/events" => tell(stream, board),
        "/report.html" => match board.report() {
            Some(report) => answer(stream, "200 OK", "text/html; charset=utf-8", &report),
            None => answer(
                stream,
                "404 Not Found",
                "text/plain",
                b"there is no report yet\n",
            ),
        },
        _ => answer(
            stream,
            "404 Not Found",
            "text/plain",
            b"there is no such page\n",
        ),
    }
}

/// The parts of a request that matter.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    host: String,
}

impl Request {
    /// Reads one; nothing where it is none, or too long.
    fn read(stream: &TcpStream) -> io::Result<Option<Self>> {
        let mut reader = BufReader::new(stream.take(REQUEST_OCTETS));
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split(' ');
        let (method, path) = (words.next(), words.next());
        let (Some(method), Some(path)) = (method, path) else {
            return Ok(None);
        };
        let path = path.split('?').next().unwrap_or(path);
        let (method, path, mut host) = (method.to_owned(), path.to_owned(), String::new());
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 {
                return Ok(None);
            }
            let header = header.trim_end();
            if header.is_empty() {
                return Ok(Some(Self { method, path, host }));
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("host")
            {
                value.trim().clone_into(&mut host);
            }
        }
    }
}

/// True if a request names this machine in a way that no other site's page can.
fn is_own(host: &str, local: IpAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let is_address = name.parse::<IpAddr>().is_ok();
    // Beyond loopback a network's own names are as good.
    is_address || name == "localhost" || !local.to_canonical().is_loopback()
}

/// Sends events until the page is closed or the reader goes.
fn tell(stream: &mut TcpStream, board: &Board) -> io::Result<()> {
    stream.write_all(head("200 OK", "text/event-stream", None).as_bytes())?;
    board.enter();
    let mut place = Place::default();
    let told = loop {
        let Some(news) = board.next(&mut place, ALIVE) else {
            break Ok(());
        };
        if let Err(error) = stream.write_all(news.as_bytes()) {
            break Err(error);
        }
    };
    board.leave();
    told
}

fn answer(stream: &mut TcpStream, status: &str, kind: &str, content: &[u8]) -> io::Result<()> {
    stream.write_all(head(status, kind, Some(content.len())).as_bytes())?;
    stream.write_all(content)
}

fn head(status: &str, kind: &str, length: Option<usize>) -> String {
    let length = length.map_or_else(String::new, |length| {
        format!("content-length: {length}\r\n")
    });
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{length}content-security-policy: {POLICY}\r\nx-content-type-options: nosniff\r\n\
         referrer-policy: no-referrer\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn files_are_given_to_who_asks_by_address_and_nothing_is_taken() {
        let board = Arc::new(Board::default());
        let server = Server::start("127.0.0.1:0".parse().unwrap(), &board).unwrap();
        let get = |path: &str, host: &str| {
            asked(
                server.address(),
                &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            )
        };
        let page = get("/", "127.0.0.1:80");
        assert!(
            page.starts_with("HTTP/1.1 200") && page.contains("<!doctype html>"),
            "{page}"
        );
        assert!(get("/page.js", "localhost").starts_with("HTTP/1.1 200"));
        assert!(get("/page.css", "[::1]:9").starts_with("HTTP/1.1 200"));
        assert!(get("/", "elsewhere.example").starts_with("HTTP/1.1 403"));
        assert!(get("/../etc/passwd", "localhost").starts_with("HTTP/1.1 404"));
        assert!(get("/report.html", "localhost").starts_with("HTTP/1.1 404"));
        let posted = asked(
            server.address(),
            "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        );
        assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n", "y".repeat(20_000));
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let _ = stream.write_all(long.as_bytes());
        let mut text = String::new();
        // What was not read makes the system reset the connection, perhaps before the answer is read.
        if stream.read_to_string(&mut text).is_ok() {
            assert!(
                text.starts_with("HTTP/1.1 400") || text.is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn readers_that_do_not_read_keep_nobody_waiting_and_too_many_are_refused() {
        let board = Arc::new(Board::default());
        let server = Server::start("127.0.0.1:0".parse().unwrap(), &board).unwrap();
        let mut readers = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream
                .write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .unwrap();
            let mut first = [0];
            stream.read_exact(&mut first).unwrap();
            readers.push(stream);
        }
        // It is refused before it has asked for anything.
        let refused = asked(server.address(), "");
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        // More than sockets hold is told to readers of whom none reads on: it takes as long as without them.
        let long = "x".repeat(1 << 20);
        for _ in 0..200 {
            board.now(&long);
        }
        board.end("over", None);
        board.close(Duration::ZERO);
        drop(server);
    }
}
