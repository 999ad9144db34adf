//! What writing needs of a table that is served.

use super::{Entry, Service, open};
use crate::control::problem::{Failure, Problem};
use crate::control::types::TableStatus;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Storage, TablePath};
use crate::table::Snapshot;
use std::sync::Arc;

impl Service {
    /// Refuses to write where the commit could not be shown, and where the table is not open.
    pub fn check_writable(&self, entry: &Entry) -> Result<(), Failure> {
        let refused = |message: &str, hint: &str| {
            Err(Failure::from(Problem::new("read_only", message).hint(hint)).table(&entry.name))
        };
        if self.options.read_only {
            return refused("the mount takes no writes (--read-only)", "mount without it, or write to the table's URI");
        }
        if self.options.as_of.is_some() {
            return refused("the mount shows the past (--as-of)", "write through a mount of the present");
        }
        self.storage_of(entry).map(|_| ()).map_err(|e| Failure::from(e).table(&entry.name))
    }

    /// The store of a table that is open.
    pub fn storage_of(&self, entry: &Entry) -> Result<Arc<dyn Storage>> {
        Ok(entry.opened_table().ok_or_else(|| entry.failure())?.storage().clone())
    }

    /// The newest snapshot that is loaded of a table.
    pub fn snapshot_of(&self, entry: &Entry) -> Result<Arc<Snapshot>, Failure> {
        self.shown(entry)
    }

    /// What the user would have the memory stay below, bytes.
    pub fn memory_target(&self) -> Option<u64> {
        self.options.memory_target_bytes
    }

    /// The place of a table that is to be created in the warehouse.
    pub fn place_of(&self, name: &str) -> Result<TablePath> {
        if self.options.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the mount takes no writes (--read-only)"));
        }
        if !self.warehouse {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the mount shows one table, and another has no place in it",
            )
            .with_hint("mount a warehouse (--warehouse), or create the table by its URI: `hudifs create`"));
        }
        let path = TablePath::parse(name)?;
        if path.is_root() {
            return Err(Error::invalid("a table needs a name").in_column("name"));
        }
        let inside = self.entries().into_iter().find(|e| lies_in(&path, &e.path) || lies_in(&e.path, &path));
        if let Some(entry) = inside {
            let (kind, what) = match entry.path == path {
                true => (ErrorKind::AlreadyExists, format!("there is a table {name:?} already")),
                false => {
                    (ErrorKind::Invalid, format!("{name:?} and the table {:?} would lie in each other", entry.name))
                }
            };
            return Err(Error::new(kind, what).in_column("name"));
        }
        Ok(path)
    }

    /// Makes that place.
    pub fn make_place(&self, path: &TablePath) -> Result<Arc<dyn Storage>> {
        self.root.create_dir(path)?;
        self.root.rooted_at(path)
    }

    /// Opens a table that was created and shows it. What it looks like.
    pub fn show_created(&self, path: &TablePath) -> Result<TableStatus, Failure> {
        // Opened first: a table that cannot be opened is the caller's failure, not a broken entry of the mount.
        drop(open(self.root.rooted_at(path)?, &self.options)?);
        // The watcher may have found it meanwhile.
        if self.entry(path.as_str()).is_err() {
            self.add(path)?;
        }
        Ok(self.table_status(&*self.entry(path.as_str())?))
    }
}

fn lies_in(inner: &TablePath, outer: &TablePath) -> bool {
    inner.as_str().strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
