//! What changes a table's bytes: the types that mutations take and give.
//!
//! There is no call that deletes a path. What may be deleted is a [`Removal`], which can only be made for the kinds of things
//! that a Hudi writer deletes, and whose path was checked to be of that kind: nothing outside the table can be expressed, and
//! a data file's name cannot stand where an instant's is meant.

use super::path::check_component;
use super::{ObjectMeta, TablePath};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Instant, InstantTime, Layout};
use std::fmt;

const META: &str = ".hoodie";

/// Which version of an object a conditional replacement expects: what [`super::Storage::read_tagged`] told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionTag {
    /// The store's ETag, or what stands for it on a local disk.
    pub(super) etag: Option<String>,
    /// The store's generation, where replacing hangs on it (GCS).
    pub(super) version: Option<String>,
}

/// A file that is being written. Nothing of it is visible under its name until [`ObjectWriter::finish`]; dropped without it,
/// nothing remains.
pub trait ObjectWriter: std::io::Write + Send {
    /// Makes the file visible under its name. `AlreadyExists` if another has taken the name meanwhile; the bytes
    /// are durable when this returns, the name is with the next [`super::Storage::create`], `put` or `sync`.
    fn finish(self: Box<Self>) -> Result<ObjectMeta>;
}

/// What is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    path: TablePath,
    kind: RemovalKind,
}

/// The kinds of things that a writer deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalKind {
    /// A base, log or other file of a partition.
    DataFile,
    /// A file of the active timeline.
    Instant,
    /// A file of the archived timeline.
    Archived,
    /// The markers of one write: a folder.
    Markers,
    /// The heartbeat of one write.
    Heartbeat,
    /// The lock file of the file-system lock.
    LockFile,
    /// The lease of a daemon that shows the table to readers.
    Lease,
    /// The copy of `hoodie.properties` that an update cut off left behind.
    PropertiesBackup,
    /// The whole metadata table: a folder.
    MetadataTable,
    /// One partition of the metadata table: a folder.
    MetadataPartition,
}

impl RemovalKind {
    /// True if the thing is a folder with all that it holds.
    pub fn is_folder(self) -> bool {
        matches!(self, RemovalKind::Markers | RemovalKind::MetadataTable | RemovalKind::MetadataPartition)
    }

    fn name(self) -> &'static str {
        match self {
            RemovalKind::DataFile => "data file",
            RemovalKind::Instant => "instant file",
            RemovalKind::Archived => "file of the archived timeline",
            RemovalKind::Markers => "markers",
            RemovalKind::Heartbeat => "heartbeat",
            RemovalKind::LockFile => "lock file",
            RemovalKind::Lease => "lease",
            RemovalKind::PropertiesBackup => "backup of hoodie.properties",
            RemovalKind::MetadataTable => "metadata table",
            RemovalKind::MetadataPartition => "partition of the metadata table",
        }
    }
}

impl Removal {
    /// A file of a partition: anything that does not lie in `.hoodie`.
    pub fn data_file(path: &TablePath) -> Result<Removal> {
        match path.is_root() || first(path) == META {
            true => Err(not_a(RemovalKind::DataFile, path)),
            false => Ok(Removal { path: path.clone(), kind: RemovalKind::DataFile }),
        }
    }

    /// A file of the active timeline in `folder` (see `Timeline::folder`, relative to the storage's root).
    pub fn instant(folder: &TablePath, instant: &Instant) -> Result<Removal> {
        let path = folder.join(&instant.file_name())?;
        match first(folder) == META {
            true => Ok(Removal { path, kind: RemovalKind::Instant }),
            false => Err(not_a(RemovalKind::Instant, &path)),
        }
    }

    /// A file below the folder of the archived timeline.
    pub fn archived(history_folder: &TablePath, name: &str) -> Result<Removal> {
        check_component(name)?;
        let path = history_folder.join(name)?;
        let is_instant = [Layout::V1, Layout::V2].iter().any(|l| Instant::parse_file_name(*l, name).is_some());
        // At least `.hoodie/<folder>/<name>`, so that no setting can make it the meta folder itself.
        match first(history_folder) == META && history_folder.as_str().contains('/') && !is_instant {
            true => Ok(Removal { path, kind: RemovalKind::Archived }),
            false => Err(not_a(RemovalKind::Archived, &path)),
        }
    }

    /// The markers of a write.
    pub fn markers(instant: InstantTime) -> Removal {
        Removal { path: fixed(&format!(".hoodie/.temp/{instant}")), kind: RemovalKind::Markers }
    }

    /// The heartbeat of a write.
    pub fn heartbeat(instant: InstantTime) -> Removal {
        Removal { path: fixed(&format!(".hoodie/.heartbeat/{instant}")), kind: RemovalKind::Heartbeat }
    }

    /// The lock file of the file-system lock in `folder`, a folder of the table.
    pub fn lock_file(folder: &TablePath) -> Result<Removal> {
        Ok(Removal { path: folder.join("lock")?, kind: RemovalKind::LockFile })
    }

    /// The lease of that name.
    pub fn lease(name: &str) -> Result<Removal> {
        check_component(name)?;
        let path = fixed(".hoodie/.aux/.leases").join(name)?;
        Ok(Removal { path, kind: RemovalKind::Lease })
    }

    /// `hoodie.properties.backup`.
    pub fn properties_backup() -> Removal {
        Removal { path: fixed(".hoodie/hoodie.properties.backup"), kind: RemovalKind::PropertiesBackup }
    }

    /// The whole metadata table.
    pub fn metadata_table() -> Removal {
        Removal { path: fixed(".hoodie/metadata"), kind: RemovalKind::MetadataTable }
    }

    /// One partition of the metadata table.
    pub fn metadata_partition(name: &str) -> Result<Removal> {
        check_component(name)?;
        let path = fixed(".hoodie/metadata").join(name)?;
        match name.starts_with('.') {
            true => Err(not_a(RemovalKind::MetadataPartition, &path)),
            false => Ok(Removal { path, kind: RemovalKind::MetadataPartition }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &TablePath {
        &self.path
    }

    /// What it is.
    pub fn kind(&self) -> RemovalKind {
        self.kind
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.path)
    }
}

/// What a store answers that cannot be written to.
pub(super) fn read_only(uri: &str) -> Error {
    Error::new(ErrorKind::ReadOnly, format!("{uri}: this store takes no writes"))
}

fn first(path: &TablePath) -> &str {
    path.as_str().split('/').next().unwrap_or_default()
}

/// A path made of literals and digits.
fn fixed(path: &str) -> TablePath {
    TablePath::parse(path).unwrap_or_default()
}

fn not_a(kind: RemovalKind, path: &TablePath) -> Error {
    Error::internal(format!("{path:?} is no {}, and was not deleted", kind.name()))
}
