//! The schema that a table has: found in its commits, its properties or its files.

use super::TableSchema;
use crate::error::{Error, Result};
use crate::record::parquet_file::ParquetFile;
use crate::table::Snapshot;
use ::parquet::arrow::parquet_to_arrow_schema;
use ::parquet::file::metadata::FileMetaData;

/// Newest commits that are asked for a schema before the table's properties are.
const COMMITS_MAX: usize = 100;
/// The key of a base file's footer that holds its Avro schema.
pub(crate) const AVRO_SCHEMA_KEY: &str = "parquet.avro.schema";

/// The schema of a table as of a snapshot: that of the newest commit, else the one that the table was created with, else that
/// of a base file. `None` for a table that has none of them.
pub fn of_snapshot(snapshot: &Snapshot) -> Result<Option<TableSchema>> {
    if let Some(schema) = of_commits(snapshot)? {
        return Ok(Some(schema));
    }
    if let Some(json) = snapshot.config().get("hoodie.table.create.schema") {
        return TableSchema::from_avro(json).map(Some).map_err(|e| e.context("hoodie.table.create.schema"));
    }
    of_files(snapshot)
}

fn of_commits(snapshot: &Snapshot) -> Result<Option<TableSchema>> {
    let newest = snapshot.instant();
    let timeline = snapshot.timeline();
    let writes = timeline.writes().rev().filter(|i| newest.is_some_and(|newest| i.requested <= newest));
    for instant in writes.take(COMMITS_MAX) {
        let commit = timeline.commit_metadata(&**snapshot.storage(), instant)?;
        if let Some(json) = commit.schema() {
            return TableSchema::from_avro(json).map(Some).map_err(|e| e.context(format!("{instant}")));
        }
    }
    Ok(None)
}

fn of_files(snapshot: &Snapshot) -> Result<Option<TableSchema>> {
    for partition in snapshot.partitions()?.iter() {
        let view = snapshot.partition(partition)?;
        let Some(file) = view.listed().next() else { continue };
        let path = snapshot.stored_path(partition, &file)?;
        let metadata = ParquetFile::open(&**snapshot.storage(), &path, file.size())?.metadata(false)?;
        let schema = of_parquet(metadata.file_metadata(), snapshot.config().name());
        return schema.map(Some).map_err(|e| e.context(path));
    }
    Ok(None)
}

/// The schema of a base file: by the Avro schema in its footer, else by its columns.
pub fn of_parquet(metadata: &FileMetaData, table_name: &str) -> Result<TableSchema> {
    let pairs = metadata.key_value_metadata();
    let avro = pairs.and_then(|p| p.iter().find(|p| p.key == AVRO_SCHEMA_KEY)).and_then(|p| p.value.as_deref());
    match avro {
        Some(json) => TableSchema::from_avro(json).map_err(|e| e.context(AVRO_SCHEMA_KEY)),
        None => {
            let arrow = parquet_to_arrow_schema(metadata.schema_descr(), None).map_err(|e| {
                Error::unsupported(format!("a Parquet schema that is not understood: {e}")).with_source(e)
            })?;
            TableSchema::from_arrow(&arrow, table_name)
        }
    }
}
