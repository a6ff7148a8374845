//! The pause between two turns of a connection's task, in which all others of its thread have theirs.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};

/// The end of a pause: the runtime has looked whom sockets and other threads woke.
#[derive(Debug, Default)]
struct Pause {
    is_over: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Pause {
    fn wake(self: Arc<Self>) {
        self.is_over.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = &*task {
            task.wake_by_ref();
        }
    }
}

/// Lets a thread's other tasks have their turn, and those first that wait for a socket or for another thread. A task that is woken
/// meanwhile waits all the same: octets that came often wake the task that read them, and it would go on before the runtime looks
/// whom sockets concern.
pub async fn rest() {
    let pause = Arc::new(Pause::default());
    let waker = Waker::from(Arc::clone(&pause));
    let mut rest = pin!(tokio::task::yield_now());
    let mut is_asked = false;
    std::future::poll_fn(|context| {
        if pause.is_over.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        *pause.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        if !is_asked {
            is_asked = true;
            // The runtime wakes this waker once it has looked; the answer of the second poll does not matter.
            let _ = rest
                .as_mut()
                .poll(&mut std::task::Context::from_waker(&waker));
        }
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Turns of a task that is never without work until another task has heard a thread, or a socket.
    fn turns_until_heard(by: Sender, wakes_itself: bool) -> u32 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let sent = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(AtomicBool::new(false));
        let local = tokio::task::LocalSet::new();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (mut socket, other_socket) = std::os::unix::net::UnixStream::pair().unwrap();
        other_socket.set_nonblocking(true).unwrap();
        let flag = Arc::clone(&heard);
        local.spawn_local(async move {
            match by {
                Sender::Thread => receiver.await.unwrap(),
                Sender::Socket => {
                    let other_socket = tokio::net::UnixStream::from_std(other_socket).unwrap();
                    other_socket.readable().await.unwrap();
                }
            }
            flag.store(true, Ordering::SeqCst);
        });
        let flag = Arc::clone(&sent);
        let busy = local.spawn_local(async move {
            // The one that waits does so before anything is sent.
            rest().await;
            let other = std::thread::spawn(move || {
                match by {
                    Sender::Thread => sender.send(()).unwrap(),
                    Sender::Socket => std::io::Write::write_all(&mut socket, b"!").unwrap(),
                }
                flag.store(true, Ordering::SeqCst);
            });
            let (mut turns, begun) = (0, Instant::now());
            while !heard.load(Ordering::SeqCst) {
                assert!(begun.elapsed() < Duration::from_secs(60), "nobody heard");
                turns += u32::from(sent.load(Ordering::SeqCst));
                if wakes_itself {
                    std::future::poll_fn(|context| {
                        context.waker().wake_by_ref();
                        Poll::Ready(())
                    })
                    .await;
                }
                rest().await;
            }
            other.join().unwrap();
            turns
        });
        local.block_on(&runtime, busy).unwrap()
    }

    #[derive(Clone, Copy, Debug)]
    enum Sender {
        Thread,
        Socket,
    }

    /// A thread that is never without work hears others at once, and not after some dozens of its turns.
    #[test]
    fn who_rests_lets_those_have_their_turn_that_sockets_and_threads_woke() {
        for by in [Sender::Thread, Sender::Socket] {
            for wakes_itself in [false, true] {
                let turns = turns_until_heard(by, wakes_itself);
                assert!(turns <= 3, "{turns} turns, {by:?}, {wakes_itself}");
            }
        }
    }
}
