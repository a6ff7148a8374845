//! Links whose way out has no carrier: the node does not dial them until it is back.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use dhow_node::config::LinkId;
use dhow_node::driver::Carrier;
use tokio::sync::Notify;

/// The links of a node that have no carrier.
#[derive(Debug, Default)]
pub struct Carriers {
    absent: RefCell<BTreeSet<LinkId>>,
    changed: Notify,
}

impl Carriers {
    /// Something about the network changed: carriers may be back.
    pub fn look(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until something about the network changes, and no longer than this: the system may not say so.
    pub async fn changed(&self, every: Duration) {
        // Whether it was the one or the other does not matter.
        let _ = tokio::time::timeout(every, self.changed.notified()).await;
    }

    /// A link has no carrier. The node is told, and told again when `is_absent` says otherwise: that is asked when the network
    /// changes, and `every` so often in case the system did not say so.
    pub fn lose(
        self: &Rc<Self>,
        link: LinkId,
        every: Duration,
        is_absent: impl Fn() -> bool + 'static,
        tell: impl Fn(Carrier) + 'static,
    ) {
        if !self.absent.borrow_mut().insert(link) {
            return;
        }
        tell(Carrier::Absent);
        let carriers = Rc::clone(self);
        drop(tokio::task::spawn_local(async move {
            while is_absent() {
                carriers.changed(every).await;
            }
            carriers.absent.borrow_mut().remove(&link);
            tell(Carrier::Present);
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::task::{LocalSet, yield_now};

    use super::*;

    #[tokio::test]
    async fn a_lost_carrier_is_told_once_and_its_return_as_soon_as_the_network_changes() {
        let link = LinkId(3);
        let (dark, told) = (Rc::new(Cell::new(true)), Rc::new(RefCell::new(Vec::new())));
        let carriers = Rc::new(Carriers::default());
        let lose = || {
            let (dark, told) = (Rc::clone(&dark), Rc::clone(&told));
            let tell = move |carrier| told.borrow_mut().push(carrier);
            carriers.lose(link, Duration::from_hours(1), move || dark.get(), tell);
        };
        let turns = async || {
            for _ in 0..10 {
                yield_now().await;
            }
        };
        let work = async {
            lose();
            lose();
            turns().await;
            carriers.look();
            turns().await;
            assert_eq!(*told.borrow(), [Carrier::Absent]);
            dark.set(false);
            turns().await;
            assert_eq!(*told.borrow(), [Carrier::Absent], "nothing has changed");
            carriers.look();
            turns().await;
            assert_eq!(*told.borrow(), [Carrier::Absent, Carrier::Present]);
            dark.set(true);
            lose();
            assert_eq!(told.borrow().len(), 3);
        };
        LocalSet::new().run_until(work).await;
    }

    #[tokio::test]
    async fn a_carrier_that_is_back_without_a_word_is_found_by_asking() {
        let (asked, told) = (Rc::new(Cell::new(0)), Rc::new(Notify::new()));
        let is_absent = move || {
            asked.set(asked.get() + 1);
            asked.get() < 4
        };
        let heard = Rc::clone(&told);
        let tell = move |carrier| {
            if carrier == Carrier::Present {
                heard.notify_one();
            }
        };
        let work = async {
            let carriers = Rc::new(Carriers::default());
            carriers.lose(LinkId(0), Duration::from_millis(1), is_absent, tell);
            told.notified().await;
        };
        LocalSet::new().run_until(work).await;
    }
}
