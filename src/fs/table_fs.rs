//! [`TableFs`]: the tree of one table or of a warehouse.

use super::{Host, Pins, Source, View};
use crate::error::{Error, Result};
use crate::storage::TablePath;
use std::sync::Arc;
use std::time::Duration;

/// How the tree looks, and what it may use.
#[derive(Clone, Debug)]
pub struct FsOptions {
    /// Owner of every node.
    pub uid: u32,
    /// Group of every node.
    pub gid: u32,
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of directories.
    pub dir_mode: u16,
    /// How long the kernel may keep names and attributes; changes are announced to it whatever the value.
    pub ttl: Duration,
    /// Bytes that loaded partitions may take before the least recently used are dropped.
    pub memory_target: u64,
    /// Shows the tables' roots as of this moment instead of the newest commit.
    pub as_of: Option<String>,
}

impl Default for FsOptions {
    /// The caller's uid and gid, 0644 and 0755 (so that copies can be written to; the tree itself cannot), an hour, 256 MiB.
    fn default() -> Self {
        // SAFETY: both calls have no preconditions and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        FsOptions {
            uid,
            gid,
            file_mode: 0o644,
            dir_mode: 0o755,
            ttl: Duration::from_secs(3600),
            memory_target: 256 << 20,
            as_of: None,
        }
    }
}

/// What the kernel must forget after a change of the tree. Opaque: hand it to [`crate::fuse::Session::notify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "the kernel goes on showing the old tree until it is told"]
pub struct Invalidation {
    /// Names to forget: parent inode and name.
    pub entries: Vec<(u64, String)>,
    /// Inodes whose attributes and listings or pages are to be forgotten.
    pub inodes: Vec<u64>,
}

impl Invalidation {
    /// True if nothing needs to be told.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.inodes.is_empty()
    }
}

/// What readers hold of a table, for whoever wants to remove files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Instants of views that are pinned or in use below `.hudifs/read_optimized`.
    pub instants: Vec<crate::format::instant::InstantTime>,
    /// Stored paths of files that are open.
    pub files: Vec<TablePath>,
}

/// Numbers for status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStats {
    /// Inodes that the kernel knows.
    pub inodes: u64,
    /// Open files.
    pub open_files: u64,
    /// Partitions that are loaded.
    pub partitions_loaded: u64,
    /// Bytes that they take.
    pub partition_bytes: u64,
}

/// The tree of one table or of a warehouse.
pub struct TableFs {}

impl TableFs {
    /// A tree whose root is the root of one table.
    pub fn single(source: Arc<dyn Source>, host: Arc<dyn Host>, options: FsOptions) -> Result<Arc<TableFs>> {
        let _ = (source, host, options);
        Err(Error::internal("not yet"))
    }

    /// A tree without tables; [`TableFs::add_table`] gives it some.
    pub fn warehouse(host: Arc<dyn Host>, options: FsOptions) -> Arc<TableFs> {
        let _ = (host, options);
        Arc::new(TableFs {})
    }

    /// Shows a table at a path of a warehouse. `Invalid` where the mount is one table or the path lies above or below
    /// another table's; `AlreadyExists` at another table's own path, unless that one had failed.
    pub fn add_table(&self, path: &TablePath, source: Arc<dyn Source>) -> Result<Invalidation> {
        let _ = (path, source);
        Ok(Invalidation::default())
    }

    /// Shows a directory that answers EIO for a table that cannot be opened, so that its absence is not mistaken for emptiness.
    pub fn add_failed_table(&self, path: &TablePath, error: Error) -> Result<Invalidation> {
        let _ = (path, error);
        Ok(Invalidation::default())
    }

    /// Takes a table out of a warehouse. Open files stay readable.
    pub fn remove_table(&self, path: &TablePath) -> Invalidation {
        let _ = path;
        Invalidation::default()
    }

    /// Switches a table (the root path where the mount is one table) to a newer view, for the whole tree at once.
    /// On an error the old generation stays. The caller hands the result to [`crate::fuse::Session::notify`].
    pub fn publish(&self, table: &TablePath, new: Arc<dyn View>) -> Result<Invalidation> {
        let _ = (table, new);
        Ok(Invalidation::default())
    }

    /// The pins of all tables.
    pub fn pins(&self) -> &Pins {
        static NONE: std::sync::LazyLock<Pins> = std::sync::LazyLock::new(Pins::default);
        &NONE
    }

    /// What readers hold of a table.
    pub fn held(&self, table: &TablePath) -> Held {
        let _ = table;
        Held::default()
    }

    /// Numbers for status.
    pub fn stats(&self) -> FsStats {
        FsStats::default()
    }
}
