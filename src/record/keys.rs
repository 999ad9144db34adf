//! Record keys and partition paths, as Hudi's key generators make them.
//!
//! The invariant is that a key made here equals, byte for byte, the one that Java makes of the same values: a key that differs
//! would become a second row. What Java's text for a value is not certain of is refused.
//! Format: docs/format.md, "Keys and partitions".

mod calendar;
mod config;
mod pattern;
mod text;
mod timestamp;

#[cfg(test)]
mod tests;

use super::{Keyed, MergeRules, TableSchema};
use crate::error::{Error, Result};
use crate::format::partition_path::{DEFAULT_PARTITION, escape};
use crate::format::properties::TableConfig;
use crate::storage::TablePath;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use text::Text;
use timestamp::TimestampFormat;

/// What stands for a null part of a key of several fields.
const NULL_PART: &str = "__null__";
/// What stands for an empty part.
const EMPTY_PART: &str = "__empty__";
/// Distinct values of a batch's partition columns whose paths are kept.
const PATHS_KEPT_MAX: usize = 65_536;

/// Makes record keys and partition paths from the columns of a row. Cheap to clone.
#[derive(Clone, Debug)]
pub struct KeyGenerator(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    key_fields: Vec<String>,
    /// Keys are `field:value,field:value`; else the one field's value.
    composite: bool,
    partition_fields: Vec<String>,
    /// How each partition field's value is put; `None`: as it is.
    formats: Vec<Option<TimestampFormat>>,
    hive_style: bool,
    url_encode: bool,
    /// A date's dashes become slashes.
    slash_dates: bool,
    /// Timestamps as text rather than as numbers.
    timestamps_as_text: bool,
}

impl KeyGenerator {
    /// The generator that a table's properties name. `settings` are Hudi's write settings; `existing` is a record key that the
    /// table holds already: some releases put the field's name before the key of a complex generator with one field.
    ///
    /// Errors: `Unsupported` for generators and formats that are refused by name, `Invalid` for settings that contradict.
    pub fn new(table: &TableConfig, settings: &BTreeMap<String, String>, existing: Option<&str>) -> Result<Self> {
        config::build(table, settings, existing).map(|inner| KeyGenerator(Arc::new(inner)))
    }

    /// True if the answer hangs on what keys of the table look like: then `existing` must be given where there is any row.
    pub fn follows_existing(table: &TableConfig) -> bool {
        config::follows_existing(table)
    }

    /// The columns that the key is made of; dotted where nested.
    pub fn key_fields(&self) -> &[String] {
        &self.0.key_fields
    }

    /// The columns that the partition path is made of.
    pub fn partition_fields(&self) -> &[String] {
        &self.0.partition_fields
    }

    /// `Invalid` naming the column if the schema lacks one that the generator needs, or if its type makes no key.
    pub fn check(&self, schema: &TableSchema) -> Result<()> {
        for name in self.0.key_fields.iter().chain(&self.0.partition_fields) {
            let field = field_type(schema.arrow().fields(), name)?;
            text::check_type(&field).map_err(|e| e.context(format!("column {name:?}")))?;
        }
        Ok(())
    }

    /// The record key of each row; `first_row` numbers the rows for messages. `Invalid` names row and column.
    pub fn keys(&self, rows: &RecordBatch, first_row: u64) -> Result<StringArray> {
        let columns = self.0.key_fields.iter().map(|f| column(rows, f)).collect::<Result<Vec<_>>>()?;
        match (self.0.composite, columns.as_slice(), self.0.key_fields.as_slice()) {
            (false, [one], [name]) => self.plain_keys(one, name, first_row),
            _ => self.composite_keys(&columns, first_row),
        }
    }

