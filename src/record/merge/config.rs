//! Merge rules from a table's properties, which each table version keeps in another way.

use super::{MergeMode, Rules};
use crate::error::{Error, Result};
use crate::format::properties::TableConfig;

/// The strategy ids of Hudi's own mergers.
const EVENT_TIME_ID: &str = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5";
const COMMIT_TIME_ID: &str = "ce9acb64-bde0-424c-9b91-f6ebba25356d";
/// The prefix of settings that a table hands to its merger, from version 9 on.
const MERGE_PROPERTY: &str = "hoodie.record.merge.property.";
/// The payload of change logs by the AWS Database Migration Service, and what marks a delete in them.
const DMS_PAYLOAD: &str = "AWSDmsAvroPayload";
const DMS_MARKER: (&str, &str) = ("Op", "D");

pub(super) fn build(config: &TableConfig) -> Result<Rules> {
    if config.get("hoodie.table.cdc.enabled").is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        return Err(refused("change data capture (hoodie.table.cdc.enabled)"));
    }
    if let Some(mode) = config.get("hoodie.table.partial.update.mode").filter(|m| !m.eq_ignore_ascii_case("NONE")) {
        return Err(refused(&format!("partial updates (hoodie.table.partial.update.mode={mode})")));
    }
    let ordering = config.get("hoodie.table.ordering.fields").or_else(|| config.get("hoodie.table.precombine.field"));
    let ordering_fields: Vec<String> =
        ordering.unwrap_or_default().split(',').map(str::trim).filter(|f| !f.is_empty()).map(str::to_owned).collect();
    let mode = mode(config, !ordering_fields.is_empty())?;
    Ok(Rules { mode, ordering_fields, marker: marker(config) })
}

fn mode(config: &TableConfig, is_ordered: bool) -> Result<MergeMode> {
    if config.version().code() >= 8
        && let Some(mode) = config.get("hoodie.record.merge.mode")
    {
        return match mode.to_ascii_uppercase().as_str() {
            "COMMIT_TIME_ORDERING" => Ok(MergeMode::CommitTime),
            "EVENT_TIME_ORDERING" => Ok(MergeMode::EventTime),
            // A payload may be one of those that are known all the same.
            _ => match payload(config).map(known_payload) {
                Some(Some(mode)) => Ok(mode),
                _ => Err(refused(&custom(config, mode))),
            },
        };
    }
    let by_payload =
        payload(config).map(|name| known_payload(name).ok_or_else(|| refused(&format!("payload class {name:?}"))));
    let by_strategy = match strategy(config) {
        None => None,
        Some(EVENT_TIME_ID) => Some(Ok(MergeMode::EventTime)),
        Some(COMMIT_TIME_ID) => Some(Ok(MergeMode::CommitTime)),
        Some(other) => Some(Err(refused(&format!("the record merger with the strategy {other}")))),
    };
    let inferred = if is_ordered { MergeMode::EventTime } else { MergeMode::CommitTime };
    let (first, second) =
        if config.version().code() >= 8 { (by_strategy, by_payload) } else { (by_payload, by_strategy) };
    first.or(second).unwrap_or(Ok(inferred))
}

fn payload(config: &TableConfig) -> Option<&str> {
    config.get("hoodie.compaction.payload.class").or_else(|| config.get("hoodie.table.legacy.payload.class"))
}

fn strategy(config: &TableConfig) -> Option<&str> {
    config.get("hoodie.record.merge.strategy.id").or_else(|| config.get("hoodie.compaction.record.merger.strategy"))
}

fn known_payload(class: &str) -> Option<MergeMode> {
    match class.rsplit('.').next().unwrap_or(class) {
        "OverwriteWithLatestAvroPayload" | DMS_PAYLOAD => Some(MergeMode::CommitTime),
        "DefaultHoodieRecordPayload" | "EventTimeAvroPayload" => Some(MergeMode::EventTime),
        _ => None,
    }
}

/// The column and value that delete: as the table's merger is told, or as its payload has it.
fn marker(config: &TableConfig) -> Option<(String, String)> {
    let told = |key: &str| config.get(&format!("{MERGE_PROPERTY}{key}")).or_else(|| config.get(key));
    if let (Some(field), Some(value)) = (told("hoodie.payload.delete.field"), told("hoodie.payload.delete.marker")) {
        return Some((field.to_owned(), value.to_owned()));
    }
    let is_dms = payload(config).is_some_and(|p| p.ends_with(DMS_PAYLOAD));
    is_dms.then(|| (DMS_MARKER.0.to_owned(), DMS_MARKER.1.to_owned()))
}

fn custom(config: &TableConfig, mode: &str) -> String {
    match payload(config).or_else(|| strategy(config)) {
        Some(named) => format!("merge mode {mode} with {named:?}"),
        None => format!("merge mode {mode}"),
    }
}

fn refused(what: &str) -> Error {
    Error::unsupported(format!("writing to a table with {what}"))
        .with_hint("commit-time and event-time ordering are supported; write this table with the engine that made it")
}
