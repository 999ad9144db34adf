//! Decoders of bytes that are at hand in memory. What can be written back must come back the same.

use hudifs::format::avro::{Container, Cursor, Schema};
use hudifs::format::commit::CommitMetadata;
use hudifs::format::file_name::{BaseName, FileName, LogName};
use hudifs::format::instant::{Instant, InstantTime, Layout, Zone};
use hudifs::format::partition_path::{PartitionMetadata, escape, unescape};
use hudifs::format::plan::{self, Cleaned, CompactionPlan, RequestedReplace};
use hudifs::format::properties::{Properties, TableConfig};
use hudifs::storage::TablePath;

pub fn properties(bytes: &[u8]) {
    let properties = Properties::parse(bytes);
    for (key, value) in properties.iter() {
        assert_eq!(properties.get(key), Some(value), "{key}");
    }
    if let Ok(config) = TableConfig::parse(bytes) {
        let _ = (config.timeline_folder(), config.history_folder(), config.partition_fields().len());
        let _ = (config.metadata_partitions().len(), config.zone(), config.base_format(), config.layout());
    }
}

pub fn instant(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for layout in [Layout::V1, Layout::V2] {
        if let Some(instant) = Instant::parse_file_name(layout, text) {
            let again = Instant::parse_file_name(layout, &instant.file_name());
            assert_eq!(again, Some(instant), "{text:?} is written as {:?}", instant.file_name());
        }
    }
    if let Some(time) = InstantTime::parse(text) {
        assert_eq!(InstantTime::parse(time.as_str()), Some(time));
        if let Some(ms) = time.epoch_ms(Zone::Utc) {
            let _ = InstantTime::from_epoch_ms(ms, Zone::Utc);
        }
        let _ = (time.epoch_ms(Zone::Local), time.without_appended_millis());
    }
}

pub fn file_name(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let FileName::External(external) = FileName::parse(text) {
        let _ = external.file_id();
    }
    let _ = BaseName::parse(text);
    let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
    if let (Some(a), Some(b)) = (LogName::parse(first), LogName::parse(second)) {
        assert_eq!(a.order(&b), b.order(&a).reverse());
    }
    if let Some(log) = LogName::parse(text) {
        assert!(log.order(&log).is_eq());
    }
}

pub fn partition(bytes: &[u8]) {
    let _ = PartitionMetadata::parse(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    assert_eq!(unescape(&escape(text)), text);
    for text in [text, &*unescape(text)] {
        if let Ok(path) = TablePath::parse(text) {
            assert!(!path.as_str().split('/').any(|c| c == ".." || c == "."), "{text:?} leads out");
            assert!(!path.as_str().starts_with('/') && !path.as_str().contains('\0'), "{text:?} leads out");
        }
    }
}

pub fn commit(bytes: &[u8]) {
    if let Ok(metadata) = CommitMetadata::parse(bytes) {
        let _ = metadata.schema();
        for partition in &metadata.written {
            let _ = metadata.stats_of(&partition.partition).len();
            partition.stats.iter().for_each(|s| _ = s.file_name());
        }
    }
}

pub fn plan(bytes: &[u8]) {
    let _ = (CompactionPlan::parse(bytes), RequestedReplace::parse(bytes), plan::undone_instants(bytes));
    let _ = (plan::earliest_retained(bytes), plan::savepoint_comment(bytes));
    if let Ok(cleaned) = Cleaned::parse(bytes) {
        let _ = (cleaned.len(), cleaned.of("").count());
    }
}

/// A container; else a schema, a NUL and a value of it.
pub fn avro(bytes: &[u8]) {
    if let Ok(container) = Container::open(bytes) {
        let _ = container.first_value();
        let _ = container.records(|cursor| cursor.skip());
        return;
    }
    let mut parts = bytes.splitn(2, |b| *b == 0);
    let (Some(schema), Some(value)) = (parts.next(), parts.next()) else { return };
    let Some(schema) = std::str::from_utf8(schema).ok().and_then(|t| Schema::parse(t).ok()) else { return };
    let _ = (Cursor::new(&schema, value).value(), Cursor::new(&schema, value).skip());
    let _ = Cursor::new(&schema, value).finish();
}
