//! The thread that serves operators.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, oneshot};

/// Operators' connections at a time.
const CONNECTIONS_MAX: usize = 64;

/// Octets of a request's head, at most.
const HEAD_OCTETS_MAX: usize = 16 << 10;

/// How long a request's head may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait after a connection could not be accepted: the system lacked something.
const SHORTAGE_WAIT: Duration = Duration::from_millis(200);

/// The listeners of the operator's interface, bound and not yet served.
#[derive(Debug)]
pub struct Doors {
    /// The admin socket.
    pub unix: std::os::unix::net::UnixListener,
    /// TCP, where the configuration has it.
    pub tcp: Vec<std::net::TcpListener>,
}

/// The thread; it ends when this value is dropped.
#[derive(Debug)]
pub struct AdminThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminThread {
    /// Serve operators: `open` on the admin socket, `guarded` on TCP.
    ///
    /// # Errors
    /// When the system makes no thread or no runtime.
    pub fn start(doors: Doors, open: Router, guarded: Router) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                let served = tokio::task::LocalSet::new()
                    .block_on(&runtime, serve(doors, open, guarded, stopped));
                if let Err(error) = served {
                    tracing::error!("the operator's interface does not work: {error}");
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the operator's thread failed");
        }
    }
}

async fn serve(
    doors: Doors,
    open: Router,
    guarded: Router,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let unix = UnixListener::from_std(doors.unix)?;
    tokio::task::spawn_local({
        let places = Arc::clone(&places);
        async move {
            accept(
                async || unix.accept().await.map(|(stream, _)| stream),
                open,
                places,
            )
            .await
        }
    });
    for listener in doors.tcp {
        let listener = TcpListener::from_std(listener)?;
        let (guarded, places) = (guarded.clone(), Arc::clone(&places));
        tokio::task::spawn_local(async move {
            accept(
                async || listener.accept().await.map(|(stream, _)| stream),
                guarded,
                places,
            )
            .await;
        });
    }
    // The sender says nothing: it is dropped.
    let _ = stopped.await;
    Ok(())
}

async fn accept<S>(accept: impl AsyncFn() -> io::Result<S>, router: Router, places: Arc<Semaphore>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!("cannot accept an operator's connection: {error}");
                tokio::time::sleep(SHORTAGE_WAIT).await;
                continue;
            }
        };
        let router = router.clone();
        tokio::task::spawn_local(async move {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HEAD_OCTETS_MAX)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
                .await;
            if let Err(error) = served {
                tracing::debug!("operator's connection ended: {error}");
            }
            drop(place);
        });
    }
}
