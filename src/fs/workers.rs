//! Threads that may wait for the store, so that those that take requests need not.
//!
//! Two queues: calls that somebody waits for, and loading ahead, which gives way and may be dropped. Threads start when there is
//! work and end with the queue's owner.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most jobs of loading ahead in wait; older ones are dropped.
const AHEAD_MAX: usize = 4096;

type Job = Box<dyn FnOnce() + Send>;

/// A bounded set of threads.
pub struct Workers {
    shared: Arc<Shared>,
    threads_max: usize,
}

struct Shared {
    queues: Mutex<Queues>,
    ready: Condvar,
}

#[derive(Default)]
struct Queues {
    urgent: VecDeque<Job>,
    ahead: VecDeque<Job>,
    threads: usize,
    idle: usize,
    ahead_running: usize,
    ended: bool,
}

impl Workers {
    /// At most `threads_max` threads.
    pub fn new(threads_max: usize) -> Workers {
        let shared = Shared { queues: Mutex::default(), ready: Condvar::new() };
        Workers { shared: Arc::new(shared), threads_max: threads_max.max(2) }
    }

    /// Runs a job that somebody waits for.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut queues = self.shared.lock();
        queues.urgent.push_back(Box::new(job));
        self.wake(queues);
    }

    /// Runs a job that loads ahead, when nobody waits for another.
    pub fn run_ahead(&self, job: impl FnOnce() + Send + 'static) {
        let mut queues = self.shared.lock();
        if queues.ahead.len() >= AHEAD_MAX {
            queues.ahead.pop_front();
        }
        queues.ahead.push_back(Box::new(job));
        self.wake(queues);
    }

    /// Most threads.
    pub fn threads_max(&self) -> usize {
        self.threads_max
    }

    fn wake(&self, mut queues: MutexGuard<'_, Queues>) {
        // Threads that were woken and have not run yet still count as idle: there must be one for each job.
        if queues.idle < queues.urgent.len() + queues.ahead.len() && queues.threads < self.threads_max {
            queues.threads += 1;
            drop(queues);
            let shared = self.shared.clone();
            let ahead_max = self.threads_max - 1;
            let started =
                std::thread::Builder::new().name("hudifs-worker".into()).spawn(move || work(&shared, ahead_max));
            if let Err(error) = started {
                // The threads that run take the job; without any, it waits for the next try.
                tracing::warn!(%error, "cannot start a worker thread");
                self.shared.lock().threads -= 1;
            }
        } else {
            drop(queues);
            self.shared.ready.notify_one();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut queues = self.shared.lock();
        queues.ended = true;
        queues.ahead.clear();
        drop(queues);
        self.shared.ready.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // Jobs run outside the lock, so a panic leaves the queues whole.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn work(shared: &Shared, ahead_max: usize) {
    let mut queues = shared.lock();
    loop {
        // One thread is always left for jobs that somebody waits for.
        let (job, ahead) = match queues.urgent.pop_front() {
            Some(job) => (Some(job), false),
            None if queues.ahead_running < ahead_max => (queues.ahead.pop_front(), true),
            None => (None, false),
        };
        let Some(job) = job else {
            if queues.ended {
                return;
            }
            queues.idle += 1;
            queues = shared.ready.wait(queues).unwrap_or_else(PoisonError::into_inner);
            queues.idle -= 1;
            continue;
        };
        queues.ahead_running += usize::from(ahead);
        drop(queues);
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a worker's job panicked; its request is answered with EIO");
        }
        queues = shared.lock();
        queues.ahead_running -= usize::from(ahead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn jobs_that_somebody_waits_for_never_wait_for_loading_ahead() {
        let workers = Workers::new(2);
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for _ in 0..10 {
            let held = held.clone();
            workers.run_ahead(move || {
                let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(10));
            });
        }
        let (done, finished) = channel();
        workers.run(move || done.send(()).unwrap());
        finished.recv_timeout(Duration::from_secs(5)).expect("the urgent job ran");
        drop(release);
    }

    #[test]
    fn a_panic_costs_no_thread() {
        let workers = Workers::new(2);
        for _ in 0..20 {
            workers.run(|| panic!("on purpose"));
        }
        let (done, finished) = channel();
        workers.run(move || done.send(()).unwrap());
        finished.recv_timeout(Duration::from_secs(5)).expect("workers go on");
    }
}
