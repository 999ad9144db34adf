//! [`Record`] to Avro JSON, in the form that Java's `Schema.toString` has.
//!
//! A named type is written out where it first stands and named after that. Two types of one name that differ cannot be
//! written, and are refused.

use super::types::{Field, Record, Slot, Type};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// The JSON text.
pub(crate) fn render(record: &Record) -> Result<String> {
    let mut renderer = Renderer { out: String::with_capacity(record.fields.len() * 64), named: HashMap::new() };
    renderer.record(record, "")?;
    Ok(renderer.out)
}

struct Renderer {
    out: String,
    named: HashMap<String, Type>,
}

impl Renderer {
    fn slot(&mut self, slot: &Slot, namespace: &str) -> Result<()> {
        match (slot.nullable, slot.null_last) {
            (false, _) => self.ty(&slot.ty, namespace),
            (true, false) => {
                self.out.push_str("[\"null\",");
                self.ty(&slot.ty, namespace)?;
                self.out.push(']');
                Ok(())
            }
            (true, true) => {
                self.out.push('[');
                self.ty(&slot.ty, namespace)?;
                self.out.push_str(",\"null\"]");
                Ok(())
            }
        }
    }

    fn ty(&mut self, ty: &Type, namespace: &str) -> Result<()> {
        let simple = match ty {
            Type::Boolean => "\"boolean\"",
            Type::Int => "\"int\"",
            Type::Long => "\"long\"",
            Type::Float => "\"float\"",
            Type::Double => "\"double\"",
            Type::Bytes => "\"bytes\"",
            Type::String => "\"string\"",
            Type::Uuid => r#"{"type":"string","logicalType":"uuid"}"#,
            Type::Date => r#"{"type":"int","logicalType":"date"}"#,
            Type::TimeMillis => r#"{"type":"int","logicalType":"time-millis"}"#,
            Type::TimeMicros => r#"{"type":"long","logicalType":"time-micros"}"#,
            Type::TimestampMillis => r#"{"type":"long","logicalType":"timestamp-millis"}"#,
            Type::TimestampMicros => r#"{"type":"long","logicalType":"timestamp-micros"}"#,
            Type::LocalTimestampMillis => r#"{"type":"long","logicalType":"local-timestamp-millis"}"#,
            Type::LocalTimestampMicros => r#"{"type":"long","logicalType":"local-timestamp-micros"}"#,
            _ => return self.complex(ty, namespace),
        };
        self.out.push_str(simple);
        Ok(())
    }

    fn complex(&mut self, ty: &Type, namespace: &str) -> Result<()> {
        match ty {
            Type::Decimal { precision, scale, fixed: None } => {
                self.push(&format!(
                    r#"{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}"#
                ));
            }
            Type::Decimal { precision, scale, fixed: Some((name, size)) } => {
                if self.begin("fixed", name, ty, namespace)? {
                    let rest =
                        format!(r#","size":{size},"logicalType":"decimal","precision":{precision},"scale":{scale}}}"#);
                    self.push(&rest);
                }
            }
            Type::Fixed(name, size) => {
                if self.begin("fixed", name, ty, namespace)? {
                    self.push(&format!(",\"size\":{size}}}"));
                }
            }
            Type::Enum(name, symbols) => {
                if self.begin("enum", name, ty, namespace)? {
                    self.push(",\"symbols\":[");
                    for (index, symbol) in symbols.iter().enumerate() {
                        self.push(if index > 0 { "," } else { "" });
                        self.text(symbol);
                    }
                    self.push("]}");
                }
            }
            Type::Array(items) => {
                self.push(r#"{"type":"array","items":"#);
                self.slot(items, namespace)?;
                self.push("}");
            }
            Type::Map(values) => {
                self.push(r#"{"type":"map","values":"#);
                self.slot(values, namespace)?;
                self.push("}");
            }
            Type::Record(record) => self.record(record, namespace)?,
            _ => return Err(Error::internal(format!("{ty} is no complex type"))),
        }
        Ok(())
    }

    fn record(&mut self, record: &Record, namespace: &str) -> Result<()> {
        if !self.begin("record", &record.name, &Type::Record(record.clone()), namespace)? {
            return Ok(());
        }
        let inner = record.name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
        self.push(",\"fields\":[");
        for (index, field) in record.fields.iter().enumerate() {
            self.push(if index > 0 { "," } else { "" });
            self.field(field, inner).map_err(|e| e.context(format!("field {:?}", field.name)))?;
        }
        self.push("]}");
        Ok(())
    }

    fn field(&mut self, field: &Field, namespace: &str) -> Result<()> {
        self.push("{\"name\":");
        self.text(&field.name);
        self.push(",\"type\":");
        self.slot(&field.slot, namespace)?;
        if let Some(doc) = &field.doc {
            self.push(",\"doc\":");
            self.text(doc);
        }
        if let Some(default) = &field.default {
            self.push(",\"default\":");
            self.push(&default.to_string());
        }
        self.push("}");
        Ok(())
    }

    /// Starts a named type; false if it was written before and only its name was put.
    fn begin(&mut self, kind: &str, name: &str, ty: &Type, namespace: &str) -> Result<bool> {
        let (own_namespace, simple) = name.rsplit_once('.').unwrap_or(("", name));
        match self.named.get(name) {
            Some(known) if known == ty => {
                self.text(if own_namespace == namespace { simple } else { name });
                return Ok(false);
            }
            Some(_) => {
                return Err(Error::unsupported(format!("two types named {name:?} that differ"))
                    .with_hint("rename one of the columns"));
            }
            None => drop(self.named.insert(name.to_owned(), ty.clone())),
        }
        self.push(&format!("{{\"type\":\"{kind}\",\"name\":"));
        self.text(simple);
        if own_namespace != namespace {
            self.push(",\"namespace\":");
            self.text(own_namespace);
        }
        Ok(true)
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(&serde_json::Value::from(text).to_string());
    }
}
