//! Which settings say how rows of one key are merged, by table version.
//!
//! In version 6 the payload class decides. From version 9 on it is a merge mode, and a payload class stands there only where it is
//! a custom one. Format: docs/format.md, "Merging".

use super::TableSpec;
use crate::error::{Error, Result};
use crate::format::properties::Properties;

const PAYLOAD: &str = "hoodie.compaction.payload.class";
const MODE: &str = "hoodie.record.merge.mode";
const STRATEGY: &str = "hoodie.record.merge.strategy.id";
const PACKAGE: &str = "org.apache.hudi.common.model.";
/// Merges as the payload class does.
const BY_PAYLOAD: &str = "00000000-0000-0000-0000-000000000000";

/// The entries for a new table; a payload class or merge mode among its properties goes first.
pub(super) fn entries(spec: &TableSpec) -> Result<Vec<(&'static str, String)>> {
    let given = |key: &str| spec.properties.get(key).map(String::as_str);
    let ordered = !spec.ordering_fields.is_empty();
    let usual = if ordered { "DefaultHoodieRecordPayload" } else { "OverwriteWithLatestAvroPayload" };
    if spec.version < 9 {
        if let Some(key) = [MODE, STRATEGY].into_iter().find(|k| given(k).is_some()) {
            return Err(Error::invalid(format!("{key} is no setting of table version {}", spec.version))
                .in_column(key)
                .with_hint(format!("set {PAYLOAD}, or create a table of version 9")));
        }
        return Ok(vec![(PAYLOAD, given(PAYLOAD).map_or_else(|| format!("{PACKAGE}{usual}"), str::to_owned))]);
    }
    if given(MODE).is_some() {
        return Ok(Vec::new());
    }
    let payload = given(PAYLOAD).map(|p| p.strip_prefix(PACKAGE).unwrap_or(p));
    match payload.unwrap_or(usual) {
        "DefaultHoodieRecordPayload" | "EventTimeAvroPayload" => Ok(vec![(MODE, "EVENT_TIME_ORDERING".to_owned())]),
        "OverwriteWithLatestAvroPayload" => Ok(vec![(MODE, "COMMIT_TIME_ORDERING".to_owned())]),
        _ => Ok(vec![(MODE, "CUSTOM".to_owned()), (STRATEGY, BY_PAYLOAD.to_owned())]),
    }
}

/// From version 9 on, a payload class that a merge mode stands for is not written.
pub(super) fn drop_implied(properties: &mut Properties, version: u32) {
    let implied = properties.get(MODE).is_some_and(|m| m.ends_with("_ORDERING"));
    if version >= 9 && implied {
        properties.remove(PAYLOAD);
    }
}
