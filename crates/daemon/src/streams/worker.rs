//! Threads that have sockets: reading, writing, TLS and bringing stored octets in, for the connections of
//! a node that is given more than one thread. The node itself stays on its own.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use dhow_bundle::storage::Piece;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::connection::Side;
use super::flow::{Flow, farewell};
use super::outgoing::Unwritten;
use super::pipe::Pipe;
use super::refusals;
use super::rest::rest;
use super::socket::{Detached, Socket};
use super::tls::Tls;
use crate::buffers::{Buffers, ReceivePool};
use crate::extents::ExtentReader;

/// Reads and writes of one connection before the others of the thread get their turn.
const STEPS_PER_TURN: usize = 8;

/// Threads that have sockets.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<Worker>,
    next: usize,
}

#[derive(Debug)]
struct Worker {
    assignments: Option<mpsc::UnboundedSender<Assignment>>,
    thread: Option<JoinHandle<()>>,
}

/// A connection for a thread.
pub struct Assignment {
    /// The pipe through which its octets go and come.
    pub pipe: Arc<Pipe>,
    /// The octets of it that count, as of all others.
    pub unwritten: Unwritten,
    /// Its socket.
    pub socket: Detached,
    /// The other side.
    pub side: Side,
    /// The means of TLS, if it may be asked for.
    pub tls: Option<Tls>,
}

impl Workers {
    /// Start `count` threads, which read into buffers of a pool.
    ///
    /// # Errors
    /// The system gives no thread or runtime.
    pub fn start(count: usize, reader: &ExtentReader, buffers: &Buffers) -> io::Result<Self> {
        let threads = (0..count)
            .map(|_| Worker::start(reader.clone(), ReceivePool::of(buffers.clone())))
            .collect::<io::Result<_>>()?;
        Ok(Self { threads, next: 0 })
    }

    /// Give a connection to the next thread in turn; it comes back where there is none.
    pub fn assign(&mut self, assignment: Assignment) -> Result<(), Assignment> {
        self.next = self.next.wrapping_add(1);
        let at = self.next.checked_rem(self.threads.len());
        let worker = at.and_then(|at| self.threads.get(at));
        match worker.and_then(|worker| worker.assignments.as_ref()) {
            Some(assignments) => assignments
                .send(assignment)
                .map_err(|mpsc::error::SendError(assignment)| assignment),
            None => Err(assignment),
        }
    }
}

impl Worker {
    fn start(reader: ExtentReader, pool: ReceivePool) -> io::Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("streams".to_owned())
            .spawn(move || {
                let local = LocalSet::new();
                local.block_on(&runtime, take(receiver, reader, pool));
            })?;
        Ok(Self {
            assignments: Some(sender),
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.assignments = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread for connections failed");
        }
    }
}

/// Attends connections until no more can come; those that are left then are closed.
async fn take(
    mut assignments: mpsc::UnboundedReceiver<Assignment>,
    reader: ExtentReader,
    pool: ReceivePool,
) {
    let pool = Rc::new(RefCell::new(pool));
    while let Some(assignment) = assignments.recv().await {
        let (pool, reader) = (Rc::clone(&pool), reader.clone());
        tokio::task::spawn_local(async move {
            let pipe = Arc::clone(&assignment.pipe);
            if let Err(error) = attend(assignment, pool, reader).await {
                tracing::debug!("connection failed: {error}");
                if let Some(why) = refusals::why(&error) {
                    pipe.secured(Err(why));
                }
            }
            pipe.end();
        });
    }
}

/// Why a connection's turn ended.
enum Stop {
    /// The thread's others are to have theirs.
    Rest,
    StartTls,
    Close,
    Gone,
}

enum Step {
    Progress,
    Nothing,
    Stop(Stop),
}

async fn attend(
    assignment: Assignment,
    pool: Rc<RefCell<ReceivePool>>,
    reader: ExtentReader,
) -> io::Result<()> {
    let Assignment {
        pipe,
        unwritten,
        socket,
        side,
        tls,
    } = assignment;
    let mut socket = socket.attach()?;
    let mut connection = Connection {
        pipe,
        pool,
        reader,
        flow: Flow::of(&socket, unwritten),
        pieces: Vec::new(),
    };
    loop {
        let stop = std::future::poll_fn(|context| connection.turn(context, &mut socket)).await?;
        match stop {
            Stop::Rest => rest().await,
            Stop::StartTls => match side.secure(socket, tls.as_ref()).await {
                Ok((secured, identities)) => {
                    socket = secured;
                    connection.pipe.secured(Ok(identities));
                }
                Err(why) => {
                    connection.pipe.secured(Err(why));
                    return Ok(());
                }
            },
            Stop::Close => {
                farewell(&mut socket).await;
                return Ok(());
            }
            Stop::Gone => return Ok(()),
        }
    }
}

struct Connection {
    pipe: Arc<Pipe>,
    pool: Rc<RefCell<ReceivePool>>,
    reader: ExtentReader,
    flow: Flow,
    pieces: Vec<Piece>,
}

impl Connection {
    fn turn(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> Poll<io::Result<Stop>> {
        for _ in 0..STEPS_PER_TURN {
            match self.step(context, socket)? {
                Step::Progress => {}
                Step::Nothing => return Poll::Pending,
                Step::Stop(stop) => return Poll::Ready(Ok(stop)),
            }
        }
        Poll::Ready(Ok(Stop::Rest))
    }

    /// Writes once and reads once, as far as both go without waiting.
    fn step(&mut self, context: &mut Context<'_>, socket: &mut Socket) -> io::Result<Step> {
        let orders = self.pipe.orders(context.waker());
        if orders.cut {
            socket.reset_on_close();
            return Ok(Step::Stop(Stop::Gone));
        }
        if self.flow.outgoing.is_empty() {
            self.pieces.clear();
            self.pipe.take(&mut self.pieces, self.flow.next_octets());
            self.reader
                .resolve(&self.pieces, self.flow.outgoing.refill())
                .map_err(|error| io::Error::other(format!("stored octets: {error}")))?;
            self.flow.outgoing.refilled();
        }
        let mut progress = self.flow.write(context, socket)?;
        if orders.close || orders.start_tls {
            // Nothing is read any more before what is ordered is done.
            return Ok(match self.flow.is_written() {
                true if orders.close => Step::Stop(Stop::Close),
                true => Step::Stop(Stop::StartTls),
                false if progress => Step::Progress,
                false => Step::Nothing,
            });
        }
        if self.pipe.has_room(context.waker()) {
            match self
                .flow
                .read(context, socket, &mut self.pool.borrow_mut())?
            {
                Poll::Ready(octets) if octets.is_empty() => return Ok(Step::Stop(Stop::Gone)),
                Poll::Ready(octets) => {
                    self.pipe.arrived(octets);
                    progress = true;
                }
                Poll::Pending => {}
            }
        }
        Ok(if progress {
            Step::Progress
        } else {
            Step::Nothing
        })
    }
}
