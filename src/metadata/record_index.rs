//! [`RecordIndex`]: where record keys live, by the metadata table's `record_index` partition.
//!
//! A key's hash names its shard, one file group. Of each shard only the HFile blocks that keys fall into are read, once each,
//! and the log files on top of it: newest first, so that the first answer counts. Log blocks are HFiles too and are asked the
//! same way, because the first load of a table may lie in one.
//!
//! Which records count is the rule of the whole metadata table: nothing of an instant that is not completed is seen. That
//! holds for the instant in the record too. Whether the file group still exists is for the caller to say, who has a view.

mod layer;

use super::placement::Placement;
use super::slice::{Group, check_ids, groups};
use super::valid::{Committed, ValidInstants, check_maintained};
use super::write::keys::shard_of;
use super::{RECORD_INDEX, ROOT, parallel};
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::storage::{Storage, TablePath};
use crate::timeline::{Timeline, load_config};
use layer::Layer;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a key lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyLocation {
    /// The partition's path.
    pub partition: Arc<str>,
    /// The file group.
    pub file_id: Arc<str>,
    /// The instant at which the key was put there.
    pub instant: InstantTime,
}

/// The record index of one table, as of a state of the data table's timeline.
#[derive(Debug)]
pub struct RecordIndex {
    storage: Arc<dyn Storage>,
    data: Timeline,
    metadata: Timeline,
    shards: Vec<Shard>,
}

/// One file group of the index.
#[derive(Debug)]
struct Shard {
    group: Group,
    /// Newest first; opened when the first key asks.
    layers: Mutex<Option<Arc<Vec<Layer>>>>,
}

/// The keys that fall into one shard: sorted, and for each the places in the question that it answers.
type Asked<'k> = Vec<(&'k str, Vec<usize>)>;

impl RecordIndex {
    /// True if the table says that its record index is ready.
    pub fn is_available(data: &Timeline) -> bool {
        data.config().metadata_partitions().contains(&RECORD_INDEX)
    }

    /// Opens the record index of the data table whose timeline is given, which must have been loaded before. Lists it, and
    /// reads no file yet.
    ///
    /// `NotFound` if the table has none; any other error means that it cannot be read or trusted.
    pub fn open(storage: Arc<dyn Storage>, data: &Timeline) -> Result<RecordIndex> {
        if !Self::is_available(data) {
            return Err(Error::not_found("the table has no record index"));
        }
        let root = TablePath::parse(ROOT)?;
        let config = load_config(&*storage, &root).map_err(broken)?;
        let metadata = Timeline::load(&*storage, &root, &config).map_err(broken)?;
        let groups = {
            let committed = Committed::new(&*storage, &metadata);
            check_maintained(data, &committed)?;
            groups(&*storage, &committed, RECORD_INDEX).map_err(broken)?
        };
        check_ids(&groups, RECORD_INDEX)?;
        let shards = groups.into_iter().map(|group| Shard { group, layers: Mutex::default() }).collect();
        Ok(RecordIndex { storage, data: data.clone(), metadata, shards })
    }

