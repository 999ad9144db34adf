//! The jobs of a process: those that run, and the newest of those that have ended.

use crate::control::job::{Job, Outcome};
use crate::control::problem::{Failure, Problem};
use crate::daemon::service::now_ms;
use crate::error::Error;
use crate::telemetry::metric;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Jobs that run or wait for their turn, at most: each has a thread and holds a body.
const RUNNING_MAX: usize = 64;
/// Ended jobs that can still be asked about.
const ENDED_MAX: usize = 1024;

/// The jobs, oldest first.
#[derive(Debug, Default)]
pub struct Registry(Mutex<VecDeque<Arc<Job>>>);

impl Registry {
    /// A new job, unless too many run already.
    pub fn add(&self, table: &str, operation: &'static str) -> Result<Arc<Job>, Failure> {
        let mut jobs = self.lock();
        if jobs.iter().filter(|job| job.result().is_none()).count() >= RUNNING_MAX {
            let problem =
                Problem::new("too_many_writes", format!("{RUNNING_MAX} writes are running or waiting already"));
            return Err(problem.hint("try again later, or send more rows with each write").into());
        }
        let job = Arc::new(Job::new(uuid::Uuid::new_v4().to_string(), table, operation, now_ms()));
        jobs.push_back(job.clone());
        let mut surplus = jobs.len().saturating_sub(RUNNING_MAX + ENDED_MAX);
        jobs.retain(|job| {
            let goes = surplus > 0 && job.result().is_some();
            surplus -= usize::from(goes);
            !goes
        });
        metric::WRITES_RUNNING.add((), 1);
        Ok(job)
    }

    /// Ends a job.
    pub fn finish(&self, job: &Job, result: Result<Outcome, Failure>) {
        job.finish(result, now_ms());
        metric::WRITES_RUNNING.add((), -1);
    }

    /// The job of that name. `NotFound` for one that was never taken or ended long ago.
    pub fn get(&self, id: &str) -> Result<Arc<Job>, Failure> {
        self.lock().iter().find(|job| job.id() == id).cloned().ok_or_else(|| {
            let error = Error::not_found(format!("there is no job {id:?}"));
            error.with_hint("a job is forgotten some time after its end, and when the daemon ends").into()
        })
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Job>> {
        self.lock().iter().cloned().collect()
    }

    /// Those that have not ended.
    pub fn running(&self) -> Vec<Arc<Job>> {
        self.lock().iter().filter(|job| job.result().is_none()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_run_and_only_so_many_are_remembered() {
        let jobs = Registry::default();
        let running: Vec<_> = (0..RUNNING_MAX).map(|_| jobs.add("t", "upsert").unwrap()).collect();
        assert_eq!(jobs.add("t", "upsert").unwrap_err().0.code, "too_many_writes");
        for job in &running[1..] {
            jobs.finish(job, Ok(Outcome::Services(Vec::new())));
        }
        for _ in 0..2 * ENDED_MAX {
            let job = jobs.add("t", "clean").unwrap();
            jobs.finish(&job, Ok(Outcome::Services(Vec::new())));
        }
        assert_eq!(jobs.all().len(), RUNNING_MAX + ENDED_MAX);
        assert_eq!(jobs.running().len(), 1);
        assert!(jobs.get(running[0].id()).is_ok(), "what runs is never forgotten");
        assert!(jobs.get(running[1].id()).is_err());
    }
}
