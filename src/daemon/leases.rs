//! The thread that keeps leases: writes what is due, and soon after a view came into use that was not held before.
//!
//! Two threads never write one lease. A store that does not answer delays this thread only; a lease outlives several failures.

use super::service::Service;
use crate::telemetry::event::{Event, EventCode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// One scan opens several views at once: they are taken together.
const SOON: Duration = Duration::from_millis(50);

/// The way to that thread. The thread ends when the last copy is dropped.
#[derive(Clone, Debug)]
pub struct Keeper(Sender<()>);

impl Keeper {
    /// Starts the thread.
    pub fn spawn(service: &Arc<Service>) -> Keeper {
        let (wake, woken) = channel();
        let weak = Arc::downgrade(service);
        let interval = service.lease_interval();
        let run = move || {
            while wait(&woken, interval) {
                let Some(service) = weak.upgrade() else { return };
                // What the work shares is behind locks whose holders leave it whole.
                if catch_unwind(AssertUnwindSafe(|| service.renew_leases())).is_err() {
                    Event::new(EventCode::Internal, "a lease was not renewed by a mistake of hudifs").record();
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("leases".to_owned()).spawn(run) {
            Event::new(EventCode::LeaseFailed, format!("the thread that keeps leases cannot start: {error}"))
                .hint("cleaners of other processes do not know what readers of this mount use")
                .record();
        }
        Keeper(wake)
    }

    /// What is held has changed.
    pub fn wake(&self) {
        // The thread has ended with the daemon: nothing is held any more.
        let _ = self.0.send(());
    }
}

/// Waits for the next round; false at the end.
fn wait(woken: &Receiver<()>, interval: Duration) -> bool {
    match woken.recv_timeout(interval) {
        Ok(()) => {
            std::thread::sleep(SOON);
            while woken.try_recv().is_ok() {}
            true
        }
        Err(RecvTimeoutError::Timeout) => true,
        Err(RecvTimeoutError::Disconnected) => false,
    }
}
