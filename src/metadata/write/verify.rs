//! Comparing a metadata table with what it is about: files in storage, ranges of their columns, keys of their rows.

use super::inventory::Inventory;
use super::partition_stats::{Sources, StatsReader};
use super::setup::{META_COLUMNS, Setup, table_columns};
use super::target::root;
use super::{DataFiles, MetadataOptions};
use crate::error::Result;
use crate::format::file_name::FileName;
use crate::metadata::changes::Change;
use crate::metadata::lister::MetadataLister;
use crate::metadata::reader::GroupReader;
use crate::metadata::slice::groups;
use crate::metadata::stats::Stats;
use crate::metadata::valid::{Committed, ValidInstants};
use crate::metadata::{COLUMN_STATS, RECORD_INDEX, RecordIndex, parallel};
use crate::storage::{Storage, TablePath};
use crate::timeline::{Timeline, load_config};
use crate::view::Lister;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Findings that are reported; a metadata table with more is no good as a whole.
const FINDINGS_MAX: usize = 1000;

/// Something that the metadata table says and that is not so, or the other way round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The partition of the metadata table that is wrong.
    pub index: &'static str,
    /// The partition of the data table; empty for its base.
    pub partition: String,
    /// The file or the key; empty where it is about all of the partition.
    pub name: String,
    /// What is wrong.
    pub what: String,
}

/// Compares listings with storage; with `files` also column statistics and the record index with what files hold, which reads
/// all of them. Answers what was found, at most a thousand things. The table must be at rest.
pub fn verify(
    storage: &Arc<dyn Storage>,
    data: &Timeline,
    files: Option<&dyn DataFiles>,
    options: &MetadataOptions,
) -> Result<Vec<Finding>> {
    let inventory = Inventory::list(storage, data)?;
    let mut found = Findings::default();
    listings(&**storage, data, &inventory, &mut found)?;
    if let Some(files) = files {
        let setup = Setup::load(&**storage, data.config())?;
        if setup.has(COLUMN_STATS) {
            ranges(storage, data, &inventory, &setup, files, options, &mut found)?;
        }
        if setup.has(RECORD_INDEX) {
            keys(storage, data, &inventory, files, options, &mut found)?;
        }
    }
    Ok(found.0)
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, index: &'static str, partition: &str, name: &str, what: impl Into<String>) {
        if self.0.len() < FINDINGS_MAX {
            let (partition, name) = (partition.to_owned(), name.to_owned());
            self.0.push(Finding { index, partition, name, what: what.into() });
        }
    }
}

fn listings(storage: &dyn Storage, data: &Timeline, inventory: &Inventory, found: &mut Findings) -> Result<()> {
    let lister = MetadataLister::open(storage, data)?;
    let listed = lister.partitions()?;
    let stored: BTreeSet<&str> = inventory.partitions().collect();
    // A pending write's log files cannot be told from others up to table version 6.
    let logs_may_be_new = !data.config().version().slices_by_completion_time() && data.pending().next().is_some();
    for path in &listed {
        let mut there: BTreeMap<&str, u64> = inventory.files(path.as_str()).collect();
        if !stored.contains(path.as_str()) {
            found.add("files", path.as_str(), "", "the partition is listed and not in storage");
        }
        for file in lister.files(path)? {
            match (there.remove(file.name.as_str()), file.size) {
                (None, _) => found.add("files", path.as_str(), &file.name, "is listed and not in storage"),
                (Some(stored), listed) if listed != Some(stored) => {
                    let what = format!("is listed with {listed:?} bytes and has {stored}");
                    found.add("files", path.as_str(), &file.name, what);
                }
                _ => {}
            }
        }
        for name in there.into_keys() {
            if !(logs_may_be_new && matches!(FileName::parse(name), FileName::Log(_))) {
                found.add("files", path.as_str(), name, "is in storage and not listed");
            }
        }
    }
    let listed: BTreeSet<&str> = listed.iter().map(TablePath::as_str).collect();
    for path in stored.difference(&listed) {
        if inventory.files(path).len() > 0 {
            found.add("files", path, "", "the partition is in storage and not listed");
        }
    }
    Ok(())
}

