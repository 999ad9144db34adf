//! The archive of layout 1: log files of [`ArchivedEntry`], one record a file of an instant.

use super::files::StateFile;
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::InstantTime;
use crate::format::log::{AvroContent, BlockKind, HeaderKey, write_block};
use crate::format::plan::{ArchivedEntry, archived_schema};
use crate::storage::{ObjectWriter, Storage, TablePath};
use crate::timeline::Timeline;

/// How the names begin; the number of the file and a write token follow.
const PREFIX: &str = ".commits_.archive.";
const TOKEN: &str = "1-0-1";
/// Numbers tried, should another writer take some.
const NUMBERS_MAX: u64 = 100;

/// Writes a new archive file of all these files.
pub fn write(storage: &dyn Storage, timeline: &Timeline, files: &[StateFile], batch: usize) -> Result<()> {
    let folder = timeline.root().join(&timeline.config().history_folder())?;
    let schema = archived_schema()?;
    let (mut out, name) = new_file(storage, &folder)?;
    let zone = timeline.config().zone();
    for files in files.chunks(batch.max(1)) {
        let mut content = AvroContent::default();
        for file in files {
            let modified = storage.stat(&timeline.file_of(&file.instant)?)?.modified_ms;
            let transition = InstantTime::from_epoch_ms(modified, zone).map(|t| t.to_string());
            let entry = ArchivedEntry::new(&file.instant, transition, &file.read(storage, timeline)?)?;
            let record = entry.encode()?;
            content.push(|bytes| {
                bytes.extend_from_slice(&record);
                Ok(())
            })?;
        }
        write_block(&mut out, BlockKind::Avro, &[(HeaderKey::Schema, schema)], &content.finish())?;
    }
    out.finish().map_err(|e| e.context(name))?;
    storage.sync()
}

fn new_file(storage: &dyn Storage, folder: &TablePath) -> Result<(Box<dyn ObjectWriter>, String)> {
    let entries = match storage.list(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    let number = |name: &str| name.strip_prefix(PREFIX)?.split('_').next()?.parse::<u64>().ok();
    let newest = entries.iter().filter_map(|e| number(&e.name)).max().unwrap_or(0);
    for number in (newest + 1)..(newest + 1 + NUMBERS_MAX) {
        let name = format!("{PREFIX}{number}_{TOKEN}");
        match storage.create_writer(&folder.join(&name)?) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            other => return Ok((other?, name)),
        }
    }
    Err(Error::new(ErrorKind::Conflict, format!("no free number after {newest} in {folder}")))
}
