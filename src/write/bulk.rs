//! Adding rows to new files while they still come in: nothing is looked up, so nothing need be set aside.
//!
//! Several threads encode, each with files of its own. A partition's rows go to the threads in turn as long as there are few
//! partitions; a thread keeps a bounded number of files open, and rows of further partitions are set aside and written at the
//! end, partition by partition, so that memory is bounded and a row order without rhyme does not make a file a row.

use super::columns::Routed;
use super::incoming::{KeyedRows, bucket_of};
use super::spool::Spool;
use crate::error::{Error, Result};
use crate::record::{Keyed, TableSchema};
use crate::slice::{BaseWriter, WrittenFile};
use arrow::array::{Array, UInt32Array};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Partitions up to which each thread takes rows of all of them.
const SPREAD_MAX: usize = 8;
/// Batches that wait for a thread.
const QUEUE: usize = 2;

/// Opens the first file of a new group.
pub(super) type OpenGroup<'a> = dyn Fn(&str, &TableSchema) -> Result<BaseWriter> + Sync + 'a;

/// How rows are added.
pub(super) struct Bulk<'a> {
    pub open: &'a OpenGroup<'a>,
    /// Bytes at which a file is full.
    pub file_max: u64,
    pub threads: usize,
    /// Files that are open at a time, over all threads.
    pub open_max: usize,
    /// Bytes of rows set aside that stay in memory.
    pub budget: u64,
}

/// Rows of one partition on their way to a thread.
struct Part {
    partition: String,
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
        let mut seen: HashMap<String, usize> = HashMap::new();
        let (mut next, mut turn) = (Some(first), 0_usize);
        while let Some(keyed) = next {
            for part in by_partition(keyed)? {
                let number = seen.len();
                let number = *seen.entry(part.partition.clone()).or_insert(number);
                turn += 1;
                let lane = if seen.len() <= SPREAD_MAX { turn } else { number };
                match senders.get(lane % senders.len().max(1)) {
                    Some(sender) if number < self.open_max => {
                        if sender.send(part).is_err() {
                            // The thread has failed: its error is the one to tell.
                            return Ok(aside);
                        }
                    }
                    _ => {
                        let places = vec![bucket_of(&part.partition); part.rows.keys.len()];
                        aside.push(Routed::unrouted(&part.rows)?.into_batch(), places)?;
                    }
                }
            }
            next = incoming.next()?;
        }
        Ok(aside)
    }

    fn worker(&self, schema: &TableSchema, parts: &Receiver<Part>) -> Result<Vec<WrittenFile>> {
        let mut open: HashMap<String, BaseWriter> = HashMap::new();
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
        open: &mut HashMap<String, BaseWriter>,
        part: Part,
        files: &mut Vec<WrittenFile>,
    ) -> Result<()> {
        let mut writer = match open.remove(&part.partition) {
            Some(writer) => writer,
            None => (self.open)(&part.partition, schema)?,
        };
        writer.write(&part.rows)?;
        if writer.size() >= self.file_max {
            files.push(writer.finish()?);
        } else {
            open.insert(part.partition, writer);
        }
        Ok(())
    }

    fn leftovers(&self, aside: Spool, schema: &TableSchema) -> Result<Vec<WrittenFile>> {
        let mut files = Vec::new();
        for bucket in aside.into_buckets()? {
            for part in by_partition(Routed::from_batch(bucket.load()?).keyed()?)? {
                let mut open = HashMap::new();
                self.put(schema, &mut open, part, &mut files)?;
                for (_, writer) in open {
                    files.push(writer.finish()?);
                }
            }
        }
        Ok(files)
    }
}

/// The rows of each partition, deletes left out.
fn by_partition(keyed: Keyed) -> Result<Vec<Part>> {
    let count = keyed.partitions.len();
    let kept = |row: usize| !keyed.deletes.as_ref().is_some_and(|d| d.value(row));
    let single = (1..count).all(|row| keyed.partitions.value(row) == keyed.partitions.value(0));
    if single && count > 0 && (0..count).all(kept) {
        let partition = keyed.partitions.value(0).to_owned();
        return Ok(vec![Part { partition, rows: Keyed { deletes: None, ..keyed } }]);
    }
    let mut rows: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for row in (0..count).filter(|row| kept(*row)) {
        rows.entry(keyed.partitions.value(row)).or_default().push(row as u32);
    }
    let parts = rows.into_iter().map(|(partition, rows)| {
        Ok(Part { partition: partition.to_owned(), rows: without_marks(keyed.take(&UInt32Array::from(rows))?) })
    });
    parts.collect()
}

/// No row of them is a delete.
fn without_marks(keyed: Keyed) -> Keyed {
    Keyed { deletes: None, ..keyed }
}