    fn plain_keys(&self, values: &ArrayRef, name: &str, first_row: u64) -> Result<StringArray> {
        let refused = |row: usize, what: &str| {
            let number = first_row + row as u64 + 1;
            Error::invalid(format!("row {number}, column {name:?}: {what} record key")).at_row(number).in_column(name)
        };
        if let Some(nulls) = values.logical_nulls()
            && let Some(row) = nulls.iter().position(|valid| !valid)
        {
            return Err(refused(row, "null"));
        }
        // The values themselves, where they are text: nothing is copied.
        if let Some(strings) = values.as_string_opt::<i32>() {
            let empty = strings.offsets().windows(2).position(|w| matches!(w, [a, b] if a == b));
            return empty.map_or_else(|| Ok(strings.clone()), |row| Err(refused(row, "empty")));
        }
        let text = Text::of(values, self.0.timestamps_as_text).map_err(|e| e.context(format!("column {name:?}")))?;
        let mut keys = StringBuilder::with_capacity(values.len(), values.len() * 12);
        let mut key = String::new();
        for row in 0..values.len() {
            key.clear();
            text.push(row, &mut key)?;
            if key.is_empty() {
                return Err(refused(row, "empty"));
            }
            append(&mut keys, &key)?;
        }
        Ok(keys.finish())
    }

