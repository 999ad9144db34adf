//! What a commit did, and how far it is.

use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// What one commit did, or, of a dry run, would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitReport {
    /// The commit's instant; `None` of a dry run, and of a request that changed nothing.
    pub instant: Option<String>,
    /// `UPSERT`, `DELETE`, …
    pub operation: String,
    /// `commit`, `deltacommit` or `replacecommit`.
    pub action: String,
    /// Rows taken in.
    pub rows: u64,
    /// Keys that were new.
    pub inserted: u64,
    /// Keys that were there.
    pub updated: u64,
    /// Keys deleted.
    pub deleted: u64,
    /// The files written.
    pub files: Vec<FileReport>,
    /// File groups that are replaced.
    pub replaced: u64,
    /// True where an earlier commit with the same idempotency key answers.
    pub replayed: bool,
    /// Nothing was written: a dry run.
    pub dry_run: bool,
    /// What was done beside the commit: roll backs before it, services after it.
    pub services: Vec<ServiceReport>,
    /// What a person should know, a line each.
    pub warnings: Vec<String>,
}

/// One written file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// The partition's path.
    pub partition: String,
    /// The file group; empty in a dry run for a group that would be new.
    pub file_id: String,
    /// The file's name; empty in a dry run.
    pub name: String,
    /// Bytes; 0 in a dry run.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// Rows inserted into it.
    pub inserted: u64,
    /// Rows updated in it.
    pub updated: u64,
    /// Rows deleted from it.
    pub deleted: u64,
}

/// What a table service did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceReport {
    /// `clean`, `compact`, `archive`, `rollback`.
    pub service: String,
    /// The instant it ran as; archival has none.
    pub instant: Option<String>,
    /// Files written, deleted, or instants archived.
    pub items: u64,
    /// What else there is to say.
    pub detail: String,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting for its turn.
    #[default]
    Waiting,
    /// Taking rows in.
    Reading,
    /// Looking keys up.
    Indexing,
    /// Writing data files.
    Writing,
    /// In the critical section.
    Committing,
    /// Table services after the commit.
    Services,
    /// Done, well or badly.
    Done,
}

/// How far a request is; written by the writer, read by whoever shows it.
#[derive(Debug, Default)]
pub struct Progress {
    phase: Mutex<Phase>,
    rows: AtomicU64,
    files_done: AtomicU64,
    files_planned: AtomicU64,
}

impl Progress {
    /// Enters a phase.
    pub fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// The phase it is in.
    pub fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts rows taken in.
    pub fn add_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows taken in so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Plans more files.
    pub fn plan_files(&self, files: u64) {
        self.files_planned.fetch_add(files, Ordering::Relaxed);
    }

    /// Counts a file as done.
    pub fn file_done(&self) {
        self.files_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Files done, and files known to be written in all so far.
    pub fn files(&self) -> (u64, u64) {
        (self.files_done.load(Ordering::Relaxed), self.files_planned.load(Ordering::Relaxed))
    }
}
