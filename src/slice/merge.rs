//! Copy-on-write: a base file anew, with updates, deletes and inserts.
//!
//! What did not change is not decoded. Row groups without a changed row are copied as the encoded column chunks that they are;
//! of a row group that only has updates, so are columns whose values are the same before and after. Only the file's name, which
//! every row holds, is made anew. The rest is decoded and encoded column by column, on several threads, and put into the file in
//! the order of the old one. A row group that is much larger than ours become is divided on that occasion.
//!
//! The invariant is that the rows are those of [`merge_base_full`], which decodes everything.

mod columns;
mod full;
mod group;
mod incoming;
mod matches;
mod output;

#[cfg(test)]
mod tests;

pub use full::merge_base_full;

use super::footer::KeySummary;
use super::{BaseOptions, NewBase, WrittenFile};
use crate::error::{Error, Result};
use crate::record::parquet_file::{ParquetFile, failed};
use crate::record::{Keyed, MergeRules, TableSchema};
use crate::storage::{Storage, TablePath};
use crate::table::StoredFile;
use arrow::array::StringArray;
use columns::Columns;
use group::{EncodedGroup, Groups};
use incoming::Incoming;
use matches::{Change, GroupChanges, OldFile};
use output::Output;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A row group of that many times our own is divided when it is made anew.
const LARGE: usize = 2;

/// Writes the next version of a base file. Rows whose key the file holds update or delete it by the rules; the others are
/// inserted, and deletes of keys that it does not hold change nothing.
///
/// `rows` hold each key once. `NotFound` and `Stale` speak of the old file.
pub fn merge_base(
    storage: &dyn Storage,
    old: &StoredFile,
    target: &NewBase,
    schema: &TableSchema,
    rules: &MergeRules,
    rows: &[Keyed],
    options: &BaseOptions,
) -> Result<WrittenFile> {
    let started = std::time::Instant::now();
    let path = TablePath::parse(&target.partition)?.join(&old.name)?;
    let file = ParquetFile::open(storage, &path, Some(old.size))?;
    let metadata = file.metadata(true)?;
    // What Arrow writers noted of their own types is left aside: Parquet's columns count.
    let reading = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::try_new(metadata, reading).map_err(|e| failed(path.as_str(), e))?;
    let held = OldFile { file, metadata };
    let incoming = Incoming::new(target, schema, rules, rows)?;
    let columns = Columns::new(held.metadata.metadata(), schema, &incoming).map_err(|e| e.context(&path))?;
    let found = matches::find(&held, schema, rules, &incoming, options.threads)?;
    let inserts = inserts(&incoming, &found);
    let units = plan(&held, &columns, &found, &inserts, options)?;
    let mut output = Output::create(storage, target, &held, &columns, options, units.iter().any(Unit::is_made))?;
    let encoder = output.encoder(&columns)?;
    let groups = Groups { old: &held, columns: &columns, encoder: &encoder };
    run(&groups, &units, &mut output, options)?;

    let mut summary = KeySummary::of_file(&held, options)?;
    let places = arrow::array::UInt32Array::from(inserts.clone());
    let added = arrow::compute::take(&incoming.keys, &places, None).map_err(|e| Error::internal(e.to_string()))?;
    let added: &StringArray = arrow::array::AsArray::as_string(&added);
    summary.add(added);
    let mut written = output.finish(&summary, schema, started)?;
    let changes = || found.iter().flat_map(|g| &g.changes);
    written.stat.num_inserts = inserts.len() as u64;
    written.stat.num_deletes = changes().filter(|c| c.deletes).count() as u64;
    written.stat.num_updates = changes().filter(|c| !c.deletes).count() as u64;
    written.stat.previous = crate::format::file_name::BaseName::parse(&old.name).map(|n| n.instant.to_string());
    written.stat.prev_base_file = Some(old.name.clone());
    if options.tell_keys {
        written.keys_added = added.iter().flatten().map(str::to_owned).collect();
        let gone = changes().filter(|c| c.deletes).map(|c| incoming.keys.value(c.incoming as usize).to_owned());
        written.keys_removed = gone.collect();
    }
    Ok(written)
}

/// Incoming rows whose keys the file does not hold, deletes left out.
fn inserts(incoming: &Incoming, found: &[GroupChanges]) -> Vec<u32> {
    let mut is_new = vec![true; incoming.len()];
    for row in found.iter().flat_map(|g| &g.met) {
        if let Some(flag) = is_new.get_mut(*row as usize) {
            *flag = false;
        }
    }
    (0_u32..).zip(is_new).filter(|(row, is_new)| *is_new && !incoming.deletes(*row)).map(|(row, _)| row).collect()
}

/// What becomes of one row group, or of rows that are added.
enum Unit<'m> {
    /// Copied as it is, but for the file's name.
    Copy { group: usize, rows: usize },
    /// Only columns with a new form are made.
    Reform { group: usize, rows: usize },
    /// Made anew.
    Rewrite { group: usize, rows: usize, changes: &'m [Change], added: &'m [u32] },
    /// Made anew in several parts.
    Split { group: usize, rows: usize, changes: &'m [Change], added: &'m [u32] },
    /// Rows that are added.
    Added { rows: &'m [u32] },
}

impl Unit<'_> {
    fn is_made(&self) -> bool {
        !matches!(self, Unit::Copy { .. })
    }
}

