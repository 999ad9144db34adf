//! Directories whose newest names are not durable yet.
//!
//! A file that is finished has its bytes on the disk; its name is there with the next sync of the directory. One sync serves all files
//! that were finished in it, so directories are only noted, and synced before anything that says that they are complete: an
//! instant, `hoodie.properties`, a lock.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Syncs wait for the disk, not for a core.
const THREADS: usize = 8;

/// The directories to sync, shared by a store and those rooted below it.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    paths: Mutex<BTreeSet<PathBuf>>,
    /// Held while syncing, so that who finds nothing to do knows that it has been done.
    syncing: Mutex<()>,
}

impl Dirty {
    /// Notes that a name in the directory changed.
    pub(super) fn note(&self, directory: &Path) {
        let mut paths = self.paths();
        if !paths.contains(directory) {
            paths.insert(directory.to_owned());
        }
    }

    /// Syncs all that was noted.
    pub(super) fn sync(&self) -> Result<()> {
        let _turn = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let paths: Vec<PathBuf> = std::mem::take(&mut *self.paths()).into_iter().collect();
        let result = sync_each(&paths);
        if result.is_err() {
            self.paths().extend(paths);
        }
        result
    }

    fn paths(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sync_each(paths: &[PathBuf]) -> Result<()> {
    let part = |paths: &[PathBuf]| paths.iter().try_for_each(|p| sync(p));
    if paths.len() < 2 {
        return part(paths);
    }
    std::thread::scope(|scope| {
        let chunk = paths.len().div_ceil(THREADS).max(1);
        let running: Vec<_> = paths.chunks(chunk).map(|c| scope.spawn(move || part(c))).collect();
        let mut results = running.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(panicked())));
        results.try_for_each(|r| r)
    })
}

fn sync(path: &Path) -> Result<()> {
    let synced = std::fs::File::open(path).and_then(|dir| match dir.metadata()?.is_dir() {
        true => dir.sync_all(),
        false => Ok(()),
    });
    match synced {
        // Deleted meanwhile, with all names in it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|e| Error::io(path.display(), e)),
    }
}

fn panicked() -> Error {
    Error::internal("a thread that syncs directories panicked")
}
