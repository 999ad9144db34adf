//! Avro JSON to [`Record`].
//!
//! References to named types are replaced by what they name, so that the result is a tree; records that contain themselves,
//! and schemas that grow beyond bounds on the way, are refused. Unknown logical types count as their base type, as Avro has it,
//! but those that Hudi 1.2 adds (`variant`, `vector`, `blob`) and nanoseconds change the meaning of values and are refused.

use super::types::{Field, Record, Slot, Type};
use crate::error::{Error, Result};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

/// Longest text, bytes.
const TEXT_LEN_MAX: usize = 16 << 20;
/// Most types of one schema, references counted each time.
const TYPES_MAX: usize = 200_000;
/// Deepest nesting. Arrow, Parquet and Java all walk schemas by recursion.
const DEPTH_MAX: usize = 64;
/// Most digits of a decimal: Spark's limit.
const PRECISION_MAX: u64 = 38;
/// Most bytes of a decimal: what its digits need, and what Arrow reads.
const DECIMAL_BYTES_MAX: usize = 16;

/// Parses the schema of a record.
pub(crate) fn parse(text: &str) -> Result<Record> {
    if text.len() > TEXT_LEN_MAX {
        return Err(Error::invalid(format!("a schema of {} bytes, more than {TEXT_LEN_MAX}", text.len())));
    }
    let json: Json = serde_json::from_str(text)
        .map_err(|e| Error::invalid(format!("a schema that is not JSON: {e}")).with_source(e))?;
    let mut parser = Parser { named: HashMap::new(), open: Vec::new(), types: 0 };
    match parser.slot(&json, "", 0)? {
        Slot { ty: Type::Record(record), nullable: false, .. } => Ok(record),
        other => Err(Error::invalid(format!("a table's schema is a record, not {}", other.ty))),
    }
}

struct Parser {
    named: HashMap<String, Type>,
    /// Records whose fields are being read.
    open: Vec<String>,
    types: usize,
}

impl Parser {
    fn slot(&mut self, json: &Json, namespace: &str, depth: usize) -> Result<Slot> {
        let Json::Array(branches) = json else { return Ok(Slot::required(self.ty(json, namespace, depth)?)) };
        let is_null = |b: &&Json| b.as_str() == Some("null");
        let null_last = branches.first().is_some_and(|b| !is_null(&b));
        let others: Vec<&Json> = branches.iter().filter(|b| !is_null(b)).collect();
        match others.as_slice() {
            [one] if one.is_array() => Err(Error::invalid("a union directly in a union")),
            [one] => {
                let nullable = branches.len() > 1;
                Ok(Slot { ty: self.ty(one, namespace, depth)?, nullable, null_last: null_last && nullable })
            }
            [] => Err(Error::unsupported("a type that is always null")),
            _ => Err(Error::unsupported("a union of several types")
                .with_hint("only unions of null and one type can be columns of a table")),
        }
    }

    fn ty(&mut self, json: &Json, namespace: &str, depth: usize) -> Result<Type> {
        self.types += 1;
        if depth > DEPTH_MAX || self.types > TYPES_MAX {
            return Err(Error::unsupported(format!("a schema of more than {DEPTH_MAX} levels or {TYPES_MAX} types")));
        }
        match json {
            Json::String(name) => self.reference(name, namespace, depth),
            Json::Object(object) => self.object(object, namespace, depth),
            other => Err(Error::invalid(format!("{other} stands where a type is expected"))),
        }
    }

    fn reference(&mut self, name: &str, namespace: &str, depth: usize) -> Result<Type> {
        if let Some(primitive) = primitive(name) {
            return Ok(primitive);
        }
        let full = full_name(name, namespace);
        let full = if self.named.contains_key(&full) || self.open.contains(&full) { full } else { name.to_owned() };
        if self.open.contains(&full) {
            return Err(Error::unsupported(format!("record {full:?} contains itself")));
        }
        let found =
            self.named.get(&full).cloned().ok_or_else(|| Error::invalid(format!("type {name:?} is not defined")))?;
        let (types, levels) = extent(&found);
        self.types += types;
        match self.types > TYPES_MAX || depth + levels > DEPTH_MAX {
            true => Err(Error::unsupported(format!("a schema of more than {DEPTH_MAX} levels or {TYPES_MAX} types"))),
            false => Ok(found),
        }
    }

    fn object(&mut self, object: &Map<String, Json>, namespace: &str, depth: usize) -> Result<Type> {
        let logical = object.get("logicalType").and_then(Json::as_str);
        if let Some(
            refused @ ("variant" | "vector" | "blob" | "timestamp-nanos" | "local-timestamp-nanos" | "duration"),
        ) = logical
        {
            return Err(Error::unsupported(format!("logical type {refused:?}")));
        }
        let kind = match object.get("type") {
            Some(Json::String(kind)) => kind.as_str(),
            Some(inner @ Json::Object(_)) => return self.ty(inner, namespace, depth + 1),
            _ => return Err(Error::invalid("a type without \"type\"")),
        };
        let ty = match kind {
            "record" | "error" => return self.record(object, namespace, depth),
            "array" => Type::Array(Box::new(self.slot(member(object, "items")?, namespace, depth + 1)?)),
            "map" => Type::Map(Box::new(self.slot(member(object, "values")?, namespace, depth + 1)?)),
            "enum" => {
                let symbols = member(object, "symbols")?.as_array().map(Vec::as_slice).unwrap_or_default();
                let symbols = symbols.iter().filter_map(|s| s.as_str().map(str::to_owned)).collect();
                Type::Enum(own_name(object, namespace)?, symbols)
            }
            "fixed" => fixed(object, logical, namespace)?,
            other => logical_type(self.reference(other, namespace, depth)?, logical, object)?,
        };
        if let Type::Enum(name, _) | Type::Fixed(name, _) | Type::Decimal { fixed: Some((name, _)), .. } = &ty {
            self.named.insert(name.clone(), ty.clone());
        }
        Ok(ty)
    }

