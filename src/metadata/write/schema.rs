//! [`RecordFormat`]: the Avro schema of the metadata table's records, as each table version has it.
//!
//! Hudi added fields over time, always at the end of a record or a union; a table is written with the schema that the release
//! of its version wrote, so that every reader of that version knows all of it. Texts leave out documentation: what counts
//! is names, order, types and defaults.

use crate::error::{Error, Result};
use crate::format::avro::Schema;
use crate::format::properties::Version;
use std::sync::{Arc, OnceLock};

/// The generation of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::metadata) enum RecordFormat {
    /// Table version 6 and before.
    V6,
    /// Table version 8: tight bounds, secondary indexes.
    V8,
    /// Table version 9: typed values of column statistics.
    V9,
}

impl RecordFormat {
    const ALL: [RecordFormat; 3] = [RecordFormat::V6, RecordFormat::V8, RecordFormat::V9];

    /// The format of a table version.
    pub fn of(version: Version) -> RecordFormat {
        match version.code() {
            0..=7 => RecordFormat::V6,
            8 => RecordFormat::V8,
            _ => RecordFormat::V9,
        }
    }

    /// The schema as it is written to files.
    pub fn text(self) -> &'static str {
        static TEXTS: OnceLock<[String; 3]> = OnceLock::new();
        let [v6, v8, v9] = TEXTS.get_or_init(|| RecordFormat::ALL.map(|f| text(f, true)));
        match self {
            RecordFormat::V6 => v6,
            RecordFormat::V8 => v8,
            RecordFormat::V9 => v9,
        }
    }

    /// The schema as it stands in the metadata of commits: without meta columns.
    pub fn commit_text(self) -> &'static str {
        static TEXTS: OnceLock<[String; 3]> = OnceLock::new();
        let [v6, v8, v9] = TEXTS.get_or_init(|| RecordFormat::ALL.map(|f| text(f, false)));
        match self {
            RecordFormat::V6 => v6,
            RecordFormat::V8 => v8,
            RecordFormat::V9 => v9,
        }
    }

    /// The schema, parsed.
    pub fn schema(self) -> Result<Arc<Schema>> {
        static SCHEMAS: OnceLock<Result<[Arc<Schema>; 3]>> = OnceLock::new();
        let parse = |format: RecordFormat| Schema::parse(format.text()).map(Arc::new);
        let parsed =
            SCHEMAS.get_or_init(|| Ok([parse(RecordFormat::V6)?, parse(RecordFormat::V8)?, parse(RecordFormat::V9)?]));
        let [v6, v8, v9] = parsed.as_ref().map_err(Error::duplicate)?;
        Ok(match self {
            RecordFormat::V6 => v6,
            RecordFormat::V8 => v8,
            RecordFormat::V9 => v9,
        }
        .clone())
    }
}

const STRING: &str = r#"{"type":"string","avro.java.string":"String"}"#;