fn ranges(
    storage: &Arc<dyn Storage>,
    data: &Timeline,
    inventory: &Inventory,
    setup: &Setup,
    files: &dyn DataFiles,
    options: &MetadataOptions,
    found: &mut Findings,
) -> Result<()> {
    let columns = match setup.columns.is_empty() {
        false => setup.columns.clone(),
        true => META_COLUMNS.map(str::to_owned).into_iter().chain(table_columns(&**storage, data)?).collect(),
    };
    let metadata = Timeline::load(&**storage, &root()?, &load_config(&**storage, &root()?)?)?;
    let sources = Sources { storage: &**storage, data, metadata: &metadata, setup, columns: &columns };
    let reader = StatsReader::open(&sources)?;
    for path in inventory.partitions() {
        let bases: Vec<(&str, u64)> =
            inventory.files(path).filter(|(name, _)| matches!(FileName::parse(name), FileName::Base(_))).collect();
        let names: Vec<String> = bases.iter().map(|(name, _)| (*name).to_owned()).collect();
        let known = reader.known(path, &columns, names.iter())?;
        let actual =
            parallel::each(&bases, options.threads, |(name, size)| files.columns(path, name, *size, &columns))?;
        for ((name, _), ranges) in bases.iter().zip(&actual) {
            for range in ranges.iter().filter(|range| columns.contains(&range.column)) {
                let stored = known.get(*name).and_then(|columns| columns.get(&range.column));
                // Table version 6 does not say which columns are kept.
                if stored.is_none() && setup.columns.is_empty() {
                    continue;
                }
                if let Some(what) = differs(stored, Stats::of_file(name, range, setup.stats).as_ref()) {
                    found.add(COLUMN_STATS, path, name, format!("column {:?}: {what}", range.column));
                }
            }
        }
    }
    Ok(())
}

/// What is wrong with a stored range.
fn differs(stored: Option<&Stats>, actual: Option<&Stats>) -> Option<String> {
    // Of a file without rows nobody need say anything.
    let actual = actual.filter(|actual| actual.values > 0)?;
    let Some(stored) = stored else { return Some("no range is kept".to_owned()) };
    if (stored.values, stored.nulls) != (actual.values, actual.nulls) {
        return Some(format!(
            "{} values with {} nulls are kept, it has {} with {}",
            stored.values, stored.nulls, actual.values, actual.nulls
        ));
    }
    // One that is wider than need be does no harm.
    let mut both = stored.clone();
    let covers = both.widen(actual) && (&both.min, &both.max) == (&stored.min, &stored.max);
    (!covers)
        .then(|| format!("{:?} to {:?} is kept, it holds {:?} to {:?}", stored.min, stored.max, actual.min, actual.max))
}

fn keys(
    storage: &Arc<dyn Storage>,
    data: &Timeline,
    inventory: &Inventory,
    files: &dyn DataFiles,
    options: &MetadataOptions,
    found: &mut Findings,
) -> Result<()> {
    let index = RecordIndex::open(storage.clone(), data)?;
    let mut rows = 0;
    for path in inventory.partitions() {
        for slice in inventory.live(path) {
            let keys = files.keys(path, &slice.file_id, slice.base.as_deref(), &slice.logs)?;
            rows += keys.len() as u64;
            let asked: Vec<&str> = keys.iter().map(String::as_str).collect();
            for (key, location) in asked.iter().zip(index.lookup(&asked, options.threads)?) {
                match location {
                    None => found.add(RECORD_INDEX, path, key, "the key is not in the index"),
                    Some(at) if *at.partition != *path || *at.file_id != *slice.file_id => {
                        let what =
                            format!("the key is said to be in {}/{}, not {}", at.partition, at.file_id, slice.file_id);
                        found.add(RECORD_INDEX, path, key, what);
                    }
                    Some(_) => {}
                }
            }
        }
    }
    let entries = count_entries(&**storage, data)?;
    if entries > rows {
        let what = format!("{entries} keys are kept, the table has {rows} rows");
        found.add(RECORD_INDEX, "", "", what);
    }
    Ok(())
}

/// The number of keys that the record index holds.
fn count_entries(storage: &dyn Storage, data: &Timeline) -> Result<u64> {
    let metadata = Timeline::load(storage, &root()?, &load_config(storage, &root()?)?)?;
    let committed = Committed::new(storage, &metadata);
    let valid = ValidInstants::new(data, &committed);
    let mut entries = 0;
    for group in groups(storage, &committed, RECORD_INDEX)? {
        GroupReader::open(storage, &group, &valid)?.scan(|_, versions| {
            entries += u64::from(!matches!(versions.changes.last(), Some(Change::Delete)));
            Ok(())
        })?;
    }
    Ok(entries)
}
