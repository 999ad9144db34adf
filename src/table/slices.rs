//! [`FileSlice`]: base and log files of a file group as of a snapshot, with their sizes. What writers, indexes and merged reads
//! start from.

use super::Snapshot;
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileName;
use crate::format::instant::InstantTime;
use crate::storage::TablePath;
use crate::view::{GroupHistory, ListedFile, ViewContext, group_histories, merged_slices};
use std::collections::HashMap;

/// A stored file, by its name in the partition's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The name.
    pub name: String,
    /// Bytes.
    pub size: u64,
}

/// The newest slice of one file group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSlice {
    /// The partition's path.
    pub partition: String,
    /// The file group.
    pub file_id: String,
    /// The instant that the slice starts at.
    pub base_instant: InstantTime,
    /// `None` in a group of logs only.
    pub base_file: Option<StoredFile>,
    /// In the order in which they are read.
    pub log_files: Vec<StoredFile>,
    /// A compaction that is requested or running for the group: what is appended from now on lies on top of it.
    pub compaction: Option<InstantTime>,
}

impl Snapshot {
    /// The newest slice of each file group of a partition, by file id. A partition that does not exist yet has none.
    ///
    /// Errors: `Unsupported` for a partition that holds files of another engine.
    pub fn file_slices(&self, partition: &TablePath) -> Result<Vec<FileSlice>> {
        self.load_slices(partition).map_err(|e| e.context(format!("partition {:?}", partition.as_str())))
    }

    fn load_slices(&self, partition: &TablePath) -> Result<Vec<FileSlice>> {
        let files = match self.lister.files(partition) {
            Ok((files, _)) => files,
            Err(e) if e.kind() == ErrorKind::NotFound && !self.is_partition(partition) => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        if self.context.registers_external()
            && let Some(file) = files.iter().find(|f| matches!(FileName::parse(&f.name), FileName::External(_)))
        {
            return Err(Error::unsupported(format!("{:?} is a registered file of another engine", file.name)));
        }
        let context = self.planned_context()?;
        let timeline = self.timeline();
        let mut completed = |time| timeline.completion_time(&*self.storage, time);
        let slices = merged_slices(context, partition.as_str(), &files, &mut completed)?;
        let names = slices.iter().flat_map(|s| s.base_file.iter().chain(&s.log_files)).copied();
        let sizes = self.sizes(partition, &files, names)?;
        let stored = |name: &str| StoredFile { name: name.to_owned(), size: sizes.get(name).copied().unwrap_or(0) };
        let slices = slices.iter().map(|slice| FileSlice {
            partition: partition.as_str().to_owned(),
            file_id: slice.file_id.to_owned(),
            base_instant: slice.base_instant,
            base_file: slice.base_file.map(stored),
            log_files: slice.log_files.iter().map(|n| stored(n)).collect(),
            compaction: context.compaction_of(partition.as_str(), slice.file_id),
        });
        Ok(slices.collect())
    }

    /// Calls `visit` with every file that a partition is known to have and with the history of its file groups. What a cleaner
    /// goes by.
    ///
    /// Errors: `Unsupported` for a table that holds files of another engine.
    pub fn visit_histories<T>(
        &self,
        partition: &TablePath,
        visit: impl FnOnce(&[ListedFile], &[GroupHistory<'_>]) -> Result<T>,
    ) -> Result<T> {
        let (files, _) = self.lister.files(partition)?;
        if self.context.registers_external() {
            return Err(Error::unsupported("files of another engine are registered in the table")
                .with_hint("its history is known to the engine that registered them: clean the table with it"));
        }
        let context = self.planned_context()?;
        let mut completed = |time| self.timeline().completion_time(&*self.storage, time);
        let groups = group_histories(context, partition.as_str(), &files, &mut completed)?;
        visit(&files, &groups)
    }

    /// The view's context with the plans of pending compactions, loaded once.
    fn planned_context(&self) -> Result<&ViewContext> {
        if let Some(context) = self.planned.get() {
            return Ok(context);
        }
        let context = self.context.with_plans(&*self.storage)?;
        Ok(self.planned.get_or_init(|| context))
    }

    /// Sizes by name: as listed, or asked for.
    fn sizes<'f>(
        &self,
        partition: &TablePath,
        files: &'f [ListedFile],
        names: impl Iterator<Item = &'f str>,
    ) -> Result<HashMap<&'f str, u64>> {
        let listed: HashMap<&str, Option<u64>> = files.iter().map(|f| (f.name.as_str(), f.size)).collect();
        let mut sizes = HashMap::new();
        let mut unknown = Vec::new();
        for name in names {
            match listed.get(name).copied().flatten() {
                Some(size) => drop(sizes.insert(name, size)),
                None => unknown.push(name),
            }
        }
        for (name, meta) in unknown.iter().zip(self.storage.stat_many(partition, &unknown)) {
            sizes.insert(name, meta.map_err(|e| e.context(name))?.size);
        }
        Ok(sizes)
    }
}
