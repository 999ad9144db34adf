//! [`MetadataDuty`]: what a commit owes to the metadata table, gathered before the critical section.

use super::options::WriterOptions;
use super::outcome::{self, Groups};
use super::plan::WritePlan;
use super::session::{Critical, Session};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileName;
use crate::format::instant::InstantTime;
use crate::metadata::write::{Changes, DataFiles, Finding, MetadataKinds, MetadataOptions, MetadataWriter};
use crate::metadata::{self, ColumnRange};
use crate::slice::WrittenFile;
use crate::slice::keys::KeyFile;
use crate::slice::read;
use crate::storage::{Storage, TablePath};
use crate::table::{FileSlice, Snapshot, Table, TableOptions};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The partition of the metadata table without which there is none.
const FILES: &str = "files";

/// The changes of one commit.
pub(super) struct MetadataDuty {
    storage: Arc<dyn Storage>,
    options: MetadataOptions,
    changes: Changes,
}

/// How the metadata table is written, by a writer's options.
pub(super) fn options(options: &WriterOptions) -> Result<MetadataOptions> {
    Ok(MetadataOptions {
        threads: options.threads,
        compact_after: options.parsed("hoodie.metadata.compact.max.delta.commits", 10)?,
        drop_unsupported_index: options.drop_unsupported_index,
    })
}

impl MetadataDuty {
    /// `Unsupported` if the table has a metadata table that cannot be kept in step; before anything is touched.
    pub fn check(session: &Session, snapshot: &Snapshot) -> Result<()> {
        let options = options(session.options())?;
        MetadataWriter::open(session.storage().clone(), snapshot.timeline(), options).map(drop)
    }

    /// Gathers the changes.
    pub fn new(session: &Session, plan: &WritePlan, files: &[WrittenFile], replaced: &Groups) -> Result<MetadataDuty> {
        let keys = if plan.base.tell_keys { replaced_keys(plan, replaced)? } else { Vec::new() };
        Ok(MetadataDuty {
            storage: session.storage().clone(),
            options: options(session.options())?,
            changes: outcome::changes(files, replaced, keys),
        })
    }

    /// Puts them into the metadata table, if there is one, in the critical section.
    pub fn update(&self, critical: &Critical, instant: InstantTime) -> Result<()> {
        match MetadataWriter::open(self.storage.clone(), critical.timeline(), self.options.clone())? {
            Some(writer) => writer.update(instant, &self.changes),
            None => Ok(()),
        }
    }
}

/// Makes a metadata table for a table that has none.
pub(super) fn bootstrap(session: &Session, snapshot: &Arc<Snapshot>, kinds: &MetadataKinds) -> Result<()> {
    let critical = session.critical()?;
    let files = TableFiles(snapshot.clone());
    let options = options(session.options())?;
    MetadataWriter::bootstrap(session.storage(), critical.timeline(), kinds, None, &files, &options).map(drop)
}

/// Builds the metadata table from what a table holds; `anew`: after dropping what there is.
pub(super) fn build(session: &Session, table: &Table, kinds: &MetadataKinds, anew: bool) -> Result<()> {
    let mut critical = session.critical()?;
    if anew {
        metadata::write::drop_partitions(session.storage(), critical.timeline(), &[FILES])?;
        critical.reload_all()?;
    }
    // As the files are now, without the metadata table if it was dropped.
    let table = Table::open(table.storage().clone(), TableOptions::default())?;
    let files = TableFiles(table.snapshot());
    let options = options(session.options())?;
    MetadataWriter::bootstrap(session.storage(), critical.timeline(), kinds, None, &files, &options).map(drop)
}

/// Compares the metadata table of a table with what it is about; `deep`: its indexes too, which reads all files. The table must
/// be at rest.
pub fn verify_metadata(table: &Table, deep: bool) -> Result<Vec<Finding>> {
    let snapshot = table.snapshot();
    let files = TableFiles(snapshot.clone());
    let files: Option<&dyn DataFiles> = if deep { Some(&files) } else { None };
    metadata::write::verify(table.storage(), snapshot.timeline(), files, &MetadataOptions::default())
}

/// What the data files of a snapshot tell: for indexes that are built over what is there.
pub(super) struct TableFiles(pub Arc<Snapshot>);

impl DataFiles for TableFiles {
    fn columns(&self, partition: &str, name: &str, size: u64, columns: &[String]) -> Result<Vec<ColumnRange>> {
        // Rows of a log file have to be read to know their ranges; readers take a file without any to hold everything.
        if !matches!(FileName::parse(name), FileName::Base(base) if base.extension == ".parquet") {
            return Ok(Vec::new());
        }
        let path = TablePath::parse(partition)?.join(name)?;
        let mut ranges = KeyFile::open(&**self.0.storage(), &path, Some(size))?.ranges();
        ranges.retain(|range| columns.contains(&range.column));
        Ok(ranges)
    }

    fn keys(&self, partition: &str, file_id: &str, base: Option<&str>, logs: &[String]) -> Result<Vec<String>> {
        let slices = self.0.file_slices(&TablePath::parse(partition)?)?;
        let same = |s: &&FileSlice| {
            s.file_id == file_id
                && s.base_file.as_ref().map(|b| b.name.as_str()) == base
                && s.log_files.iter().map(|l| &l.name).eq(logs)
        };
        let slice = slices.iter().find(same).ok_or_else(|| {
            Error::new(ErrorKind::Conflict, format!("file group {file_id} changed while its keys were read"))
                .in_partition(partition)
        })?;
        let mut keys = BTreeSet::new();
        keys_of(&self.0, slice, &mut keys)?;
        Ok(keys.into_iter().collect())
    }
}

/// The keys of groups that are replaced: an index must forget them.
fn replaced_keys(plan: &WritePlan, replaced: &Groups) -> Result<Vec<String>> {
    let mut keys = BTreeSet::new();
    for (partition, ids) in replaced {
        let slices = plan.snapshot.file_slices(&TablePath::parse(partition)?)?;
        for slice in slices.iter().filter(|s| ids.contains(&s.file_id)) {
            keys_of(&plan.snapshot, slice, &mut keys)?;
        }
    }
    Ok(keys.into_iter().collect())
}

fn keys_of(snapshot: &Snapshot, slice: &FileSlice, keys: &mut BTreeSet<String>) -> Result<()> {
    if let Some(base) = &slice.base_file {
        let path = TablePath::parse(&slice.partition)?.join(&base.name)?;
        let mut visit = |key: &str, _| {
            keys.insert(key.to_owned());
            Ok(())
        };
        KeyFile::open(&**snapshot.storage(), &path, Some(base.size))?.visit(&mut visit)?;
    }
    if !slice.log_files.is_empty() {
        keys.extend(read::written_by_logs(snapshot, slice)?.into_iter().map(String::from));
        for gone in read::deleted_by_logs(snapshot, slice)? {
            keys.remove(&*gone);
        }
    }
    Ok(())
}