    fn composite_keys(&self, columns: &[ArrayRef], first_row: u64) -> Result<StringArray> {
        let mut parts = Vec::with_capacity(columns.len());
        for (values, name) in columns.iter().zip(&self.0.key_fields) {
            let text = Text::of(values, self.0.timestamps_as_text);
            parts.push((name, values.logical_nulls(), text.map_err(|e| e.context(format!("column {name:?}")))?));
        }
        let rows = columns.first().map_or(0, |c| c.len());
        let mut keys = StringBuilder::with_capacity(rows, rows * 24);
        let mut key = String::new();
        for row in 0..rows {
            key.clear();
            let mut blank = true;
            for (index, (name, nulls, text)) in parts.iter().enumerate() {
                key.push_str(if index > 0 { "," } else { "" });
                key.push_str(name);
                key.push(':');
                let start = key.len();
                if nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                    key.push_str(NULL_PART);
                    continue;
                }
                text.push(row, &mut key)?;
                if key.len() == start { key.push_str(EMPTY_PART) } else { blank = false }
            }
            if blank {
                let number = first_row + row as u64 + 1;
                let message =
                    format!("row {number}: the record key's columns {:?} are all null or empty", self.0.key_fields);
                return Err(Error::invalid(message).at_row(number).in_column(self.0.key_fields.join(",")));
            }
            append(&mut keys, &key)?;
        }
        Ok(keys.finish())
    }

    /// The partition path of each row. `Invalid` names row and column of a value that makes no path.
    pub fn partitions(&self, rows: &RecordBatch, first_row: u64) -> Result<StringArray> {
        let mut paths = StringBuilder::with_capacity(rows.num_rows(), rows.num_rows() * 8);
        if self.0.partition_fields.is_empty() {
            (0..rows.num_rows()).for_each(|_| paths.append_value(""));
            return Ok(paths.finish());
        }
        let arrays = self.0.partition_fields.iter().map(|f| column(rows, f)).collect::<Result<Vec<_>>>()?;
        let mut columns = Vec::new();
        for ((name, values), format) in self.0.partition_fields.iter().zip(&arrays).zip(&self.0.formats) {
            let text = Text::of(values, self.0.timestamps_as_text);
            let text = text.map_err(|e| e.context(format!("column {name:?}")))?;
            columns.push((name, values, text, format));
        }
        // Partitions are few: the path is worked out once for each combination of values.
        let mut known: HashMap<String, String> = HashMap::new();
        let mut raw = String::new();
        let mut last = String::new();
        let mut path = String::new();
        for row in 0..rows.num_rows() {
            raw.clear();
            for (_, values, text, _) in &columns {
                match values.is_null(row) {
                    true => raw.push('\u{1}'),
                    false => text.push(row, &mut raw)?,
                }
                raw.push('\0');
            }
            if raw != last || row == 0 {
                path = match known.get(&raw) {
                    Some(path) => path.clone(),
                    None => {
                        let number = first_row + row as u64 + 1;
                        let path =
                            self.path(&columns, row).map_err(|e| e.context(format!("row {number}")).at_row(number))?;
                        if known.len() < PATHS_KEPT_MAX {
                            known.insert(raw.clone(), path.clone());
                        }
                        path
                    }
                };
                last.clone_from(&raw);
            }
            append(&mut paths, &path)?;
        }
        Ok(paths.finish())
    }

    fn path(&self, columns: &[(&String, &ArrayRef, Text<'_>, &Option<TimestampFormat>)], row: usize) -> Result<String> {
        let mut path = String::new();
        for (index, (name, values, text, format)) in columns.iter().enumerate() {
            path.push_str(if index > 0 { "/" } else { "" });
            let mut value = String::new();
            match format {
                Some(format) => {
                    value = format.format(values, row).map_err(|e| e.context(format!("column {name:?}")))?
                }
                None if values.is_null(row) => {}
                None => text.push(row, &mut value)?,
            }
            if self.0.hive_style {
                path.push_str(name);
                path.push('=');
            }
            match (value.is_empty(), self.0.url_encode) {
                (true, _) => path.push_str(DEFAULT_PARTITION),
                (false, true) => path.push_str(&escape(&value)),
                (false, false) if self.0.slash_dates && columns.len() == 1 => path.push_str(&value.replace('-', "/")),
                (false, false) => path.push_str(&value),
            }
        }
        check_path(&path, &self.0.partition_fields)?;
        Ok(path)
    }

    /// Keys and partitions of rows that have the table's schema, and its delete marks by `rules`.
    pub fn apply(&self, rows: RecordBatch, rules: &MergeRules, first_row: u64) -> Result<Keyed> {
        let keys = self.keys(&rows, first_row)?;
        let partitions = self.partitions(&rows, first_row)?;
        let deletes = rules.deletes(&rows)?;
        Ok(Keyed { rows, keys, partitions, deletes })
    }
}

/// A folder that lies in the table and is none of Hudi's own.
fn check_path(path: &str, fields: &[String]) -> Result<()> {
    let refused = |why: String| {
        let error = Error::invalid(format!("column {}: {path:?} is no partition path: {why}", fields.join(", ")));
        Err(error.in_column(fields.join(",")).with_hint(
            "hoodie.datasource.write.partitionpath.urlencode=true, set when the table is created, escapes such values",
        ))
    };
    if let Err(error) = TablePath::parse(path) {
        return refused(error.message().to_owned());
    }
    match path.split('/').find(|c| c.starts_with('.')) {
        Some(hidden) => refused(format!("{hidden:?} would be hidden")),
        None => Ok(()),
    }
}

fn append(builder: &mut StringBuilder, value: &str) -> Result<()> {
    // Arrow counts text with 32 bits, and panics beyond.
    if builder.values_slice().len() + value.len() > i32::MAX as usize {
        return Err(Error::invalid("the keys of one batch exceed 2 GiB").with_hint("send smaller batches"));
    }
    builder.append_value(value);
    Ok(())
}

/// A column by its name, dotted where it is a field of a struct.
fn column(rows: &RecordBatch, name: &str) -> Result<ArrayRef> {
    if let Some(found) = rows.column_by_name(name) {
        return Ok(found.clone());
    }
    let mut parts = name.split('.');
    let first = parts.next().unwrap_or_default();
    let mut found = rows.column_by_name(first).cloned().ok_or_else(|| missing(name))?;
    for part in parts {
        let parent = found.as_struct_opt().ok_or_else(|| missing(name))?;
        let child = parent.column_by_name(part).cloned().ok_or_else(|| missing(name))?;
        let hide = parent.nulls().map(|n| arrow::array::BooleanArray::new(!n.inner(), None));
        found = match hide {
            None => child,
            Some(hide) => arrow::compute::nullif(&child, &hide).map_err(|e| Error::internal(e.to_string()))?,
        };
    }
    Ok(found)
}

fn field_type(fields: &arrow::datatypes::Fields, name: &str) -> Result<DataType> {
    if let Some((_, field)) = fields.find(name) {
        return Ok(field.data_type().clone());
    }
    let mut fields = fields.clone();
    let mut found: Option<Arc<Field>> = None;
    for part in name.split('.') {
        let field = fields.find(part).map(|(_, f)| f.clone()).ok_or_else(|| missing(name))?;
        if let DataType::Struct(inner) = field.data_type() {
            fields = inner.clone();
        }
        found = Some(field);
    }
    found.map(|f| f.data_type().clone()).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Error {
    Error::invalid(format!("column {name:?}, of which keys or partitions are made, is missing")).in_column(name)
}
