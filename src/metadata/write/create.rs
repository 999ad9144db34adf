//! The folders and properties of a new metadata table, and the definitions of its indexes.

use super::setup::{INDEX_DEFS, Setup, definitions_path};
use super::target::root;
use crate::error::Result;
use crate::format::index_defs::IndexDefinition;
use crate::format::properties::{Properties, TableConfig};
use crate::metadata::{COLUMN_STATS, RECORD_INDEX};
use crate::storage::Storage;
use crate::timeline::update_config;
use std::sync::Arc;

/// Creates the folders and properties of the metadata table.
pub(super) fn create_table(storage: &Arc<dyn Storage>, data: &TableConfig) -> Result<()> {
    let mut properties = Properties::default();
    let version = data.version().code();
    let mut set = |key: &str, value: &str| properties.set(key, value);
    set("hoodie.table.name", &format!("{}_metadata", data.name()));
    set("hoodie.table.type", "MERGE_ON_READ");
    set("hoodie.table.version", &version.to_string());
    set("hoodie.table.base.file.format", "HFILE");
    set("hoodie.table.recordkey.fields", "key");
    set("hoodie.populate.meta.fields", "false");
    set("hoodie.compaction.payload.class", "org.apache.hudi.metadata.HoodieMetadataPayload");
    set("hoodie.datasource.write.drop.partition.columns", "false");
    let folder = if version >= 8 {
        set("hoodie.table.initial.version", &version.to_string());
        set("hoodie.timeline.layout.version", "2");
        set("hoodie.timeline.path", "timeline");
        set("hoodie.timeline.history.path", "history");
        set("hoodie.archivelog.folder", "history");
        set("hoodie.table.keygenerator.type", "HOODIE_TABLE_METADATA");
        set("hoodie.record.merge.mode", "CUSTOM");
        set("hoodie.record.merge.strategy.id", "00000000-0000-0000-0000-000000000000");
        ".hoodie/timeline/history"
    } else {
        set("hoodie.timeline.layout.version", "1");
        set("hoodie.archivelog.folder", "archived");
        set("hoodie.table.keygenerator.class", "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator");
        // Event time; the payload decides all the same.
        set("hoodie.compaction.record.merger.strategy", "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5");
        ".hoodie/archived"
    };
    properties.seal();
    let root = root()?;
    storage.create_dir(&root.join(folder)?)?;
    storage.create(&root.join(".hoodie/hoodie.properties")?, properties.encode(&["Properties"]).into())?;
    Ok(())
}

/// Puts the definition of an index into `index.json`, where the table's version has one.
pub(super) fn define(storage: &Arc<dyn Storage>, data: &TableConfig, index: &str, columns: &[String]) -> Result<()> {
    let version = data.version().code();
    if version < 8 || (version == 8 && index == RECORD_INDEX) {
        return Ok(());
    }
    let storage = &**storage;
    let config = update_config(storage, |properties| {
        if properties.get("hoodie.table.index.defs.path").is_none() {
            properties.set("hoodie.table.index.defs.path", INDEX_DEFS);
        }
    })?;
    let mut definitions = Setup::load(storage, &config)?.definitions;
    let mut definition = IndexDefinition {
        index_name: index.to_owned(),
        index_type: index.to_owned(),
        index_function: Some(if index == RECORD_INDEX { String::new() } else { index.to_owned() }),
        source_fields: columns.to_vec(),
        ..IndexDefinition::default()
    };
    if version >= 9 {
        let number = if index == COLUMN_STATS { "V2" } else { "V1" };
        definition.version = Some(number.to_owned());
    }
    if index == RECORD_INDEX {
        definition.index_options.insert("isPartitioned".to_owned(), "false".to_owned());
    }
    definitions.put(definition);
    storage.put(&definitions_path(&config)?, definitions.encode()?.into())?;
    Ok(())
}
