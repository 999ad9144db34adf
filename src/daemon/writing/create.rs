//! Creating tables.
//!
//! What is asked for is checked by the same code that will write to the table, so that no table is made which could not be
//! written to. The metadata table is made at once, while there is nothing to be put into it.

use crate::control::problem::Failure;
use crate::control::types::{CreateRequest, TableStatus};
use crate::control::writes::check_setting;
use crate::daemon::service::Service;
use crate::error::{Error, Result};
use crate::format::properties::{TableConfig, TableType};
use crate::metadata::write::{MetadataKinds, RecordIndexShape};
use crate::record::{KeyGenerator, TableSchema};
use crate::storage::Storage;
use crate::write::create::TableSpec;
use crate::write::{Writer, WriterOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Creates a table in the warehouse of a service, and shows it.
pub fn in_warehouse(service: &Service, request: &CreateRequest) -> Result<TableStatus, Failure> {
    let path = service.place_of(&request.name)?;
    create_table(request, || service.make_place(&path))?;
    service.show_created(&path)
}

/// Creates a table at the root of the storage that `place` makes. It is not called for a request that cannot be met, so that
/// such a request changes nothing.
pub fn create_table(request: &CreateRequest, place: impl FnOnce() -> Result<Arc<dyn Storage>>) -> Result<()> {
    let kinds = metadata_kinds(request)?;
    let spec = spec(request)?;
    let config = TableConfig::parse(&spec.properties()?.encode(&[]))?;
    KeyGenerator::new(&config, &BTreeMap::new(), None).map_err(|e| e.in_column("key_generator"))?;
    let index = request.index.as_deref().map(str::parse).transpose().map_err(|e: Error| e.in_column("index"))?;
    Writer::create(place()?, &spec, kinds.as_ref(), WriterOptions { index, ..WriterOptions::default() }).map(drop)
}

fn spec(request: &CreateRequest) -> Result<TableSpec> {
    let last = request.name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let table_type = match request.table_type.as_deref() {
        None | Some("COPY_ON_WRITE") => TableType::CopyOnWrite,
        Some("MERGE_ON_READ") => TableType::MergeOnRead,
        Some(other) => {
            return Err(Error::invalid(format!("{other:?} is no type of table"))
                .in_column("table_type")
                .with_hint("the types are COPY_ON_WRITE and MERGE_ON_READ"));
        }
    };
    for key in request.properties.keys() {
        check_setting(key)?;
    }
    let schema = request.schema.as_ref().map(schema_text).transpose().map_err(|e| e.in_column("schema"))?;
    let spec = TableSpec {
        table_type,
        version: request.table_version.unwrap_or(6),
        record_key: request.record_key.clone(),
        partition_fields: request.partition_by.clone(),
        ordering_fields: request.ordering.clone(),
        key_generator: request.key_generator.clone(),
        hive_style: request.hive_style,
        url_encode: request.url_encode,
        schema,
        properties: request.properties.clone(),
        ..TableSpec::new(request.hudi_name.as_deref().unwrap_or(last))
    };
    if matches!(spec.version, 6 | 9) {
        return Ok(spec);
    }
    Err(Error::unsupported(format!("tables of version {} are not created", spec.version))
        .in_column("table_version")
        .with_hint("the versions are 6, which every Hudi release from 0.14 on writes, and 9"))
}

/// Avro JSON, as an object or as a text that holds one.
fn schema_text(schema: &serde_json::Value) -> Result<String> {
    let text = schema.as_str().map_or_else(|| schema.to_string(), str::to_owned);
    TableSchema::from_avro(&text)?;
    Ok(text)
}

/// The partitions of the metadata table; `None` for a table without one.
fn metadata_kinds(request: &CreateRequest) -> Result<Option<MetadataKinds>> {
    let Some(names) = &request.metadata else { return Ok(Some(MetadataKinds::default())) };
    let kinds = kinds_of(names, || indexed_columns(request)).map_err(|e| e.in_column("metadata"))?;
    Ok((!names.is_empty()).then_some(kinds))
}

/// Partitions of a metadata table by their names; `columns` are those whose ranges are kept.
pub fn kinds_of(names: &[String], columns: impl Fn() -> Result<Vec<String>>) -> Result<MetadataKinds> {
    let mut kinds = MetadataKinds::default();
    for name in names {
        match name.as_str() {
            "files" => {}
            "record_index" => kinds.record_index = Some(RecordIndexShape::default()),
            "column_stats" => kinds.column_stats = columns()?,
            other => {
                return Err(Error::invalid(format!("{other:?} is no partition of the metadata table"))
                    .with_hint("they are files, column_stats and record_index"));
            }
        }
    }
    Ok(kinds)
}

/// Every column, as with Hudi; they must be known.
fn indexed_columns(request: &CreateRequest) -> Result<Vec<String>> {
    let schema = request.schema.as_ref().ok_or_else(|| {
        Error::invalid("column_stats of a table whose columns are not known").with_hint("give the schema, too")
    })?;
    let schema = TableSchema::from_avro(&schema_text(schema)?)?;
    Ok(schema.arrow().fields().iter().map(|field| field.name().clone()).collect())
}
