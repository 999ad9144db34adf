//! The one place that touches bytes at rest.
//!
//! A [`Storage`] is rooted at one table's base path and takes only [`TablePath`]s, so that no path that leads out of the
//! table can be expressed. Calls block: the local disk is fastest that way, and object stores hide their requests'
//! concurrency behind the `*_many` calls. Readers must not hold a lock that a FUSE handler takes while they call.
//!
//! Every call is safe to make from several threads.

mod cache;
pub mod discover;
pub mod local;
pub mod location;
mod metered;
mod mutate;
pub mod object;
pub mod options;
pub mod path;
mod readahead;
pub mod runtime;
pub mod stats;

pub use discover::discover_tables;
pub use local::LocalStorage;
pub use location::Location;
pub use mutate::{ObjectWriter, Removal, RemovalKind, VersionTag};
pub use object::ObjectStorage;
pub use options::StorageOptions;
pub use path::TablePath;
pub use stats::StorageStats;

use crate::error::Result;
use bytes::Bytes;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// What a store says about one object, without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Size in bytes.
    pub size: u64,
    /// Last modification, milliseconds since the epoch.
    pub modified_ms: i64,
    /// The store's version tag, where it has one. Local files have none.
    pub etag: Option<String>,
}

/// One entry of a directory, without its parents' names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The entry's own name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file; the size in bytes where the listing tells it for free (object stores), else `None` (local disks).
    File {
        /// Size in bytes.
        size: Option<u64>,
    },
    /// A directory, or a common prefix of an object store.
    Dir,
}

/// Access to one table's bytes.
///
/// Mutations are atomic: no reader ever sees a part of what is written. A store that takes no writes answers `ReadOnly`.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// The table's base URI, without a trailing slash: `file:///data/trips`, `s3://bucket/trips`.
    fn uri(&self) -> &str;

    /// The whole object; objects over `limit` bytes are refused as `Corrupt` before they are read.
    fn read(&self, path: &TablePath, limit: u64) -> Result<Bytes>;

    /// Exactly `len` bytes at `offset`; `Corrupt` if the object is shorter.
    fn read_range(&self, path: &TablePath, offset: u64, len: u64) -> Result<Bytes>;

    /// Several whole objects at once, results in order. Stores overlap the requests.
    fn read_many(&self, paths: &[TablePath], limit: u64) -> Vec<Result<Bytes>> {
        paths.iter().map(|p| self.read(p, limit)).collect()
    }

    /// Size, time and tag of one object.
    fn stat(&self, path: &TablePath) -> Result<ObjectMeta>;

    /// Stats several names of one directory at once, results in order.
    fn stat_many(&self, dir: &TablePath, names: &[&str]) -> Vec<Result<ObjectMeta>>;

    /// The entries of one directory, in no order. A directory that does not exist is `NotFound` on local disks and may be
    /// an empty listing on object stores, where directories do not exist.
    fn list(&self, dir: &TablePath) -> Result<Vec<DirEntry>>;

    /// True where [`Storage::list`] of a missing directory is empty rather than `NotFound`, and where one flat listing is
    /// cheaper than a walk.
    fn is_object_store(&self) -> bool;

    /// All files below `dir` as paths relative to it with their sizes, where a flat listing is cheap; `None` elsewhere.
    fn list_flat(&self, dir: &TablePath) -> Option<Result<Vec<(String, u64)>>>;

    /// Opens an object for random reads of one version of its bytes: an object that is replaced later makes reads fail with
    /// `Stale`, never mixes bytes. With `expected_size`, another size is `Stale` too.
    fn open(&self, path: &TablePath, expected_size: Option<u64>) -> Result<Arc<dyn RandomRead>>;

    /// The file's path on the local disk, where there is one. It has been checked not to lead out of the table.
    fn local_path(&self, path: &TablePath) -> Option<PathBuf>;

    /// The same store rooted at a directory below, sharing connections, caches and counters: a warehouse's tables.
    fn rooted_at(&self, dir: &TablePath) -> Result<Arc<dyn Storage>>;

    /// What the store was asked for so far.
    fn stats(&self) -> &StorageStats;

    /// A whole object and the tag of that version, for [`Storage::put_if_match`]. Objects over `limit` bytes are refused.
    fn read_tagged(&self, _path: &TablePath, _limit: u64) -> Result<(Bytes, VersionTag)> {
        Err(mutate::read_only(self.uri()))
    }

    /// Creates an object if there is none of that name, else `AlreadyExists`; folders are made as needed.
    ///
    /// Durable when it returns, together with every file that was finished before (on this table and those rooted below).
    /// Where a store's answer was lost on the way, `AlreadyExists` may speak of the caller's own object: see what it holds.
    fn create(&self, _path: &TablePath, _bytes: Bytes) -> Result<ObjectMeta> {
        Err(mutate::read_only(self.uri()))
    }

    /// Creates many small objects at once, results in order. Visible when it returns, but not durable: for markers.
    fn create_many(&self, files: &[(TablePath, Bytes)]) -> Vec<Result<()>> {
        files.iter().map(|_| Err(mutate::read_only(self.uri()))).collect()
    }

    /// Creates an object or replaces it as a whole; durable when it returns.
    fn put(&self, _path: &TablePath, _bytes: Bytes) -> Result<ObjectMeta> {
        Err(mutate::read_only(self.uri()))
    }

    /// Replaces the version `expected`, or creates the object where `expected` is `None`; returns the new version's tag.
    /// `Conflict` if there is another version, or if there is one where none was expected. `Unsupported` where the store
    /// cannot (HDFS). On local disks it is visible when it returns, but not durable: for locks.
    fn put_if_match(&self, _path: &TablePath, _bytes: Bytes, _expected: Option<&VersionTag>) -> Result<VersionTag> {
        Err(mutate::read_only(self.uri()))
    }

    /// Starts a file of any size, to be written in order. `AlreadyExists`, now or at its end, if the name is taken.
    fn create_writer(&self, _path: &TablePath) -> Result<Box<dyn ObjectWriter>> {
        Err(mutate::read_only(self.uri()))
    }

    /// Makes a directory with its parents where directories exist; elsewhere does nothing.
    fn create_dir(&self, _dir: &TablePath) -> Result<()> {
        Err(mutate::read_only(self.uri()))
    }

    /// Makes durable what was finished so far. [`Storage::create`] and [`Storage::put`] do so themselves.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Deletes a thing; one that is not there is deleted already.
    fn delete(&self, _what: &Removal) -> Result<()> {
        Err(mutate::read_only(self.uri()))
    }

    /// Deletes several things, results in order. Stores overlap the requests.
    fn delete_many(&self, what: &[Removal]) -> Vec<Result<()>> {
        what.iter().map(|w| self.delete(w)).collect()
    }
}

