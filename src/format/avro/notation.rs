//! Hudi's own records in a short notation, as docs/format.md lists them; expanded to Avro's JSON where it is embedded.
//!
//! ```text
//! T?      a union of null and T, null by default        [T]   an array        Name   another record, defined
//! T|null  a union of T and null                         {T}   a map                  where it is first used
//! ```
//!
//! A record is a list of `name: type` lines, each with `= default` where Hudi has one.

use super::schema::Schema;
use super::writer::Writer;
use super::{Encoder, container};
use crate::error::{Error, Result};
use std::collections::HashSet;
use std::fmt::Write;

/// Hudi's namespace of the records of its timeline.
const NAMESPACE: &str = "org.apache.hudi.avro.model";

/// A record's name and its fields in the short notation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition {
    /// The record's name.
    pub name: &'static str,
    /// `name: type` lines.
    pub fields: &'static str,
}

/// A record of the timeline, ready to be written: its schema's text and the schema.
#[derive(Debug)]
pub struct Model {
    text: String,
    schema: Schema,
}

impl Model {
    /// Expands the record `name` of `definitions`.
    pub(crate) fn new(name: &str, definitions: &[Definition]) -> Result<Model> {
        let mut expansion = Expansion { definitions, seen: HashSet::new(), out: String::new() };
        expansion.named(name)?;
        let text = expansion.out;
        let schema = Schema::parse(&text)?;
        Ok(Model { text, schema })
    }

    /// The schema's JSON text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// A container file of one record, whose fields `fill` writes: what Hudi keeps in an instant's file.
    pub fn container(&self, fill: impl for<'s> FnMut(&'s str, &mut Writer<'s, '_>) -> Result<()>) -> Result<Vec<u8>> {
        Ok(container::of_records(&self.text, 1, &self.datum(fill)?))
    }

    /// The bare bytes of one record.
    pub fn datum(&self, fill: impl for<'s> FnMut(&'s str, &mut Writer<'s, '_>) -> Result<()>) -> Result<Vec<u8>> {
        let mut out = Encoder::new();
        Writer::new(&self.schema, &mut out).record(fill)?;
        Ok(out.into_bytes())
    }
}

struct Expansion<'d> {
    definitions: &'d [Definition],
    seen: HashSet<String>,
    out: String,
}

impl Expansion<'_> {
    /// A record: its definition at the first mention, its name afterwards.
    fn named(&mut self, name: &str) -> Result<()> {
        let found = self.definitions.iter().find(|d| d.name == name);
        let definition = *found.ok_or_else(|| Error::internal(format!("record {name:?} is not defined")))?;
        if !self.seen.insert(name.to_owned()) {
            return self.push(format_args!("\"{name}\""));
        }
        let space = if self.seen.len() == 1 { format!(",\"namespace\":\"{NAMESPACE}\"") } else { String::new() };
        self.push(format_args!("{{\"type\":\"record\",\"name\":\"{name}\"{space},\"fields\":["))?;
        let lines = definition.fields.lines().map(str::trim).filter(|l| !l.is_empty());
        for (place, line) in lines.enumerate() {
            if place > 0 {
                self.push(format_args!(","))?;
            }
            self.field(line)?;
        }
        self.push(format_args!("]}}"))
    }

    fn field(&mut self, line: &str) -> Result<()> {
        let (head, default) = match line.split_once(" = ") {
            Some((head, default)) => (head, Some(default)),
            None => (line, None),
        };
        let (name, kind) =
            head.split_once(": ").ok_or_else(|| Error::internal(format!("{line:?} is no field of a record")))?;
        let default = default.or(kind.ends_with('?').then_some("null"));
        self.push(format_args!("{{\"name\":\"{name}\",\"type\":"))?;
        self.kind(kind)?;
        match default {
            Some(default) => self.push(format_args!(",\"default\":{default}}}")),
            None => self.push(format_args!("}}")),
        }
    }

    fn kind(&mut self, kind: &str) -> Result<()> {
        let inner = |open: char, close: char| kind.strip_prefix(open).and_then(|k| k.strip_suffix(close));
        if let Some(value) = kind.strip_suffix('?') {
            return self.around("[\"null\",", value, "]");
        }
        if let Some(value) = kind.strip_suffix("|null") {
            return self.around("[", value, ",\"null\"]");
        }
        if let Some(items) = inner('[', ']') {
            return self.around("{\"type\":\"array\",\"items\":", items, "}");
        }
        if let Some(values) = inner('{', '}') {
            return self.around("{\"type\":\"map\",\"values\":", values, ",\"avro.java.string\":\"String\"}");
        }
        match kind {
            // Java decodes some of these records by the schema beside them, and takes their texts for its own strings.
            "string" => self.push(format_args!("{{\"type\":\"string\",\"avro.java.string\":\"String\"}}")),
            "long" | "int" | "boolean" | "double" | "bytes" => self.push(format_args!("\"{kind}\"")),
            name => self.named(name),
        }
    }

    fn around(&mut self, before: &str, kind: &str, after: &str) -> Result<()> {
        self.out.push_str(before);
        self.kind(kind)?;
        self.out.push_str(after);
        Ok(())
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) -> Result<()> {
        self.out.write_fmt(text).map_err(|e| Error::internal(e.to_string()))
    }
}