fn text(format: RecordFormat, with_meta: bool) -> String {
    let meta = ["commit_time", "commit_seqno", "record_key", "partition_path", "file_name"]
        .map(|name| optional(&format!("_hoodie_{name}"), "\"string\""));
    let mut fields: Vec<String> = if with_meta { meta.into() } else { Vec::new() };
    fields.push(field("key", STRING));
    fields.push(field("type", "\"int\""));
    fields.push(field("filesystemMetadata", &format!(r#"["null",{}]"#, files())));
    fields.push(optional("BloomFilterMetadata", &bloom_filter()));
    fields.push(optional("ColumnStatsMetadata", &column_stats(format)));
    fields.push(optional("recordIndexMetadata", &record_index(format)));
    if format >= RecordFormat::V8 {
        let secondary = record("HoodieSecondaryIndexInfo", &[field("isDeleted", "\"boolean\"")]);
        fields.push(optional("SecondaryIndexMetadata", &secondary));
    }
    let fields = fields.join(",");
    format!(
        r#"{{"type":"record","name":"HoodieMetadataRecord","namespace":"org.apache.hudi.avro.model","fields":[{fields}]}}"#
    )
}

fn files() -> String {
    let info = record("HoodieMetadataFileInfo", &[field("size", "\"long\""), field("isDeleted", "\"boolean\"")]);
    format!(r#"{{"type":"map","values":{info},"avro.java.string":"String"}}"#)
}

fn bloom_filter() -> String {
    let deleted = field("isDeleted", "\"boolean\"");
    let fields = [field("type", STRING), field("timestamp", STRING), field("bloomFilter", "\"bytes\""), deleted];
    record("HoodieMetadataBloomFilter", &fields)
}

fn column_stats(format: RecordFormat) -> String {
    let (declared, named) = wrappers(format);
    let count = |name: &str| optional(name, "\"long\"");
    let mut fields = vec![optional("fileName", STRING), optional("columnName", STRING)];
    fields.push(with_default("minValue", &format!("[\"null\",{declared}]"), "null"));
    fields.push(with_default("maxValue", &format!("[\"null\",{named}]"), "null"));
    fields.extend(["valueCount", "nullCount", "totalSize", "totalUncompressedSize"].map(count));
    fields.push(field("isDeleted", "\"boolean\""));
    if format >= RecordFormat::V8 {
        fields.push(with_default("isTightBound", "\"boolean\"", "false"));
    }
    if format >= RecordFormat::V9 {
        let info = [field("typeOrdinal", "\"int\""), optional("additionalInfo", STRING)];
        fields.push(optional("valueType", &record("HoodieValueTypeInfo", &info)));
    }
    record("HoodieMetadataColumnStats", &fields)
}

/// The records that bounds are wrapped in, declared, and by name alone; in the order of the union's branches.
fn wrappers(format: RecordFormat) -> (String, String) {
    let decimal = r#"{"type":"bytes","logicalType":"decimal","precision":30,"scale":15}"#;
    let time = r#"{"type":"long","logicalType":"time-micros"}"#;
    let mut scalars = vec![
        ("BooleanWrapper", "\"boolean\""),
        ("IntWrapper", "\"int\""),
        ("LongWrapper", "\"long\""),
        ("FloatWrapper", "\"float\""),
        ("DoubleWrapper", "\"double\""),
        ("BytesWrapper", "\"bytes\""),
        ("StringWrapper", STRING),
        ("DateWrapper", "\"int\""),
        ("DecimalWrapper", decimal),
        ("TimeMicrosWrapper", time),
        ("TimestampMicrosWrapper", "\"long\""),
    ];
    if format >= RecordFormat::V8 {
        scalars.push(("LocalDateWrapper", "\"int\""));
    }
    let mut declared: Vec<String> = scalars.iter().map(|(name, of)| record(name, &[field("value", of)])).collect();
    let mut named: Vec<String> = scalars.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    if format >= RecordFormat::V9 {
        let items = format!(r#"{{"type":"array","items":["null",{}]}}"#, named.join(","));
        declared.push(record("ArrayWrapper", &[optional("wrappedValues", &items)]));
        named.push("\"ArrayWrapper\"".to_owned());
    }
    (declared.join(","), named.join(","))
}

fn record_index(format: RecordFormat) -> String {
    let (text, long) = (|name: &str| optional(name, STRING), |name: &str| optional(name, "\"long\""));
    let mut fields = vec![text("partitionName"), long("fileIdHighBits"), long("fileIdLowBits")];
    fields.extend([optional("fileIndex", "\"int\""), text("fileId"), long("instantTime")]);
    fields.push(with_default("fileIdEncoding", "\"int\"", "0"));
    if format >= RecordFormat::V8 {
        fields.push(long("position"));
    }
    record("HoodieRecordIndexInfo", &fields)
}

fn record(name: &str, fields: &[String]) -> String {
    format!(r#"{{"type":"record","name":"{name}","fields":[{}]}}"#, fields.join(","))
}

fn field(name: &str, of: &str) -> String {
    format!(r#"{{"name":"{name}","type":{of}}}"#)
}

fn with_default(name: &str, of: &str, default: &str) -> String {
    format!(r#"{{"name":"{name}","type":{of},"default":{default}}}"#)
}

fn optional(name: &str, of: &str) -> String {
    with_default(name, &format!("[\"null\",{of}]"), "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_parses_and_grows_from_the_one_before() {
        let fields = |f: RecordFormat| f.schema().unwrap().field_names().map(str::to_owned).collect::<Vec<_>>();
        let [v6, v8, v9] = RecordFormat::ALL.map(fields);
        assert_eq!(v6.last().unwrap(), "recordIndexMetadata");
        assert_eq!(v8[..v6.len()], v6);
        assert_eq!(v8, v9);
        assert!(RecordFormat::V9.text().len() < 5000, "every log block repeats it");
    }
}
