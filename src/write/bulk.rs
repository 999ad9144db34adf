//! Adding rows to new files while they still come in: nothing is looked up, so nothing need be set aside.
//!
//! Several threads encode, each with files of its own. A partition's rows go to the threads in turn as long as there are few
//! partitions; a thread keeps a bounded number of files open, and rows of further partitions are set aside and written at the
//! end, partition by partition, so that memory is bounded and a row order without rhyme does not make a file a row.

use super::columns::Routed;
use super::incoming::{KeyedRows, bucket_of};
use super::spool::Spool;
use crate::error::{Error, Result};
use crate::index::{Index, Key};
use crate::record::{Keyed, TableSchema};
use crate::slice::{BaseWriter, WrittenFile};
use arrow::array::{Array, UInt32Array};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Partitions up to which each thread takes rows of all of them.
const SPREAD_MAX: usize = 8;
/// Batches that wait for a thread.
const QUEUE: usize = 2;

/// Opens the first file of a new group: of a partition, with an id where the index has chosen one.
pub(super) type OpenGroup<'a> = dyn Fn(&str, Option<String>, &TableSchema) -> Result<BaseWriter> + Sync + 'a;

/// How rows are added.
pub(super) struct Bulk<'a> {
    pub open: &'a OpenGroup<'a>,
    /// Chooses the groups of rows, where the kind of index does (bucket).
    pub index: &'a dyn Index,
    /// Bytes at which a file is full.
    pub file_max: u64,
    pub threads: usize,
    /// Files that are open at a time, over all threads.
    pub open_max: usize,
    /// Bytes of rows set aside that stay in memory.
    pub budget: u64,
}

/// Where rows go: a partition, and the bucket in it where the index has any.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lane {
    partition: String,
    bucket: Option<String>,
}

/// Rows of one lane on their way to a thread.
struct Part {
    lane: Lane,
    rows: Keyed,
}

impl Bulk<'_> {
    /// Writes all rows; deletes among them are passed over, as there is nothing to delete them from.
    pub fn write(&self, incoming: &mut KeyedRows<'_>) -> Result<Vec<WrittenFile>> {
        let Some(first) = incoming.next()? else { return Ok(Vec::new()) };
        let schema = incoming.schema().cloned().ok_or_else(|| Error::internal("rows without a schema"))?;
        std::thread::scope(|scope| {
            let (senders, handles): (Vec<_>, Vec<_>) = (0..self.threads.max(1))
                .map(|_| {
                    let (sender, receiver) = sync_channel::<Part>(QUEUE);
                    let schema = &schema;
                    (sender, scope.spawn(move || self.worker(schema, &receiver)))
                })
                .unzip();
            let sent = self.dispatch(first, incoming, &senders);
            drop(senders);
            let mut files = Vec::new();
            for handle in handles {
                let written = handle.join().map_err(|_| Error::internal("a thread that wrote files panicked"))?;
                files.extend(written?);
            }
            files.extend(self.leftovers(sent?, &schema)?);
            Ok(files)
        })
    }

    /// Divides batches by partition and hands them out; returns what was set aside.
    fn dispatch(&self, first: Keyed, incoming: &mut KeyedRows<'_>, senders: &[SyncSender<Part>]) -> Result<Spool> {
        let mut aside = Spool::new(self.budget);
        let mut seen: HashMap<Lane, usize> = HashMap::new();
        let (mut next, mut turn) = (Some(first), 0_usize);
        while let Some(keyed) = next {
            for part in self.divide(keyed)? {
                let number = seen.len();
                let number = *seen.entry(part.lane.clone()).or_insert(number);
                turn += 1;
                // A bucket is one file, and so one thread's.
                let thread = if seen.len() <= SPREAD_MAX && part.lane.bucket.is_none() { turn } else { number };
                match senders.get(thread % senders.len().max(1)) {
                    Some(sender) if number < self.open_max => {
                        if sender.send(part).is_err() {
                            // The thread has failed: its error is the one to tell.
                            return Ok(aside);
                        }
                    }
                    _ => {
                        let places = vec![bucket_of(&format!("{:?}", part.lane)); part.rows.keys.len()];
                        aside.push(Routed::unrouted(&part.rows)?.into_batch(), places)?;
                    }
                }
            }
            next = incoming.next()?;
        }
        Ok(aside)
    }

    fn worker(&self, schema: &TableSchema, parts: &Receiver<Part>) -> Result<Vec<WrittenFile>> {
        let mut open: HashMap<Lane, BaseWriter> = HashMap::new();
        let mut files = Vec::new();
        for part in parts {
            self.put(schema, &mut open, part, &mut files)?;
        }
        for (_, writer) in open {
            files.push(writer.finish()?);
        }
        Ok(files)
    }

    fn put(
        &self,
        schema: &TableSchema,
        open: &mut HashMap<Lane, BaseWriter>,
        part: Part,
        files: &mut Vec<WrittenFile>,
    ) -> Result<()> {
        let mut writer = match open.remove(&part.lane) {
            Some(writer) => writer,
            None => {
                let key = Key { partition: &part.lane.partition, key: part.rows.keys.value(0) };
                (self.open)(&part.lane.partition, self.index.place(&key)?, schema)?
            }
        };
        writer.write(&part.rows)?;
        if writer.size() >= self.file_max && part.lane.bucket.is_none() {
            files.push(writer.finish()?);
        } else {
            open.insert(part.lane, writer);
        }
        Ok(())
    }

    fn leftovers(&self, aside: Spool, schema: &TableSchema) -> Result<Vec<WrittenFile>> {
        let mut files = Vec::new();
        for bucket in aside.into_buckets()? {
            for part in self.divide(Routed::from_batch(bucket.load()?).keyed()?)? {
                let mut open = HashMap::new();
                self.put(schema, &mut open, part, &mut files)?;
                for (_, writer) in open {
                    files.push(writer.finish()?);
                }
            }
        }
        Ok(files)
    }

    /// The rows of each lane, deletes left out.
    fn divide(&self, keyed: Keyed) -> Result<Vec<Part>> {
        let mut rows: BTreeMap<Lane, Vec<u32>> = BTreeMap::new();
        let kept = |row: usize| !keyed.deletes.as_ref().is_some_and(|d| d.value(row));
        for row in (0..keyed.keys.len()).filter(|row| kept(*row)) {
            let partition = keyed.partitions.value(row);
            let placed = self.index.place(&Key { partition, key: keyed.keys.value(row) })?;
            let bucket = placed.and_then(|id| id.get(..8).map(str::to_owned));
            match rows.last_entry() {
                Some(mut last) if last.key().partition == partition && last.key().bucket == bucket => {
                    last.get_mut().push(row as u32);
                }
                _ => {
                    let lane = Lane { partition: partition.to_owned(), bucket };
                    rows.entry(lane).or_default().push(row as u32);
                }
            }
        }
        if let (1, Some((lane, all))) = (rows.len(), rows.first_key_value())
            && all.len() == keyed.keys.len()
        {
            return Ok(vec![Part { lane: lane.clone(), rows: Keyed { deletes: None, ..keyed } }]);
        }
        let part = |(lane, rows): (Lane, Vec<u32>)| {
            let rows = Keyed { deletes: None, ..keyed.take(&UInt32Array::from(rows))? };
            Ok(Part { lane, rows })
        };
        rows.into_iter().map(part).collect()
    }
}
