//! The contents of Avro and delete blocks.
//!
//! ```text
//! avro:   i32 version (1 to 3) | i32 records, each: i32 length | Avro value of the header's schema
//! delete: i32 version (3) | i32 length | Avro value of HoodieDeleteRecordList (before 3: Kryo, read only if empty)
//! ```

use crate::error::{Error, Result};
use crate::format::avro::{Cursor, Schema, Value};
use crate::format::input::Input;
use std::sync::OnceLock;

/// The records of an Avro block. Ends after the first failure.
pub fn avro_records(content: &[u8]) -> Result<impl Iterator<Item = Result<&[u8]>>> {
    let mut input = Input::new(content);
    let version = input.i32()?;
    if !(1..=3).contains(&version) {
        return Err(Error::unsupported(format!("avro block of version {version}")));
    }
    let mut left = input.i32()?;
    Ok(std::iter::from_fn(move || {
        if left <= 0 {
            return None;
        }
        left -= 1;
        let record = input.i32().and_then(|len| input.take_signed(i64::from(len)));
        if record.is_err() {
            left = 0;
        }
        Some(record)
    }))
}

/// Visits the keys that a delete block deletes, each with its partition where that is written.
pub fn delete_keys(content: &[u8], mut visit: impl FnMut(&str, Option<&str>) -> Result<()>) -> Result<()> {
    visit_deletes(content, |key, partition, _| visit(key, partition))
}

/// Visits the deletes of a delete block: key, partition where that is written, and ordering value: null, or a record of one
/// field, which is named for its kind (`int`, `long`, `decimal`, `list`, …).
pub fn deletes(content: &[u8], mut visit: impl FnMut(&str, Option<&str>, Value) -> Result<()>) -> Result<()> {
    visit_deletes(content, |key, partition, ordering| visit(key, partition, ordering))
}

fn visit_deletes(content: &[u8], mut visit: impl FnMut(&str, Option<&str>, Value) -> Result<()>) -> Result<()> {
    let mut input = Input::new(content);
    match input.i32()? {
        3 => {}
        // Metadata tables of table version 5 and before begin with one that deletes nothing.
        1 | 2 if is_empty_kryo_array(input.rest()) => return Ok(()),
        version @ (1 | 2) => {
            return Err(Error::unsupported(format!("delete block of version {version}, serialized with Kryo"))
                .with_hint("compact the table with Hudi 0.14 or later"));
        }
        version => return Err(Error::unsupported(format!("delete block of version {version}"))),
    }
    let len = input.i32()?;
    let mut cursor = Cursor::new(schema()?, input.take_signed(i64::from(len))?);
    cursor.record(|_, list| {
        list.array(|item| {
            let (mut key, mut partition, mut ordering) = (None, None, Value::Null);
            item.record(|field, value| {
                match field {
                    "recordKey" => key = value.str()?,
                    "partitionPath" => partition = value.str()?,
                    "orderingVal" => ordering = value.value()?,
                    _ => {}
                }
                Ok(())
            })?;
            visit(key.ok_or_else(|| Error::corrupt("a delete without a key"))?, partition, ordering)
        })
        .map(drop)
    })?;
    cursor.finish()
}

/// True for Kryo's form of an array without elements: the class by its name, whose last byte has the high bit set, a
/// reference mark, and the length plus one.
fn is_empty_kryo_array(bytes: &[u8]) -> bool {
    let Some(named) = bytes.get(4..).and_then(|b| b.strip_prefix(&[1, 0])) else { return false };
    let end = named.iter().position(|b| *b >= 0x80);
    let Some((class, rest)) = end.and_then(|end| named.split_at_checked(end + 1)) else { return false };
    class.starts_with(b"[Lorg.apache.hudi.") && rest == [1, 1]
}

/// A delete block carries no schema of its own: the branches of the ordering value are fixed by their order.
fn schema() -> Result<&'static Schema> {
    static SCHEMA: OnceLock<Result<Schema>> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::parse(&schema_text())).as_ref().map_err(Error::duplicate)
}

fn schema_text() -> String {
    // The field of every wrapper is `value` to Java; its name is not written, and tells us which wrapper it is.
    let scalars = [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "bytes"),
        ("string", "string"),
        ("date", "int"),
        ("decimal", "bytes"),
        ("time", "long"),
        ("timestamp", "long"),
    ];
    let wrapper = |i: usize, (name, of): (&str, &str)| {
        format!(r#"{{"type": "record", "name": "Wrapper{i}", "fields": [{{"name": "{name}", "type": "{of}"}}]}}"#)
    };
    let wrappers: Vec<String> = scalars.iter().enumerate().map(|(i, of)| wrapper(i, *of)).collect();
    let names: Vec<String> = (0..scalars.len()).map(|i| format!("\"Wrapper{i}\"")).collect();
    // Several ordering fields: an array of the same, and of LocalDateWrapper.
    let array = format!(
        r#"{{"type": "record", "name": "ArrayWrapper", "fields": [{{"name": "list",
            "type": ["null", {{"type": "array", "items": ["null", {}, {}]}}]}}]}}"#,
        names.join(", "),
        wrapper(scalars.len(), ("date", "int"))
    );
    format!(
        r#"{{"type": "record", "name": "HoodieDeleteRecordList", "fields": [{{"name": "deleteRecordList", "type":
            {{"type": "array", "items": {{"type": "record", "name": "HoodieDeleteRecord", "fields": [
                {{"name": "recordKey", "type": ["null", "string"]}},
                {{"name": "partitionPath", "type": ["null", "string"]}},
                {{"name": "orderingVal", "type": ["null", {}, {array}]}}]}}}}}}]}}"#,
        wrappers.join(", ")
    )
}
