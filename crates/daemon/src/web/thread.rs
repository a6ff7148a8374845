//! A thread that answers over HTTP.

use std::io;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// The thread; it ends when this value is dropped.
#[derive(Debug)]
pub struct Served {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Does this work in a thread of its own, which may have tasks of its thread; the work ends when what it is given does.
    ///
    /// # Errors
    /// When the system makes no thread or no runtime.
    pub fn start<W>(
        name: &str,
        work: impl FnOnce(oneshot::Receiver<()>) -> W + Send + 'static,
    ) -> io::Result<Self>
    where
        W: Future<Output = io::Result<()>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let done = tokio::task::LocalSet::new().block_on(&runtime, work(stopped));
                if let Err(error) = done {
                    tracing::error!("nothing is answered over HTTP: {error}");
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that answers over HTTP failed");
        }
    }
}
