//! `index.json`: the indexes that a metadata table keeps, by their partitions (docs/format.md, "Metadata table").
//!
//! Table version 8 states no version of an index, which then is its first. What this build does not know of a definition is
//! kept and written again.

use super::jackson;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// All definitions, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexDefinitions {
    /// The definitions by name, which is the name of the metadata partition too.
    #[serde(default)]
    pub index_definitions: BTreeMap<String, IndexDefinition>,
    /// What else stands there.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// One index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IndexDefinition {
    /// Its name.
    pub index_name: String,
    /// `column_stats`, `record_index`, `secondary_index`, `expr_index`, …
    pub index_type: String,
    /// What is applied to the fields: `identity`, the name of an expression, or the type once more.
    pub index_function: Option<String>,
    /// The indexed columns.
    pub source_fields: Vec<String>,
    /// Settings, such as `isPartitioned`.
    pub index_options: BTreeMap<String, String>,
    /// `V1` or `V2`; `None` in table version 8, where it is `V1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What else stands there.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl IndexDefinitions {
    /// Reads `index.json`; an empty file defines nothing.
    pub fn parse(bytes: &[u8]) -> Result<IndexDefinitions> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(IndexDefinitions::default());
        }
        serde_json::from_slice(bytes).map_err(|e| Error::corrupt(format!("index.json: {e}")).with_source(e))
    }

    /// The bytes of `index.json`.
    pub fn encode(&self) -> Result<Vec<u8>> {
        jackson::to_vec(self).map_err(|e| e.context("index.json"))
    }

    /// The definition of that name.
    pub fn get(&self, name: &str) -> Option<&IndexDefinition> {
        self.index_definitions.get(name)
    }

    /// Adds or replaces a definition under its name.
    pub fn put(&mut self, definition: IndexDefinition) {
        self.index_definitions.insert(definition.index_name.clone(), definition);
    }
}

impl IndexDefinition {
    /// The index's version, 1 where it is not stated.
    pub fn version_number(&self) -> u32 {
        self.version.as_deref().and_then(|v| v.strip_prefix(['V', 'v'])?.parse().ok()).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_kept() {
        let text = r#"{"indexDefinitions": {"a": {"indexName": "a", "indexType": "secondary_index", "indexFunction": null,
            "sourceFields": ["x"], "indexOptions": {"k": "v"}, "version": "V2", "new": [1]}}, "more": {"y": 2}}"#;
        let definitions = IndexDefinitions::parse(text.as_bytes()).unwrap();
        assert_eq!(definitions.get("a").unwrap().version_number(), 2);
        assert_eq!(IndexDefinitions::parse(&definitions.encode().unwrap()).unwrap(), definitions);
        let json: Value = serde_json::from_slice(&definitions.encode().unwrap()).unwrap();
        assert_eq!(json, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(IndexDefinition::default().version_number(), 1);
        assert_eq!(IndexDefinitions::parse(b"").unwrap(), IndexDefinitions::default());
        assert!(IndexDefinitions::parse(b"[]").is_err());
    }
}
