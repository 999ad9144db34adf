//! Listing the files of a view, partition by partition, without holding them all.
//!
//! Partitions are resolved a few at a time on threads of their own, because a remote store answers several questions in the
//! time of one; they are handed on in order.

use crate::control::problem::{Failure, Problem};
use crate::control::sink::FileSink;
use crate::control::types::{FileEntry, FilesSummary};
use crate::error::{Error, Result};
use crate::storage::TablePath;
use crate::table::Snapshot;
use crate::telemetry::event::{Event, EventCode};
use crate::view::PartitionView;

/// Partitions resolved at once.
const PARALLEL: usize = 8;

/// Hands the files of a view to `sink`, of one partition or of all.
///
/// A partition that was asked for by name and cannot be listed is a failure; when all are asked for, it is reported at the
/// end and the others are listed.
pub fn list(table: &str, snapshot: &Snapshot, partition: Option<&str>, sink: &mut dyn FileSink) -> Result<(), Failure> {
    let partitions = snapshot.partitions().map_err(|e| Failure::from(e).table(table))?;
    let wanted = match partition {
        None => &*partitions,
        Some(text) => one(&partitions, text).map_err(|e| Failure::from(e).table(table).partition(text))?,
    };
    let gone = |e| Failure::from(Error::io("list of files", e));
    let instant = snapshot.instant().map(|i| i.to_string());
    let mut begun = false;
    let mut failed = Vec::new();
    let mut summary = FilesSummary { partitions: wanted.len() as u64, ..FilesSummary::default() };
    for chunk in wanted.chunks(PARALLEL) {
        for (path, view) in chunk.iter().zip(resolve(snapshot, chunk)) {
            match view {
                Err(error) if partition.is_some() => {
                    return Err(Failure::from(error).table(table).partition(path.as_str()));
                }
                Err(error) => failed.push(failure(table, path, &error)),
                Ok(view) => {
                    if !std::mem::replace(&mut begun, true) {
                        sink.begin(table, instant.as_deref()).map_err(gone)?;
                    }
                    hand_on(path, &view, sink, &mut summary).map_err(gone)?;
                }
            }
        }
    }
    if !begun {
        sink.begin(table, instant.as_deref()).map_err(gone)?;
    }
    summary.warnings = snapshot.warnings();
    sink.end(&failed, &summary).map_err(gone)
}

fn one<'a>(partitions: &'a [TablePath], text: &str) -> Result<&'a [TablePath]> {
    let path = TablePath::parse(text.trim_end_matches('/'))?;
    let at = partitions.binary_search(&path).map_err(|_| {
        Error::not_found(format!("the table has no partition {text:?}"))
            .with_hint("`hudifs files` without --partition lists them all")
    })?;
    Ok(partitions.get(at..=at).unwrap_or_default())
}

fn resolve(snapshot: &Snapshot, chunk: &[TablePath]) -> Vec<Result<PartitionView>> {
    if let [one] = chunk {
        return vec![snapshot.partition(one)];
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = chunk.iter().map(|path| scope.spawn(|| snapshot.partition(path))).collect();
        let joined = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::internal("listing a partition failed by a mistake of hudifs")))
        });
        joined.collect()
    })
}

fn hand_on(
    path: &TablePath,
    view: &PartitionView,
    sink: &mut dyn FileSink,
    summary: &mut FilesSummary,
) -> std::io::Result<()> {
    summary.log_only_groups += u64::from(view.log_only_groups());
    for file in view.listed() {
        summary.files += 1;
        summary.size_bytes = summary.size_bytes.saturating_add(file.size().unwrap_or(0));
        sink.file(&FileEntry {
            partition: path.as_str().to_owned(),
            name: file.name().to_owned(),
            size_bytes: file.size(),
            file_id: file.file_id().to_owned(),
            instant: file.instant().to_string(),
        })?;
    }
    Ok(())
}

fn failure(table: &str, path: &TablePath, error: &Error) -> Problem {
    Event::from_error(EventCode::PartitionFailed, error).table(table).partition(path.as_str()).record();
    Problem { table: Some(table.to_owned()), partition: Some(path.as_str().to_owned()), ..Problem::from(error) }
}
