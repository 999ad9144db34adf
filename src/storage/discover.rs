//! Finds the tables below a folder: every directory that holds `.hoodie`.
//!
//! Tables are not descended into, so the cost is the listing of the folders above them. Depth and number are bounded: a
//! folder with links in circles, or a whole bucket, ends.

use super::{EntryKind, Storage, TablePath};
use crate::error::{Error, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Folders listed at most.
const FOLDERS_MAX: usize = 100_000;
/// Listings at once: stores answer them side by side.
const THREADS: usize = 16;

/// The tables at most `max_depth` levels below the base (0: the base itself), sorted. A folder below that cannot be
/// listed is logged and left out; the base itself must be readable. More than 100,000 folders are refused.
pub fn discover_tables(storage: &dyn Storage, max_depth: u32) -> Result<Vec<TablePath>> {
    let mut tables = Vec::new();
    let mut level = match look(storage, &TablePath::root())? {
        Found::Table => return Ok(vec![TablePath::root()]),
        Found::Folders(folders) => folders,
    };
    let mut seen = 1;
    for _ in 0..max_depth {
        seen += level.len();
        if seen > FOLDERS_MAX {
            return Err(Error::invalid(format!("{}: more than {FOLDERS_MAX} folders", storage.uri()))
                .with_hint("name a folder closer to the tables"));
        }
        let mut next = Vec::new();
        for (folder, found) in look_many(storage, level) {
            match found {
                Ok(Found::Table) => tables.push(folder),
                Ok(Found::Folders(folders)) => next.extend(folders),
                Err(e) => tracing::warn!(uri = storage.uri(), %folder, error = %e, "a folder is left out"),
            }
        }
        level = next;
    }
    tables.sort();
    Ok(tables)
}

enum Found {
    Table,
    Folders(Vec<TablePath>),
}

fn look(storage: &dyn Storage, folder: &TablePath) -> Result<Found> {
    let mut folders = Vec::new();
    for entry in storage.list(folder)?.into_iter().filter(|e| e.kind == EntryKind::Dir) {
        if entry.name == ".hoodie" {
            return Ok(Found::Table);
        }
        if !entry.name.starts_with('.') {
            folders.push(folder.join(&entry.name)?);
        }
    }
    Ok(Found::Folders(folders))
}

fn look_many(storage: &dyn Storage, folders: Vec<TablePath>) -> Vec<(TablePath, Result<Found>)> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(folders.len()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(folders.len()) {
            scope.spawn(|| {
                while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = look(storage, folder);
                    if let Ok(mut results) = results.lock() {
                        results.push((folder.clone(), found));
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_default()
}
