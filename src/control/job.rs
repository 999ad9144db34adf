//! A job: work that was taken, how far it is, and how it ended.
//!
//! Every write is one, also one whose client waits for the answer. A job runs to its end whoever goes away meanwhile.

use super::problem::{Failure, Problem};
use super::types::JobStatus;
use crate::write::{CommitReport, Progress, ServiceReport};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How a job ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A commit, or a dry run.
    Commit(CommitReport),
    /// Table services.
    Services(Vec<ServiceReport>),
}

/// Work that was taken.
#[derive(Debug)]
pub struct Job {
    id: String,
    table: String,
    operation: &'static str,
    started_ms: i64,
    progress: Arc<Progress>,
    end: Mutex<Option<End>>,
    /// Told once, when the job has ended: to threads and to tasks.
    ended: Condvar,
    told: Notify,
}

#[derive(Clone, Debug)]
struct End {
    at_ms: i64,
    result: Result<Outcome, Failure>,
}

impl Job {
    /// A job that begins at `now_ms`.
    pub fn new(id: String, table: &str, operation: &'static str, now_ms: i64) -> Job {
        Job {
            id,
            table: table.to_owned(),
            operation,
            started_ms: now_ms,
            progress: Arc::default(),
            end: Mutex::new(None),
            ended: Condvar::new(),
            told: Notify::new(),
        }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What it does.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// How far it is.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Ends the job. Only the first end counts.
    pub fn finish(&self, result: Result<Outcome, Failure>, now_ms: i64) {
        self.end().get_or_insert(End { at_ms: now_ms, result });
        self.ended.notify_all();
        self.told.notify_waiters();
    }

    /// How it ended, if it has.
    pub fn result(&self) -> Option<Result<Outcome, Failure>> {
        self.end().as_ref().map(|end| end.result.clone())
    }

    /// Waits on this thread, for at most so long.
    pub fn wait(&self, longest: Duration) -> Option<Result<Outcome, Failure>> {
        let limit = Instant::now().checked_add(longest);
        let mut end = self.end();
        while end.is_none() {
            let left = limit.map_or(longest, |limit| limit.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            end = self.ended.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        end.as_ref().map(|end| end.result.clone())
    }

    /// Waits without a thread.
    pub async fn ended(&self) -> Result<Outcome, Failure> {
        loop {
            let mut told = std::pin::pin!(self.told.notified());
            // Listens before it looks, so that an end in between is not missed.
            told.as_mut().enable();
            if let Some(result) = self.result() {
                return result;
            }
            told.await;
        }
    }

    /// The job as a document.
    pub fn status(&self) -> JobStatus {
        let end = self.end().clone();
        let (files_done, files_planned) = self.progress.files();
        let mut status = JobStatus {
            id: self.id.clone(),
            table: self.table.clone(),
            operation: self.operation.to_owned(),
            state: "running".to_owned(),
            phase: self.progress.phase(),
            rows: self.progress.rows(),
            files_done,
            files_planned,
            started_ms: self.started_ms,
            ended_ms: end.as_ref().map(|end| end.at_ms),
            ..JobStatus::default()
        };
        match end.map(|end| end.result) {
            None => {}
            Some(Ok(outcome)) => {
                "done".clone_into(&mut status.state);
                match outcome {
                    Outcome::Commit(report) => status.commit = Some(report),
                    Outcome::Services(reports) => status.services = Some(reports),
                }
            }
            Some(Err(Failure(problem))) => {
                "failed".clone_into(&mut status.state);
                status.error = Some(Problem { table: Some(self.table.clone()), ..*problem });
            }
        }
        status
    }

    fn end(&self) -> MutexGuard<'_, Option<End>> {
        // Replaced whole: usable after a panic elsewhere.
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_who_waits_is_told() {
        let job = Arc::new(Job::new("1".to_owned(), "t", "upsert", 5));
        assert_eq!(job.wait(Duration::from_millis(1)), None);
        assert_eq!(job.status().state, "running");
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let job = job.clone();
                std::thread::spawn(move || job.wait(Duration::from_secs(20)))
            })
            .collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let job = job.clone();
                runtime.spawn(async move { job.ended().await })
            })
            .collect();
        let wanted = Ok(Outcome::Services(Vec::new()));
        job.finish(wanted.clone(), 6);
        job.finish(Err(Problem::new("internal", "too late").into()), 7);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Some(wanted.clone()));
        }
        for task in tasks {
            assert_eq!(runtime.block_on(task).unwrap(), wanted);
        }
        let status = job.status();
        assert_eq!((status.state.as_str(), status.ended_ms), ("done", Some(6)));
    }
}
