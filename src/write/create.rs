//! Creating tables: `hoodie.properties` as Hudi writes it for that version, and its folders.
//!
//! The properties come last, and are created only if absent: until then there is no table, and whoever tries again finds
//! nothing in the way. Version 6 is what every release of Hudi from 0.14 on reads and writes; version 9 is that of 1.1.
//! Format: docs/format.md, "hoodie.properties".

mod merging;
mod spec;

pub use spec::TableSpec;

use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{InstantTime, Layout, Zone};
use crate::format::properties::{Properties, TableConfig, TableType};
use crate::storage::{Storage, TablePath};
use bytes::Bytes;
use std::time::SystemTime;

const PROPERTIES: &str = ".hoodie/hoodie.properties";
const BACKUP: &str = ".hoodie/hoodie.properties.backup";
/// Made where folders exist, as Hudi does.
const FOLDERS: [&str; 4] =
    [".hoodie/.aux/.bootstrap/.partitions", ".hoodie/.aux/.bootstrap/.fileids", ".hoodie/.schema", ".hoodie/.temp"];

/// Creates a table at the root of `storage`: empty, without a metadata table. `AlreadyExists` if there is one.
pub fn create(storage: &dyn Storage, spec: &TableSpec) -> Result<TableConfig> {
    let properties = spec.properties()?;
    let comment = format!("Properties saved on {}", iso_now());
    let content = properties.encode(&[&comment, &java_now()]);
    // What was written must be what is read.
    let config = TableConfig::parse(&content).map_err(|e| Error::internal(e.message()).context("a new table"))?;
    for path in [PROPERTIES, BACKUP] {
        match storage.stat(&TablePath::parse(path)?) {
            Ok(_) => return Err(exists(storage)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    for folder in FOLDERS {
        storage.create_dir(&TablePath::parse(folder)?)?;
    }
    // In layout 1 the folder of the archived timeline, in layout 2 that inside the timeline's folder.
    storage.create_dir(&TablePath::parse(&config.history_folder())?)?;
    create_properties(storage, &content)?;
    Ok(config)
}

/// Only if there are none; a store whose answer was lost may have taken them.
fn create_properties(storage: &dyn Storage, content: &[u8]) -> Result<()> {
    let path = TablePath::parse(PROPERTIES)?;
    let Err(error) = storage.create(&path, Bytes::copy_from_slice(content)) else { return Ok(()) };
    let limit = u64::try_from(content.len()).unwrap_or(u64::MAX);
    match (error.kind(), storage.read(&path, limit)) {
        (_, Ok(there)) if there == content => Ok(()),
        (ErrorKind::AlreadyExists, _) => Err(exists(storage)),
        _ => Err(error),
    }
}

fn exists(storage: &dyn Storage) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("{}: is a Hudi table already", storage.uri()))
        .with_hint("write to it, or create the new table at another place")
}

impl TableSpec {
    /// What `hoodie.properties` will say, with its checksum. `Invalid` names what does not fit.
    pub fn properties(&self) -> Result<Properties> {
        self.check()?;
        let mut properties = Properties::default();
        let mut set = |key: &str, value: &str| properties.set(key, value);
        let layout = if self.version >= 8 { Layout::V2 } else { Layout::V1 };
        set("hoodie.table.name", &self.name);
        set("hoodie.database.name", &self.database);
        let table_type = match self.table_type {
            TableType::CopyOnWrite => "COPY_ON_WRITE",
            TableType::MergeOnRead => "MERGE_ON_READ",
        };
        set("hoodie.table.type", table_type);
        set("hoodie.table.version", &self.version.to_string());
        set("hoodie.archivelog.folder", "archived");
        match layout {
            Layout::V0 | Layout::V1 => set("hoodie.timeline.layout.version", "1"),
            Layout::V2 => {
                set("hoodie.table.initial.version", &self.version.to_string());
                set("hoodie.timeline.layout.version", "2");
                set("hoodie.timeline.path", "timeline");
                set("hoodie.timeline.history.path", "history");
                set("hoodie.table.format", "native");
            }
        }
        set("hoodie.table.base.file.format", "PARQUET");
        set("hoodie.populate.meta.fields", "true");
        set("hoodie.table.timeline.timezone", "UTC");
        set("hoodie.datasource.write.hive_style_partitioning", bool_text(self.hive_style));
        set("hoodie.datasource.write.partitionpath.urlencode", bool_text(self.url_encode));
        set("hoodie.datasource.write.drop.partition.columns", "false");
        if let Some(schema) = &self.schema {
            set("hoodie.table.create.schema", schema);
        }
        for (key, value) in self.fields()?.into_iter().chain(self.key_generator_entry()).chain(merging::entries(self)?)
        {
            properties.set(key, value);
        }
        for (key, value) in &self.properties {
            properties.set(key, value);
        }
        merging::drop_implied(&mut properties, self.version);
        properties.seal();
        Ok(properties)
    }
}

fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// `2026-01-31T12:00:00.123Z`, as in the first comment.
fn iso_now() -> String {
    let time = now();
    let part = |from: usize, to: usize| time.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}T{}:{}:{}.{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14),
        part(14, 17)
    )
}

/// `Sat Jan 31 12:00:00 UTC 2026`, as in the second comment.
fn java_now() -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let time = now();
    let part = |from: usize, to: usize| time.get(from..to).unwrap_or_default();
    let days = epoch_ms().div_euclid(86_400_000).rem_euclid(7);
    let day = usize::try_from(days).ok().and_then(|d| DAYS.get(d)).copied().unwrap_or_default();
    let month = part(4, 6).parse::<usize>().ok().and_then(|m| MONTHS.get(m.checked_sub(1)?)).copied();
    format!(
        "{day} {} {} {}:{}:{} UTC {}",
        month.unwrap_or_default(),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14),
        part(0, 4)
    )
}

fn now() -> String {
    InstantTime::from_epoch_ms(epoch_ms(), Zone::Utc).map(|t| t.to_string()).unwrap_or_default()
}

fn epoch_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