/// Opens the store that `uri` names, rooted there: a bare path, or a URI of one of [`location::SCHEMES`].
///
/// A local directory must exist. Whether an object store's prefix exists shows only when something is read.
pub fn open(uri: &str, options: &StorageOptions) -> Result<Arc<dyn Storage>> {
    let store: Arc<dyn Storage> = match Location::parse(uri)? {
        Location::Local(path) => Arc::new(LocalStorage::new(&path)?),
        location => Arc::new(ObjectStorage::connect(&location, options)?),
    };
    Ok(Arc::new(metered::Metered(store)))
}

/// The same for a base that is to be made: a local directory is made with its parents, and survives a crash.
pub fn open_new(uri: &str, options: &StorageOptions) -> Result<Arc<dyn Storage>> {
    if let Location::Local(path) = Location::parse(uri)?
        && let Some(there) = path.ancestors().find(|ancestor| ancestor.is_dir())
        && let Ok(below) = path.strip_prefix(there)
        && !below.as_os_str().is_empty()
    {
        let below = below.to_str().ok_or_else(|| crate::Error::invalid(format!("{} is not UTF-8", path.display())))?;
        LocalStorage::new(there)?.create_dir(&TablePath::parse(below)?)?;
    }
    open(uri, options)
}

/// What a finished read is handed to. It may run on any thread, and must not block.
pub type ReadDone = Box<dyn FnOnce(Result<Bytes>) + Send>;

/// One version of one object's bytes.
pub trait RandomRead: Send + Sync + std::fmt::Debug {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Reads `len` bytes at `offset`, fewer only at the end of the object, and hands them to `done`: at once on the caller's
    /// thread where the bytes are at hand, later on another one where they must be fetched.
    fn read_at(&self, offset: u64, len: u32, done: ReadDone);

    /// The open local file, for the kernel to read from without us (FUSE passthrough).
    fn local_file(&self) -> Option<&File>;
}