    fn record(&mut self, object: &Map<String, Json>, namespace: &str, depth: usize) -> Result<Type> {
        let name = own_name(object, namespace)?;
        let inner = name.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
        let Some(Json::Array(list)) = object.get("fields") else {
            return Err(Error::invalid(format!("record {name:?} without fields")));
        };
        self.open.push(name.clone());
        let mut fields: Vec<Field> = Vec::with_capacity(list.len());
        let mut seen = std::collections::HashSet::new();
        for field in list {
            let field_name = field.get("name").and_then(Json::as_str);
            let field_name = field_name.ok_or_else(|| Error::invalid(format!("a field of {name:?} without a name")))?;
            if !seen.insert(field_name) {
                return Err(Error::invalid(format!("field {field_name:?} stands twice in {name:?}")));
            }
            let ty = field.get("type").ok_or_else(|| Error::invalid(format!("field {field_name:?} without a type")))?;
            let slot = self.slot(ty, &inner, depth + 1).map_err(|e| e.context(format!("field {field_name:?}")))?;
            let doc = field.get("doc").and_then(Json::as_str).map(str::to_owned);
            fields.push(Field { name: field_name.to_owned(), slot, default: field.get("default").cloned(), doc });
        }
        self.open.pop();
        let ty = Type::Record(Record { name: name.clone(), fields });
        self.named.insert(name, ty.clone());
        Ok(ty)
    }
}

/// Types and levels of a tree.
fn extent(ty: &Type) -> (usize, usize) {
    match ty {
        Type::Array(slot) | Type::Map(slot) => {
            let (types, levels) = extent(&slot.ty);
            (types + 1, levels + 1)
        }
        Type::Record(record) => record.fields.iter().fold((1, 1), |(types, levels), field| {
            let (more, deep) = extent(&field.slot.ty);
            (types + more, levels.max(deep + 1))
        }),
        _ => (1, 0),
    }
}

fn primitive(name: &str) -> Option<Type> {
    Some(match name {
        "boolean" => Type::Boolean,
        "int" => Type::Int,
        "long" => Type::Long,
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "string" => Type::String,
        _ => return None,
    })
}

fn logical_type(base: Type, logical: Option<&str>, object: &Map<String, Json>) -> Result<Type> {
    Ok(match (base, logical) {
        (Type::Int, Some("date")) => Type::Date,
        (Type::Int, Some("time-millis")) => Type::TimeMillis,
        (Type::Long, Some("time-micros")) => Type::TimeMicros,
        (Type::Long, Some("timestamp-millis")) => Type::TimestampMillis,
        (Type::Long, Some("timestamp-micros")) => Type::TimestampMicros,
        (Type::Long, Some("local-timestamp-millis")) => Type::LocalTimestampMillis,
        (Type::Long, Some("local-timestamp-micros")) => Type::LocalTimestampMicros,
        (Type::String, Some("uuid")) => Type::Uuid,
        (Type::Bytes, Some("decimal")) => {
            let (precision, scale) = digits(object)?;
            Type::Decimal { precision, scale, fixed: None }
        }
        (base, _) => base,
    })
}

fn fixed(object: &Map<String, Json>, logical: Option<&str>, namespace: &str) -> Result<Type> {
    let name = own_name(object, namespace)?;
    let size = member(object, "size")?.as_u64().and_then(|s| i32::try_from(s).ok()).filter(|s| *s > 0);
    let size = size.ok_or_else(|| Error::invalid(format!("fixed {name:?} without a size")))? as usize;
    if logical != Some("decimal") {
        return Ok(Type::Fixed(name, size));
    }
    let (precision, scale) = digits(object)?;
    if size < super::types::decimal_bytes(precision) {
        return Err(Error::invalid(format!("{size} bytes do not hold a decimal of {precision} digits")));
    }
    if size > DECIMAL_BYTES_MAX {
        return Err(Error::unsupported(format!("a decimal of {size} bytes, more than {DECIMAL_BYTES_MAX}")));
    }
    Ok(Type::Decimal { precision, scale, fixed: Some((name, size)) })
}

fn digits(object: &Map<String, Json>) -> Result<(u8, u8)> {
    let precision = member(object, "precision")?.as_u64().unwrap_or(0);
    let scale = object.get("scale").map_or(Some(0), Json::as_u64);
    match scale {
        Some(scale) if (1..=PRECISION_MAX).contains(&precision) && scale <= precision => {
            Ok((precision as u8, scale as u8))
        }
        _ => Err(Error::unsupported(format!("a decimal of {precision} digits, scale {:?}", object.get("scale")))
            .with_hint("up to 38 digits are supported, and no negative scale")),
    }
}

fn member<'j>(object: &'j Map<String, Json>, key: &str) -> Result<&'j Json> {
    object.get(key).ok_or_else(|| Error::invalid(format!("a type without {key:?}")))
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

/// The full name of the type that the object defines.
fn own_name(object: &Map<String, Json>, enclosing: &str) -> Result<String> {
    let name = member(object, "name")?.as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(Error::invalid("a named type without a name"));
    }
    Ok(full_name(name, object.get("namespace").and_then(Json::as_str).unwrap_or(enclosing)))
}
