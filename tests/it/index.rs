//! The kinds of index: one suite that all of them pass, and lookups in tables that Spark wrote.

mod java;
mod suite;

use hudifs::index::{Key, Location};
use hudifs::slice::read::for_each_batch;
use hudifs::table::Snapshot;
use hudifs::write::{IndexKind, WriterOptions};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Where every key lives, by a merged read of the whole table: partition and key to file group.
pub fn truth(snapshot: &Snapshot) -> BTreeMap<(String, String), String> {
    let found = Mutex::new(BTreeMap::new());
    for_each_batch(snapshot, 2, 1 << 20, |slice, batch| {
        use arrow::array::AsArray;
        let keys = batch.column_by_name("_hoodie_record_key").unwrap().as_string::<i32>();
        let mut found = found.lock().unwrap();
        for key in keys.iter().flatten() {
            found.insert((slice.partition.clone(), key.to_owned()), slice.file_id.clone());
        }
        Ok(())
    })
    .unwrap();
    found.into_inner().unwrap()
}

/// Where an index says that keys live: partition and file group.
pub fn tag(
    snapshot: &Snapshot,
    kind: IndexKind,
    options: &WriterOptions,
    keys: &[(String, String)],
) -> hudifs::Result<Vec<Option<(String, String)>>> {
    let index = hudifs::index::open(kind, snapshot.config(), &options.settings, 2)?;
    assert_eq!(index.kind(), kind.name());
    let keys: Vec<Key<'_>> = keys.iter().map(|(partition, key)| Key { partition, key }).collect();
    let place = |l: Location| (l.partition.to_string(), l.file_id.to_string());
    Ok(index.tag(snapshot, &keys)?.into_iter().map(|l| l.map(place)).collect())
}
