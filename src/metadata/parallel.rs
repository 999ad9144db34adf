//! Doing the same for several file groups at once.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` on all items with some threads, this one among them; results in order. After a failure nothing new is begun.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let run = || -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return Ok(done) };
            match work(item) {
                Ok(result) => done.push((i, result)),
                Err(e) => {
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(e);
                }
            }
        }
    };
    let parts: Vec<Result<Vec<(usize, R)>>> = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
        let own = run();
        let died = || Err(Error::internal("a thread that wrote the metadata table died"));
        std::iter::once(own).chain(helpers.into_iter().map(|h| h.join().unwrap_or_else(|_| died()))).collect()
    });
    let mut done = Vec::with_capacity(items.len());
    for part in parts {
        done.extend(part?);
    }
    done.sort_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
