//! Where partitions and files are listed from: the metadata table where the table says that it is in step, else the storage.
//!
//! A metadata table that cannot be opened, or in which a partition cannot be looked up, is reported, and the storage is listed in
//! its place: both give the same tree. Not so where replace commits registered files of another engine: their marked names are
//! on record in the metadata table only, and a listing without them would lose rows, so there the failure stands.

use crate::error::{Error, ErrorKind, Result};
use crate::metadata::MetadataLister;
use crate::storage::{Storage, TablePath};
use crate::view::{ListedFile, Lister, StorageLister, ViewContext};
use std::sync::Arc;

/// Where the files of a partition are listed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// The metadata table where it is in step and readable, else the storage.
    #[default]
    Auto,
    /// The storage, whatever the table says.
    Storage,
    /// The metadata table; an error where there is none or it cannot be read.
    MetadataTable,
}

#[derive(Debug)]
pub(super) struct Listers {
    metadata: Option<MetadataLister>,
    /// What to turn to where the metadata table fails; `None` where it must not fail.
    storage: Option<StorageLister>,
    context: ViewContext,
}

impl Listers {
    /// Decides for a snapshot; the metadata table is opened as of the snapshot's timeline.
    pub(super) fn choose(storage: &Arc<dyn Storage>, listing: Listing, context: &ViewContext) -> Result<Listers> {
        let (timeline, config) = (context.timeline(), context.config());
        let from_storage = || StorageLister::new(storage.clone(), TablePath::root(), config);
        let available = MetadataLister::is_available(timeline);
        let external = context.registers_external();
        let (metadata, fallback) = match listing {
            Listing::Storage => (None, Some(from_storage())),
            Listing::Auto if !available && external => return Err(needs_metadata_table(storage)),
            Listing::Auto if !available => (None, Some(from_storage())),
            Listing::Auto if external => (Some(MetadataLister::open(&**storage, timeline)?), None),
            Listing::Auto => match MetadataLister::open(&**storage, timeline) {
                Ok(lister) => (Some(lister), Some(from_storage())),
                Err(error) if is_damage(&error) => {
                    timeline.warn(format!("{error}; the storage is listed instead"));
                    (None, Some(from_storage()))
                }
                Err(error) => return Err(error),
            },
            Listing::MetadataTable => (Some(MetadataLister::open(&**storage, timeline)?), None),
        };
        Ok(Listers { metadata, storage: fallback, context: context.clone() })
    }

    /// `metadata_table` or `storage`.
    pub(super) fn name(&self) -> &'static str {
        match &self.metadata {
            Some(metadata) => metadata.name(),
            None => self.storage.as_ref().map_or("none", |s| s.name()),
        }
    }

    /// All partitions.
    pub(super) fn partitions(&self) -> Result<Vec<TablePath>> {
        Ok(self.ask(|lister| lister.partitions())?.0)
    }

    /// The files of a partition, and whether each name is on record as the table's own.
    pub(super) fn files(&self, partition: &TablePath) -> Result<(Vec<ListedFile>, bool)> {
        self.ask(|lister| lister.files(partition))
    }

    /// True if the storage has the partition's metafile.
    pub(super) fn has_partition(&self, partition: &TablePath) -> Result<bool> {
        match &self.storage {
            Some(storage) => storage.has_partition(partition),
            None => Ok(false),
        }
    }

    fn ask<T>(&self, question: impl Fn(&dyn Lister) -> Result<T>) -> Result<(T, bool)> {
        let failure = match &self.metadata {
            None => None,
            Some(metadata) => match question(metadata) {
                Ok(answer) => return Ok((answer, metadata.is_record())),
                Err(error) => Some(error),
            },
        };
        match (&self.storage, failure) {
            (Some(storage), None) => Ok((question(storage)?, storage.is_record())),
            (Some(storage), Some(failure)) if is_damage(&failure) => {
                self.context.timeline().warn(format!("{failure}; the storage is listed instead"));
                Ok((question(storage)?, storage.is_record()))
            }
            (_, Some(failure)) => Err(failure),
            (None, None) => Err(Error::internal("a snapshot without a lister")),
        }
    }
}

/// What the storage can make good for; a store that does not answer will not answer a listing either.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::Stale | ErrorKind::NotFound)
}

fn needs_metadata_table(storage: &Arc<dyn Storage>) -> Error {
    Error::unsupported(format!(
        "{}: replace commits registered files of another engine, and there is no metadata table to tell which",
        storage.uri()
    ))
    .with_hint("enable the metadata table in the tool that writes this table")
}