    /// Number of file groups that keys are spread over.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Where each key lives, results in order. Entries of instants that are not completed count as absent.
    pub fn lookup(&self, keys: &[&str], threads: usize) -> Result<Vec<Option<KeyLocation>>> {
        let asked = self.divide(keys);
        let busy: Vec<(&Shard, &Asked<'_>)> = self.shards.iter().zip(&asked).filter(|(_, a)| !a.is_empty()).collect();
        let parts = parallel::each(&busy, threads, |(shard, asked)| {
            self.lookup_in(shard, asked).map_err(|e| e.context(format!("record index: {}", shard.group.file_id)))
        })?;
        let mut locations = vec![None; keys.len()];
        for (i, location) in parts.into_iter().flatten() {
            if let Some(place) = locations.get_mut(i) {
                *place = Some(location);
            }
        }
        Ok(locations)
    }

    /// The keys by their shards.
    fn divide<'k>(&self, keys: &[&'k str]) -> Vec<Asked<'k>> {
        let mut of_shard: Vec<Vec<(&str, usize)>> = vec![Vec::new(); self.shards.len()];
        for (i, key) in keys.iter().enumerate() {
            if let Some(shard) = of_shard.get_mut(shard_of(key, self.shards.len())) {
                shard.push((key, i));
            }
        }
        let sorted = |mut asked: Vec<(&'k str, usize)>| {
            asked.sort_unstable();
            let mut unique: Asked<'k> = Vec::with_capacity(asked.len());
            for (key, i) in asked {
                match unique.last_mut().filter(|(last, _)| *last == key) {
                    Some((_, places)) => places.push(i),
                    None => unique.push((key, vec![i])),
                }
            }
            unique
        };
        of_shard.into_iter().map(sorted).collect()
    }

    fn lookup_in(&self, shard: &Shard, asked: &Asked<'_>) -> Result<Vec<(usize, KeyLocation)>> {
        let mut found = Vec::new();
        let mut names = Names { data: &self.data, groups: HashMap::new(), instants: HashMap::new() };
        let mut left: Vec<usize> = (0..asked.len()).collect();
        for layer in self.layers(shard)?.iter() {
            if left.is_empty() {
                break;
            }
            let rows: Vec<&[u8]> = left.iter().filter_map(|i| asked.get(*i)).map(|(key, _)| key.as_bytes()).collect();
            let mut answered = vec![false; rows.len()];
            layer.find(&rows, |at, placement| {
                let known = left.get(at).and_then(|i| asked.get(*i));
                let (Some((_, places)), Some(done)) = (known, answered.get_mut(at)) else { return Ok(()) };
                *done = true;
                let location = placement.map(|p| names.location(&p)).transpose()?.flatten();
                found.extend(places.iter().filter_map(|i| Some((*i, location.clone()?))));
                Ok(())
            })?;
            let mut answered = answered.into_iter();
            left.retain(|_| !answered.next().unwrap_or(false));
        }
        Ok(found)
    }

    fn layers(&self, shard: &Shard) -> Result<Arc<Vec<Layer>>> {
        let mut layers = shard.layers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layers) = &*layers {
            return Ok(layers.clone());
        }
        let committed = Committed::new(&*self.storage, &self.metadata);
        let valid = ValidInstants::new(&self.data, &committed);
        let opened = Arc::new(Layer::open_all(&*self.storage, &shard.group.slice, &valid)?);
        Ok(layers.insert(opened).clone())
    }
}

/// Names that many keys share, made once.
struct Names<'a> {
    data: &'a Timeline,
    groups: HashMap<(i64, i64, i32), Vec<Shared>>,
    /// `None` for instants that are not completed.
    instants: HashMap<i64, Option<InstantTime>>,
}

/// A partition, a raw file id, and both as they are handed out.
struct Shared {
    raw: Box<str>,
    partition: Arc<str>,
    file_id: Arc<str>,
}

impl Names<'_> {
    fn location(&mut self, placement: &Placement<'_>) -> Result<Option<KeyLocation>> {
        let Some(instant) = self.instant(placement.instant_ms)? else { return Ok(None) };
        let alike = self.groups.entry((placement.high, placement.low, placement.index)).or_default();
        let known = alike.iter().position(|s| &*s.raw == placement.raw && &*s.partition == placement.partition);
        let shared = match known.and_then(|i| alike.get(i)) {
            Some(shared) => shared,
            None => {
                let (partition, file_id) = (placement.partition.into(), placement.file_id()?.into());
                alike.push(Shared { raw: placement.raw.into(), partition, file_id });
                alike.last().ok_or_else(|| Error::internal("a name that was just put in"))?
            }
        };
        Ok(Some(KeyLocation { partition: shared.partition.clone(), file_id: shared.file_id.clone(), instant }))
    }

    fn instant(&mut self, ms: i64) -> Result<Option<InstantTime>> {
        if let Some(known) = self.instants.get(&ms) {
            return Ok(*known);
        }
        let instant = InstantTime::from_epoch_ms(ms, self.data.config().zone())
            .ok_or_else(|| Error::corrupt(format!("{ms} ms since the epoch is no instant")))?;
        let valid = (!self.data.is_pending_write(instant)).then_some(instant);
        self.instants.insert(ms, valid);
        Ok(valid)
    }
}

/// `NotFound` would say that there is no index.
fn broken(error: Error) -> Error {
    match error.kind() {
        crate::error::ErrorKind::NotFound => Error::corrupt(error.message()).with_source(error),
        _ => error,
    }
    .context("record index")
}
