//! Work on several threads: tasks taken in order, results in order, the first failure ends the rest. A panic is a failure.

use crate::error::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs `work` on every task, on up to `threads` threads, and gives the results in the tasks' order. After a failure no new
/// task is begun.
pub(crate) fn run<T: Send, R: Send>(
    threads: usize,
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let work = |task: T| {
        catch_unwind(AssertUnwindSafe(|| work(task)))
            .unwrap_or_else(|_| Err(Error::internal("a task gave up half way; what it said is in the log")))
    };
    if threads <= 1 || tasks.len() <= 1 {
        return tasks.into_iter().map(work).collect();
    }
    let count = tasks.len();
    let queue = Mutex::new(tasks.into_iter().enumerate());
    let failed = AtomicBool::new(false);
    let results = Mutex::new(Vec::with_capacity(count));
    let worker = || {
        while !failed.load(Ordering::Relaxed) {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((place, task)) = next else { return };
            let result = work(task);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(worker);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    let complete = results.len() == count;
    let results = results.into_iter().map(|(_, result)| result).collect::<Result<Vec<R>>>()?;
    if complete { Ok(results) } else { Err(Error::internal("a task that was not run")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn results_come_in_the_order_of_tasks() {
        let results = run(3, (0..100).collect(), |n| Ok(n * 2)).unwrap();
        assert_eq!(results, (0..100).map(|n| n * 2).collect::<Vec<_>>());
        assert!(run(3, Vec::<u8>::new(), Ok).unwrap().is_empty());
    }

    #[test]
    fn a_panic_is_a_failure() {
        for threads in [1, 2] {
            let result = run(threads, vec![1, 2, 3], |n: i32| if n == 2 { panic!("two") } else { Ok(n) });
            assert_eq!(result.unwrap_err().kind(), crate::ErrorKind::Internal);
        }
    }

    #[test]
    fn a_failure_ends_the_rest() {
        let begun = AtomicUsize::new(0);
        let result = run(2, (0..1000).collect(), |n: i32| {
            begun.fetch_add(1, Ordering::Relaxed);
            if n == 3 { Err(Error::invalid("three")) } else { Ok(n) }
        });
        assert_eq!(result.unwrap_err().message(), "three");
        assert!(begun.into_inner() < 1000);
    }
}
