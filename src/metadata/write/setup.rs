//! [`Setup`]: what a table's metadata table keeps, and whether this build can keep it.

use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::Schema;
use crate::format::index_defs::{IndexDefinition, IndexDefinitions};
use crate::format::properties::TableConfig;
use crate::metadata::stats::StatsVersion;
use crate::metadata::write::schema::RecordFormat;
use crate::metadata::{COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX};
use crate::storage::{Storage, TablePath};
use crate::timeline::Timeline;
use std::collections::BTreeSet;

/// Where the definitions of indexes lie, if the properties do not say.
pub(super) const INDEX_DEFS: &str = ".hoodie/.index_defs/index.json";
const INDEX_DEFS_KEY: &str = "hoodie.table.index.defs.path";
const INDEX_DEFS_LEN_MAX: u64 = 16 << 20;
/// The partitions that are maintained here.
const MAINTAINED: [&str; 4] = [FILES, COLUMN_STATS, PARTITION_STATS, RECORD_INDEX];
/// Meta columns that Hudi indexes in every table that has them.
pub(super) const META_COLUMNS: [&str; 3] = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"];

/// What is kept.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub format: RecordFormat,
    /// Partitions that are ready, or being built.
    pub partitions: BTreeSet<String>,
    pub stats: StatsVersion,
    /// The columns that have statistics; empty if none are named, which means all.
    pub columns: Vec<String>,
    /// Definitions of indexes, from version 8 on.
    pub definitions: IndexDefinitions,
}

impl Setup {
    /// Reads the table's settings and the definitions of its indexes.
    pub fn load(storage: &dyn Storage, config: &TableConfig) -> Result<Setup> {
        let inflight = config.get("hoodie.table.metadata.partitions.inflight").unwrap_or_default();
        let inflight = inflight.split(',').map(str::trim).filter(|p| !p.is_empty());
        let partitions = config.metadata_partitions().into_iter().chain(inflight).map(str::to_owned).collect();
        let definitions = definitions(storage, config)?;
        let stats = definitions.get(COLUMN_STATS).or_else(|| definitions.get(PARTITION_STATS));
        let stated = stats.filter(|d| d.version.is_some()).map(|d| d.version_number());
        // A definition without a version is of a release before 1.1, and so is its table.
        let version = match stated.unwrap_or(if config.version().code() >= 9 { 2 } else { 1 }) {
            1 => StatsVersion::V1,
            2 => StatsVersion::V2,
            other => return Err(Error::unsupported(format!("column statistics of version {other}"))),
        };
        let columns = stats.map(|d| d.source_fields.clone()).unwrap_or_default();
        let format = RecordFormat::of(config.version());
        Ok(Setup { format, partitions, stats: version, columns, definitions })
    }

    /// True if that partition is kept.
    pub fn has(&self, partition: &str) -> bool {
        self.partitions.contains(partition)
    }

    /// The partitions that cannot be kept here, by name.
    pub fn unsupported(&self) -> Vec<&str> {
        let cannot = |p: &&str| match *p {
            // Ranges of a partition are made of those of its files.
            PARTITION_STATS => !self.has(COLUMN_STATS),
            RECORD_INDEX => self
                .definitions
                .get(RECORD_INDEX)
                .is_some_and(|d| d.index_options.get("isPartitioned").is_some_and(|v| v.eq_ignore_ascii_case("true"))),
            other => !MAINTAINED.contains(&other),
        };
        self.partitions.iter().map(String::as_str).filter(cannot).collect()
    }
}

/// The file with the definitions of indexes, by the properties.
pub(super) fn definitions_path(config: &TableConfig) -> Result<TablePath> {
    let path = TablePath::parse(config.get(INDEX_DEFS_KEY).unwrap_or(INDEX_DEFS));
    path.map_err(|e| Error::corrupt(e.message()).context(INDEX_DEFS_KEY))
}

fn definitions(storage: &dyn Storage, config: &TableConfig) -> Result<IndexDefinitions> {
    if config.get(INDEX_DEFS_KEY).is_none() {
        return Ok(IndexDefinitions::default());
    }
    let path = definitions_path(config)?;
    match storage.read(&path, INDEX_DEFS_LEN_MAX) {
        Ok(bytes) => IndexDefinitions::parse(&bytes).map_err(|e| e.context(path)),
        // As in Hudi: no index is defined.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(IndexDefinitions::default()),
        Err(e) => Err(e.context(path)),
    }
}

/// Refuses a table with partitions that cannot be kept.
pub(super) fn refuse(partitions: &[&str]) -> Error {
    Error::unsupported(format!(
        "the metadata table has {}, which this build cannot keep up to date",
        partitions.join(", ")
    ))
    .with_hint("write with Hudi, or drop them: --drop-unsupported-index")
}

/// The top-level columns of the table, by the schema of its newest commit that states one.
pub(super) fn table_columns(storage: &dyn Storage, data: &Timeline) -> Result<Vec<String>> {
    for write in data.writes().rev() {
        if let Some(schema) = data.commit_metadata(storage, write)?.schema() {
            return Ok(Schema::parse(schema)?.field_names().map(str::to_owned).collect());
        }
    }
    Ok(Vec::new())
}

/// Puts columns into the definition of the column statistics.
pub(super) fn name_columns(
    storage: &dyn Storage,
    config: &TableConfig,
    setup: &Setup,
    columns: Vec<String>,
) -> Result<()> {
    let mut definitions = setup.definitions.clone();
    let Some(definition) = definitions.get(COLUMN_STATS) else { return Ok(()) };
    definitions.put(IndexDefinition { source_fields: columns, ..definition.clone() });
    let path = definitions_path(config)?;
    storage.put(&path, definitions.encode()?.into()).map_err(|e| e.context(path))?;
    Ok(())
}
