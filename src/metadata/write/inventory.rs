//! [`Inventory`]: all committed files of a table, as storage lists them, and the slices that a snapshot reads.

use crate::error::Result;
use crate::format::file_name::FileName;
use crate::format::instant::InstantTime;
use crate::storage::{Storage, TablePath};
use crate::timeline::Timeline;
use crate::view::{ListedFile, Lister, StorageLister, ViewContext, merged_slices};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The committed files by partition.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    partitions: BTreeMap<String, Files>,
}

#[derive(Debug, Default)]
struct Files {
    files: BTreeMap<String, u64>,
    live: Vec<LiveSlice>,
}

/// A slice that a snapshot reads.
#[derive(Debug)]
pub(super) struct LiveSlice {
    pub file_id: String,
    /// The instant that it starts at.
    pub instant: InstantTime,
    pub base: Option<String>,
    pub logs: Vec<String>,
}

impl LiveSlice {
    /// The names of its files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.base.iter().chain(&self.logs).map(String::as_str)
    }
}

impl Inventory {
    /// Lists storage. A table without a completed instant has nothing.
    pub fn list(storage: &Arc<dyn Storage>, data: &Timeline) -> Result<Inventory> {
        let mut inventory = Inventory::default();
        if data.completed().next().is_none() {
            return Ok(inventory);
        }
        let lister = StorageLister::new(storage.clone(), TablePath::root(), data.config());
        let context = ViewContext::load(&**storage, data, data.config(), None)?.with_plans(&**storage)?;
        for path in lister.partitions()? {
            let mut listed = lister.files(&path)?;
            listed.retain(|file| is_committed(data, &file.name));
            fill_sizes(&**storage, &path, &mut listed)?;
            let mut completed = |time| data.completion_time(&**storage, time);
            let slices = merged_slices(&context, path.as_str(), &listed, &mut completed)?;
            let live = slices.into_iter().map(|slice| LiveSlice {
                file_id: slice.file_id.to_owned(),
                instant: slice.base_instant,
                base: slice.base_file.map(str::to_owned),
                logs: slice.log_files.into_iter().map(str::to_owned).collect(),
            });
            let live = live.collect();
            // What has no bytes holds no rows, and Hudi lists none of size 0.
            let sized = listed.into_iter().filter_map(|f| Some((f.name, f.size.filter(|s| *s > 0)?)));
            inventory.partitions.insert(path.as_str().to_owned(), Files { files: sized.collect(), live });
        }
        Ok(inventory)
    }

    /// Paths of all partitions.
    pub fn partitions(&self) -> impl Iterator<Item = &str> {
        self.partitions.keys().map(String::as_str)
    }

    /// The files of a partition with their sizes, in bytes.
    pub fn files(&self, partition: &str) -> impl ExactSizeIterator<Item = (&str, u64)> {
        static NONE: BTreeMap<String, u64> = BTreeMap::new();
        let files = self.partitions.get(partition).map_or(&NONE, |p| &p.files);
        files.iter().map(|(name, size)| (name.as_str(), *size))
    }

    /// The slices that a snapshot reads.
    pub fn live(&self, partition: &str) -> impl Iterator<Item = &LiveSlice> {
        self.partitions.get(partition).into_iter().flat_map(|p| &p.live)
    }
}

/// True for a file of a completed instant. The name of a log file up to table version 6 is of its slice's, which counts.
fn is_committed(data: &Timeline, name: &str) -> bool {
    match FileName::parse(name) {
        FileName::Base(base) => data.is_committed(base.instant),
        FileName::Log(log) => !data.config().version().slices_by_completion_time() || data.is_committed(log.instant),
        FileName::External(external) => data.is_committed(external.instant),
        _ => false,
    }
}

fn fill_sizes(storage: &dyn Storage, path: &TablePath, files: &mut [ListedFile]) -> Result<()> {
    let unknown: Vec<usize> = files.iter().enumerate().filter(|(_, f)| f.size.is_none()).map(|(i, _)| i).collect();
    let names: Vec<String> = unknown.iter().filter_map(|i| Some(files.get(*i)?.name.clone())).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (i, meta) in unknown.iter().zip(storage.stat_many(path, &names)) {
        let meta = meta.map_err(|e| e.context(path))?;
        if let Some(file) = files.get_mut(*i) {
            file.size = Some(meta.size);
        }
    }
    Ok(())
}