/// The parts of the new file, in order.
fn plan<'m>(
    held: &OldFile,
    columns: &Columns,
    found: &'m [GroupChanges],
    inserts: &'m [u32],
    options: &BaseOptions,
) -> Result<Vec<Unit<'m>>> {
    let is_reformed = columns.is_reformed();
    let groups = held.metadata.metadata().row_groups();
    let mut units = Vec::new();
    let mut rest = inserts;
    for (group, (meta, changes)) in groups.iter().zip(found).enumerate() {
        let rows = usize::try_from(meta.num_rows())
            .map_err(|_| Error::corrupt(format!("{}: {} rows in a row group", held.file.name(), meta.num_rows())))?;
        let changes = changes.changes.as_slice();
        // Few rows join the last row group, so that one insert after the other does not leave as many row groups.
        let is_last = group + 1 == groups.len();
        let fits = rows + inserts.len() <= options.row_group_rows;
        let is_small = !changes.is_empty() || rows <= options.row_group_rows / 2;
        let added = if is_last && fits && is_small { std::mem::take(&mut rest) } else { &[] };
        let is_large = rows > LARGE * options.row_group_rows;
        let is_touched = !changes.is_empty() || !added.is_empty();
        match (rows, is_touched) {
            (0, false) => {}
            (_, true) if is_large => units.push(Unit::Split { group, rows, changes, added }),
            (_, true) => units.push(Unit::Rewrite { group, rows, changes, added }),
            (_, false) if is_reformed && is_large => units.push(Unit::Split { group, rows, changes, added }),
            (_, false) if is_reformed => units.push(Unit::Reform { group, rows }),
            (_, false) => units.push(Unit::Copy { group, rows }),
        }
    }
    units.extend(rest.chunks(options.row_group_rows.max(1)).map(|rows| Unit::Added { rows }));
    Ok(units)
}

/// A row group, or the end of a unit.
type Message = Result<Option<EncodedGroup>>;

/// Makes the units on several threads, and puts them into the file in order.
fn run(groups: &Groups<'_>, units: &[Unit<'_>], output: &mut Output<'_>, options: &BaseOptions) -> Result<()> {
    let made: Vec<&Unit<'_>> = units.iter().filter(|u| u.is_made()).collect();
    let threads = options.threads.clamp(1, made.len().max(1));
    std::thread::scope(|scope| {
        // Each thread makes every n-th unit and waits with one finished row group, so that memory is bounded.
        let lanes: Vec<Receiver<Message>> = (0..threads)
            .map(|lane| {
                let (sender, receiver) = sync_channel(1);
                let own: Vec<&Unit<'_>> = made.iter().skip(lane).step_by(threads).copied().collect();
                scope.spawn(move || own.into_iter().all(|unit| make(groups, unit, options, &sender)));
                receiver
            })
            .collect();
        let mut turn = lanes.iter().cycle();
        for unit in units {
            if let Unit::Copy { group, rows } = unit {
                output.copy(*group, *rows)?;
                continue;
            }
            let lane = turn.next().ok_or_else(|| Error::internal("no thread makes row groups"))?;
            while let Some(group) = lane.recv().map_err(|_| Error::internal("a thread that merges panicked"))?? {
                output.put(group)?;
            }
        }
        Ok(())
    })
}

/// Makes one unit; false if nobody takes it any more, or after a failure.
fn make(groups: &Groups<'_>, unit: &Unit<'_>, options: &BaseOptions, to: &SyncSender<Message>) -> bool {
    let one = |group: Result<EncodedGroup>| {
        let is_good = group.is_ok();
        to.send(group.map(Some)).is_ok() && is_good
    };
    let is_good = match unit {
        Unit::Copy { .. } => true,
        Unit::Reform { group, rows } => one(groups.reform(*group, *rows)),
        Unit::Rewrite { group, rows, changes, added } => one(groups.rewrite(*group, *rows, changes, added)),
        Unit::Added { rows } => one(groups.added(rows)),
        Unit::Split { group, rows, changes, added } => {
            match split(groups, *group, *rows, changes, added, options, to) {
                Ok(is_taken) => is_taken,
                Err(error) => one(Err(error)),
            }
        }
    };
    is_good && to.send(Ok(None)).is_ok()
}

/// Makes several row groups of a large one: a thread decodes while this one encodes. False if nobody takes them.
fn split(
    groups: &Groups<'_>,
    group: usize,
    rows: usize,
    changes: &[Change],
    added: &[u32],
    options: &BaseOptions,
    to: &SyncSender<Message>,
) -> Result<bool> {
    let parts = rows.div_ceil(options.row_group_rows.max(1)).max(1);
    let reader = groups.old.rows(group, groups.roots(), rows.div_ceil(parts).max(1))?;
    std::thread::scope(|scope| {
        let (sender, batches) = sync_channel(1);
        scope.spawn(move || reader.into_iter().all(|batch| sender.send(batch).is_ok()));
        let mut first = 0;
        for batch in batches {
            let batch = batch.map_err(|e| groups.old.failed(e))?;
            let end = first + batch.num_rows();
            let from = changes.partition_point(|c| (c.row as usize) < first);
            let until = changes.partition_point(|c| (c.row as usize) < end);
            let own = changes.get(from..until).unwrap_or_default();
            let added = if end >= rows { added } else { &[] };
            if to.send(groups.window(&batch, first, own, added).map(Some)).is_err() {
                return Ok(false);
            }
            first = end;
        }
        match first == rows {
            true => Ok(true),
            false => {
                Err(Error::corrupt(format!("{}: row group {group} has {first} of {rows} rows", groups.old.file.name())))
            }
        }
    })
}
