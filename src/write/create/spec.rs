//! [`TableSpec`]: what a new table is to be like.

use crate::error::{Error, Result};
use crate::format::properties::TableType;
use std::collections::{BTreeMap, HashSet};

/// What follows from the other fields, and may not be set beside them.
const OWN_KEYS: [&str; 12] = [
    "hoodie.table.name",
    "hoodie.database.name",
    "hoodie.table.type",
    "hoodie.table.version",
    "hoodie.table.initial.version",
    "hoodie.timeline.layout.version",
    "hoodie.table.format",
    "hoodie.table.base.file.format",
    "hoodie.populate.meta.fields",
    "hoodie.table.checksum",
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
];

/// Hudi's key generators: the word for them here, Hudi's type, and the class below `org.apache.hudi.keygen`.
const GENERATORS: [(&str, &str, &str); 5] = [
    ("simple", "SIMPLE", "SimpleKeyGenerator"),
    ("complex", "COMPLEX", "ComplexKeyGenerator"),
    ("non_partitioned", "NON_PARTITION", "NonpartitionedKeyGenerator"),
    ("timestamp", "TIMESTAMP", "TimestampBasedKeyGenerator"),
    ("custom", "CUSTOM", "CustomKeyGenerator"),
];
const PACKAGE: &str = "org.apache.hudi.keygen.";

/// What a new table is to be like.
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// `hoodie.table.name`.
    pub name: String,
    /// `hoodie.database.name`; `default`, as with Spark.
    pub database: String,
    /// Copy on write or merge on read.
    pub table_type: TableType,
    /// 6 or 9.
    pub version: u32,
    /// Columns of the record key; none where Hudi makes keys up.
    pub record_key: Vec<String>,
    /// Columns of the partition path, outermost first; with the custom key generator each may carry its type, `ts:timestamp`.
    pub partition_fields: Vec<String>,
    /// Columns whose greater values win when a key comes twice; none: the later write wins.
    pub ordering_fields: Vec<String>,
    /// `simple`, `complex`, `non_partitioned`, `timestamp`, `custom`, or a class; `None`: by the columns.
    pub key_generator: Option<String>,
    /// Partition folders are named `column=value`.
    pub hive_style: bool,
    /// Values are URL-encoded in the names of partition folders.
    pub url_encode: bool,
    /// The Avro schema of the columns, as JSON.
    pub schema: Option<String>,
    /// More entries of `hoodie.properties`.
    pub properties: BTreeMap<String, String>,
}

