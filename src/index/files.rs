//! Looking keys up in base files: which files, and on which threads.

use super::{Key, Location};
use crate::error::{Error, Result};
use crate::slice::keys::KeyFile;
use crate::slice::{pool, read};
use crate::storage::TablePath;
use crate::table::{FileSlice, Snapshot};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Asks one file, given distinct sorted keys, which of them it may hold: only those are looked for.
pub(super) type Filter<'f> = dyn for<'k> Fn(&KeyFile, &[&'k str]) -> Result<Vec<&'k str>> + Sync + 'f;

/// One base file, and the keys to look for in it.
struct Search<'k> {
    slice: FileSlice,
    /// The partition that the keys were given with; `""` where all are searched.
    scope: &'k str,
    keys: Arc<Vec<&'k str>>,
}

/// A key that a slice's base file holds.
type Hit<'k> = ((&'k str, &'k str), Location);

/// Where the keys live among the base files of the newest slices: of each key's own partition, or of all (`global`).
///
/// Keys that the log files of a slice delete do not count where all partitions are searched: a row that moved to another
/// partition is in the base file that it came from until that is compacted.
pub(super) fn tag(
    snapshot: &Snapshot,
    keys: &[Key<'_>],
    global: bool,
    threads: usize,
    filter: &Filter<'_>,
) -> Result<Vec<Option<Location>>> {
    let searches = searches(snapshot, keys, global)?;
    let hits = pool::run(threads, searches, |search| search.run(snapshot, global, filter))?;
    let mut found: HashMap<(&str, &str), Location> = HashMap::new();
    for (key, location) in hits.into_iter().flatten() {
        found.entry(key).or_insert(location);
    }
    Ok(keys.iter().map(|key| found.get(&(scope(key, global), key.key)).cloned()).collect())
}

fn scope<'k>(key: &Key<'k>, global: bool) -> &'k str {
    if global { "" } else { key.partition }
}

/// The files to search, in the order of partitions and file ids.
fn searches<'k>(snapshot: &Snapshot, keys: &[Key<'k>], global: bool) -> Result<Vec<Search<'k>>> {
    let mut by_scope: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for key in keys {
        by_scope.entry(scope(key, global)).or_default().push(key.key);
    }
    let mut searches = Vec::new();
    for (scope, mut keys) in by_scope {
        keys.sort_unstable();
        keys.dedup();
        let keys = Arc::new(keys);
        let partitions = if global { snapshot.partitions()? } else { Arc::from([TablePath::parse(scope)?]) };
        for partition in partitions.iter() {
            let slices = snapshot.file_slices(partition)?.into_iter().filter(|s| s.base_file.is_some());
            searches.extend(slices.map(|slice| Search { slice, scope, keys: keys.clone() }));
        }
    }
    Ok(searches)
}

impl<'k> Search<'k> {
    fn run(&self, snapshot: &Snapshot, global: bool, filter: &Filter<'_>) -> Result<Vec<Hit<'k>>> {
        let Some(base) = &self.slice.base_file else { return Ok(Vec::new()) };
        let path = TablePath::parse(&self.slice.partition)?.join(&base.name)?;
        let found = self.held(snapshot, &path, base.size, filter).map_err(|e| e.context(&path))?;
        let live = self.live(snapshot, global, found)?;
        if live.is_empty() {
            return Ok(Vec::new());
        }
        let location = Location {
            partition: self.slice.partition.as_str().into(),
            file_id: self.slice.file_id.as_str().into(),
            instant: self.slice.base_instant,
        };
        Ok(live.into_iter().map(|key| ((self.scope, key), location.clone())).collect())
    }

    /// The keys that the base file holds.
    fn held(&self, snapshot: &Snapshot, path: &TablePath, size: u64, filter: &Filter<'_>) -> Result<Vec<&'k str>> {
        let file = KeyFile::open(&**snapshot.storage(), path, Some(size))?;
        let candidates = filter(&file, &self.keys)?;
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let mut held = Vec::new();
        for found in file.find(&candidates)? {
            let key = candidates.get(found.index);
            held.push(*key.ok_or_else(|| Error::internal("a key was found that was not looked for"))?);
        }
        held.sort_unstable();
        held.dedup();
        Ok(held)
    }

    /// Those of the keys that the slice's logs have not deleted.
    fn live(&self, snapshot: &Snapshot, global: bool, found: Vec<&'k str>) -> Result<Vec<&'k str>> {
        if !global || found.is_empty() || self.slice.log_files.is_empty() {
            return Ok(found);
        }
        let deleted = read::deleted_by_logs(snapshot, &self.slice)?;
        Ok(found.into_iter().filter(|key| !deleted.contains(*key)).collect())
    }
}

/// The keys within the file's range, where its footer tells one.
pub(super) fn in_range<'k>(file: &KeyFile, keys: &[&'k str]) -> Vec<&'k str> {
    let Some((min, max)) = file.key_range().filter(|(min, max)| is_plain(min) && is_plain(max)) else {
        return keys.to_vec();
    };
    let from = keys.partition_point(|key| *key < min);
    let to = keys.partition_point(|key| *key <= max);
    keys.get(from..to).unwrap_or_default().to_vec()
}

/// A text whose place is the same in the order of bytes, which is ours, and in that of UTF-16 units, which is Java's.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c < '\u{e000}')
}
