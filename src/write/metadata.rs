//! [`MetadataDuty`]: what a commit owes to the metadata table, gathered before the critical section.

use super::options::WriterOptions;
use super::outcome::{self, Groups};
use super::plan::WritePlan;
use super::session::{Critical, Session};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::InstantTime;
use crate::metadata::ColumnRange;
use crate::metadata::write::{Changes, DataFiles, MetadataKinds, MetadataOptions, MetadataWriter};
use crate::slice::WrittenFile;
use crate::slice::keys::KeyFile;
use crate::slice::read;
use crate::storage::{Storage, TablePath};
use crate::table::{FileSlice, Snapshot};
use std::collections::BTreeSet;
use std::sync::Arc;

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

/// What the data files of a snapshot tell: for indexes that are built over what is there.
pub(super) struct TableFiles(pub Arc<Snapshot>);

impl DataFiles for TableFiles {
    fn columns(&self, partition: &str, name: &str, _size: u64, _columns: &[String]) -> Result<Vec<ColumnRange>> {
        Err(Error::internal(format!("ranges of {partition}/{name}")))
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