impl TableSpec {
    /// A table of that name: version 6, copy on write, without keys and partitions.
    pub fn new(name: &str) -> TableSpec {
        TableSpec {
            name: name.to_owned(),
            database: "default".to_owned(),
            table_type: TableType::CopyOnWrite,
            version: 6,
            record_key: Vec::new(),
            partition_fields: Vec::new(),
            ordering_fields: Vec::new(),
            key_generator: None,
            hive_style: false,
            url_encode: false,
            schema: None,
            properties: BTreeMap::new(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.name.trim().is_empty() || self.name.contains('/') {
            return Err(Error::invalid(format!("{:?} is no table name", self.name)));
        }
        if !matches!(self.version, 6 | 9) {
            return Err(Error::unsupported(format!("tables of version {} are not created", self.version))
                .with_hint("the versions are 6, which every Hudi release from 0.14 on writes, and 9"));
        }
        if self.version < 8 && self.ordering_fields.len() > 1 {
            return Err(Error::unsupported("table version 6 orders by one column")
                .with_hint("give one ordering column, or create a table of version 9"));
        }
        if let Some(key) = OWN_KEYS.iter().find(|k| self.properties.contains_key(**k)) {
            return Err(Error::invalid(format!("{key} is not set as a property of a new table"))
                .in_column(*key)
                .with_hint("it follows from the other options"));
        }
        for columns in [&self.record_key, &self.partition_fields, &self.ordering_fields] {
            let mut seen = HashSet::new();
            for column in columns {
                if column.trim().is_empty() || column.contains(',') {
                    return Err(Error::invalid(format!("{column:?} is no column name")));
                }
                if !seen.insert(column) {
                    return Err(Error::invalid(format!("column {column:?} is given twice")).in_column(column));
                }
            }
        }
        self.check_schema()
    }

    /// The columns that are named must be in the schema, if there is one.
    fn check_schema(&self) -> Result<()> {
        let Some(text) = &self.schema else { return Ok(()) };
        let schema: serde_json::Value =
            serde_json::from_str(text).map_err(|e| Error::invalid(format!("the schema is not JSON: {e}")))?;
        let Some(fields) = schema.get("fields").and_then(|f| f.as_array()) else {
            return Err(Error::invalid("the schema is no Avro record: it has no fields"));
        };
        let names: HashSet<&str> = fields.iter().filter_map(|f| f.get("name")?.as_str()).collect();
        let partition_fields = self.partition_fields.iter().map(|f| column_of(f));
        let named = self.record_key.iter().chain(&self.ordering_fields).map(String::as_str).chain(partition_fields);
        for column in named {
            // Of a nested column only the outermost is looked for.
            let outer = column.split('.').next().unwrap_or(column);
            if !names.contains(column) && !names.contains(outer) {
                return Err(Error::invalid(format!("column {column:?} is not in the schema")).in_column(column));
            }
        }
        Ok(())
    }

    /// The entries that name columns.
    pub(super) fn fields(&self) -> Result<Vec<(&'static str, String)>> {
        let mut entries = Vec::new();
        if !self.record_key.is_empty() {
            entries.push(("hoodie.table.recordkey.fields", self.record_key.join(",")));
        }
        if !self.partition_fields.is_empty() {
            // Version 6 has no place for the types of a custom key generator.
            let kept: Vec<&str> = match self.version >= 8 {
                true => self.partition_fields.iter().map(String::as_str).collect(),
                false => self.partition_fields.iter().map(|f| column_of(f)).collect(),
            };
            entries.push(("hoodie.table.partition.fields", kept.join(",")));
        }
        if !self.ordering_fields.is_empty() {
            let key = if self.version >= 9 { "hoodie.table.ordering.fields" } else { "hoodie.table.precombine.field" };
            entries.push((key, self.ordering_fields.join(",")));
        }
        Ok(entries)
    }

    /// The class up to version 7, the type from 8 on; a class that is nobody's stays one.
    pub(super) fn key_generator_entry(&self) -> Vec<(&'static str, String)> {
        const CLASS: &str = "hoodie.table.keygenerator.class";
        const TYPE: &str = "hoodie.table.keygenerator.type";
        let word = self.key_generator.clone().unwrap_or_else(|| self.usual_generator().to_owned());
        let is = |(name, kind, class): &&(&str, &str, &str)| {
            let word = word.strip_prefix(PACKAGE).unwrap_or(&word);
            word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(kind) || word == *class
        };
        match (GENERATORS.iter().find(is), self.version >= 8) {
            (Some((_, kind, _)), true) => vec![(TYPE, (*kind).to_owned())],
            (Some((_, _, class)), false) => vec![(CLASS, format!("{PACKAGE}{class}"))],
            (None, true) => vec![(TYPE, "USER_PROVIDED".to_owned()), (CLASS, word)],
            (None, false) => vec![(CLASS, word)],
        }
    }

    fn usual_generator(&self) -> &'static str {
        match (self.partition_fields.len(), self.record_key.len()) {
            (0, _) => "non_partitioned",
            (1, 0 | 1) => "simple",
            _ => "complex",
        }
    }
}

/// A partition field without the type that a custom key generator gives it.
fn column_of(field: &str) -> &str {
    field.split_once(':').map_or(field, |(name, _)| name)
}
