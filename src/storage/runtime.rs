//! The one asynchronous runtime of the process, and the bridge to it from blocking code.
//!
//! It is made at the first use: a process that goes to the background must fork before it opens a table.

use crate::error::{Error, Result};
use std::future::Future;
use std::sync::{OnceLock, mpsc};
use tokio::runtime::{Builder, Runtime};

/// Store requests wait far more than they compute; two threads are kept even on one core, so that one slow callback does
/// not stop the rest.
const THREADS_MIN: usize = 2;
const THREADS_MAX: usize = 8;

/// The runtime that all stores share.
///
/// Fails only where the operating system gives no threads.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(THREADS_MIN, usize::from);
        Builder::new_multi_thread()
            .worker_threads(threads.clamp(THREADS_MIN, THREADS_MAX))
            .thread_name("hudifs-storage")
            .enable_all()
            .build()
    });
    made.as_ref().map_err(|e| Error::internal(format!("no threads for store requests: {e}")))
}

/// Runs `work` on the shared runtime and waits for it. A panic in it is an error here.
///
/// Called from a thread of that same runtime it would hold one of its threads while it waits; callers do not.
pub(crate) fn block_on<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let (tx, rx) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let _ = tx.send(work.await);
    });
    rx.recv().unwrap_or_else(|_| Err(Error::internal("a store request panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_the_runtime_goes_on() {
        let e = block_on::<()>(async { panic!("boom") }).unwrap_err();
        assert!(e.message().contains("panicked"), "{e}");
        assert_eq!(block_on(async { Ok(7) }).unwrap(), 7);
    }
}
