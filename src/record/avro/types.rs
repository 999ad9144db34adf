//! An Avro schema as a tree with its logical types, which rows need and [`crate::format::avro::Schema`] does not keep.
//!
//! References by name are followed, so that the tree has no cycles: a table's row cannot contain itself. The size of the tree
//! is bounded, since a few lines of references can stand for a tree that doubles at each level.

use crate::error::{Error, Result};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::Arc;

/// Most types that a row's schema may have once its references are followed.
const TYPES_MAX: usize = 100_000;
/// Deepest nesting of types.
const DEPTH_MAX: usize = 64;
/// Longest schema text accepted, bytes.
const TEXT_LEN_MAX: usize = 16 << 20;

/// A type of a row's schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Null,
    Boolean,
    /// 32 bits, and what they mean.
    Int(Logical),
    /// 64 bits, and what they mean.
    Long(Logical),
    Float,
    Double,
    Bytes(Logical),
    String,
    Fixed(usize, Logical),
    Enum(Vec<Arc<str>>),
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    Record(Vec<(Arc<str>, Type)>),
}

/// What a value means beyond its physical type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logical {
    None,
    Date,
    TimeMillis,
    TimeMicros,
    /// Since the epoch in UTC.
    TimestampMillis,
    TimestampMicros,
    /// Without a zone.
    LocalTimestampMillis,
    LocalTimestampMicros,
    Decimal {
        precision: u8,
        scale: i8,
    },
}

impl Type {
    /// Parses a row's schema: a record.
    pub fn parse_row(text: &str) -> Result<Vec<(Arc<str>, Type)>> {
        if text.len() > TEXT_LEN_MAX {
            return Err(Error::corrupt(format!("avro schema of {} bytes, more than {TEXT_LEN_MAX}", text.len())));
        }
        let json: Json = serde_json::from_str(text)
            .map_err(|e| Error::corrupt(format!("avro schema is not JSON: {e}")).with_source(e))?;
        let mut parser = Parser { named: HashMap::new(), left: TYPES_MAX };
        match parser.node(&json, "", 0)? {
            Type::Record(fields) => Ok(fields),
            Type::Union(branches) => {
                let record = branches.into_iter().find_map(|b| if let Type::Record(f) = b { Some(f) } else { None });
                record.ok_or_else(|| Error::corrupt("avro schema of rows is a union without a record"))
            }
            other => Err(Error::corrupt(format!("avro schema of rows is {}, not a record", other.name()))),
        }
    }

    /// What to call it in a message.
    pub fn name(&self) -> String {
        match self {
            Type::Null => "null".into(),
            Type::Boolean => "boolean".into(),
            Type::Int(logical) => format!("int{}", logical.suffix()),
            Type::Long(logical) => format!("long{}", logical.suffix()),
            Type::Float => "float".into(),
            Type::Double => "double".into(),
            Type::Bytes(logical) => format!("bytes{}", logical.suffix()),
            Type::String => "string".into(),
            Type::Fixed(size, logical) => format!("fixed({size}){}", logical.suffix()),
            Type::Enum(_) => "enum".into(),
            Type::Array(_) => "array".into(),
            Type::Map(_) => "map".into(),
            Type::Union(_) => "union".into(),
            Type::Record(_) => "record".into(),
        }
    }
}

impl Logical {
    fn suffix(self) -> String {
        match self {
            Logical::None => String::new(),
            other => format!(" {other:?}"),
        }
    }
}

struct Parser<'j> {
    named: HashMap<String, (&'j Map<String, Json>, String)>,
    left: usize,
}

impl<'j> Parser<'j> {
    fn node(&mut self, json: &'j Json, namespace: &str, depth: usize) -> Result<Type> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Error::unsupported(format!("avro schema of more than {TYPES_MAX} types once its references are followed"))
        })?;
        if depth > DEPTH_MAX {
            return Err(Error::unsupported(format!(
                "avro schema nested more than {DEPTH_MAX} deep, or a record that contains itself"
            )));
        }
        match json {
            Json::String(name) => self.reference(name, namespace, depth),
            Json::Array(branches) => {
                let branches = branches.iter().map(|b| self.node(b, namespace, depth + 1)).collect::<Result<_>>()?;
                Ok(Type::Union(branches))
            }
            Json::Object(object) => self.object(object, namespace, depth),
            other => Err(Error::corrupt(format!("avro schema: {other} stands where a type is expected"))),
        }
    }

    fn reference(&mut self, name: &str, namespace: &str, depth: usize) -> Result<Type> {
        if let Some(primitive) = primitive(name, Logical::None) {
            return Ok(primitive);
        }
        let found = self.named.get(&full_name(name, namespace)).or_else(|| self.named.get(name)).cloned();
        let (object, namespace) =
            found.ok_or_else(|| Error::corrupt(format!("avro schema: type {name:?} is not defined")))?;
        self.definition(object, &namespace, depth)
    }

    fn object(&mut self, object: &'j Map<String, Json>, namespace: &str, depth: usize) -> Result<Type> {
        match object.get("type") {
            Some(Json::String(kind)) => match kind.as_str() {
                "record" | "error" | "enum" | "fixed" => {
                    if let Some(name) = object.get("name").and_then(Json::as_str) {
                        let inner = own_namespace(object, namespace);
                        self.named.insert(full_name(name, &inner), (object, namespace.to_owned()));
                    }
                    self.definition(object, namespace, depth)
                }
                "array" => Ok(Type::Array(Box::new(self.node(member(object, "items")?, namespace, depth + 1)?))),
                "map" => Ok(Type::Map(Box::new(self.node(member(object, "values")?, namespace, depth + 1)?))),
                name => match primitive(name, logical(object)) {
                    Some(primitive) => Ok(primitive),
                    None => self.reference(name, namespace, depth + 1),
                },
            },
            // {"type": {"type": "string"}} and {"type": ["null", "int"]}.
            Some(inner) => self.node(inner, namespace, depth + 1),
            None => Err(Error::corrupt("avro schema: a type without \"type\"")),
        }
    }

    /// A named type, where it is defined or once more where it is referred to.
    fn definition(&mut self, object: &'j Map<String, Json>, namespace: &str, depth: usize) -> Result<Type> {
        match object.get("type").and_then(Json::as_str) {
            Some("enum") => {
                let symbols = member(object, "symbols")?.as_array().map(Vec::as_slice).unwrap_or_default();
                let symbols = symbols.iter().map(|s| s.as_str().map(Arc::from)).collect::<Option<Vec<_>>>();
                symbols.map(Type::Enum).ok_or_else(|| Error::corrupt("avro schema: an enum's symbol is not text"))
            }
            Some("fixed") => {
                let size = object.get("size").and_then(Json::as_u64).and_then(|s| i32::try_from(s).ok());
                let size = size.ok_or_else(|| Error::corrupt("avro schema: a fixed type without a size"))?;
                Ok(Type::Fixed(size as usize, logical(object)))
            }
            _ => self.record(object, namespace, depth),
        }
    }

    fn record(&mut self, object: &'j Map<String, Json>, namespace: &str, depth: usize) -> Result<Type> {
        let inner = own_namespace(object, namespace);
        let Some(Json::Array(list)) = object.get("fields") else {
            return Err(Error::corrupt("avro schema: a record without fields"));
        };
        let mut fields = Vec::with_capacity(list.len());
        for field in list {
            let field =
                field.as_object().ok_or_else(|| Error::corrupt("avro schema: a field that is not an object"))?;
            let name = field.get("name").and_then(Json::as_str);
            let name = name.ok_or_else(|| Error::corrupt("avro schema: a field without a name"))?;
            let node = match field.get("type") {
                // {"name": …, "type": "int", "logicalType": "date"} is what no writer should make and some do.
                Some(Json::String(kind)) if field.contains_key("logicalType") => {
                    primitive(kind, logical(field)).map_or_else(|| self.reference(kind, &inner, depth + 1), Ok)
                }
                Some(node) => self.node(node, &inner, depth + 1),
                None => Err(Error::corrupt("avro schema: a field without a type")),
            };
            fields.push((Arc::from(name), node.map_err(|e| e.context(format!("field {name:?}")))?));
        }
        Ok(Type::Record(fields))
    }
}

fn primitive(name: &str, logical: Logical) -> Option<Type> {
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" => Type::Int(logical),
        "long" => Type::Long(logical),
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes(logical),
        "string" => Type::String,
        _ => return None,
    })
}

/// As the specification has it, a logical type that makes no sense for its type is passed over.
fn logical(object: &Map<String, Json>) -> Logical {
    let kind = object.get("type").and_then(Json::as_str).unwrap_or_default();
    let named = object.get("logicalType").and_then(Json::as_str).unwrap_or_default();
    match (kind, named) {
        ("int", "date") => Logical::Date,
        ("int", "time-millis") => Logical::TimeMillis,
        ("long", "time-micros") => Logical::TimeMicros,
        ("long", "timestamp-millis") => Logical::TimestampMillis,
        ("long", "timestamp-micros") => Logical::TimestampMicros,
        ("long", "local-timestamp-millis") => Logical::LocalTimestampMillis,
        ("long", "local-timestamp-micros") => Logical::LocalTimestampMicros,
        ("bytes" | "fixed", "decimal") => {
            let number = |key: &str| object.get(key).and_then(Json::as_u64);
            let (precision, scale) = (number("precision").unwrap_or(0), number("scale").unwrap_or(0));
            if (1..=38).contains(&precision) && scale <= precision {
                Logical::Decimal { precision: precision as u8, scale: scale as i8 }
            } else {
                Logical::None
            }
        }
        _ => Logical::None,
    }
}

/// A name with a dot is full already; else the namespace goes before it.
fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

/// The namespace of a named type's own name and of the names inside it.
fn own_namespace(object: &Map<String, Json>, enclosing: &str) -> String {
    let name = object.get("name").and_then(Json::as_str).unwrap_or_default();
    if let Some((namespace, _)) = name.rsplit_once('.') {
        return namespace.to_owned();
    }
    object.get("namespace").and_then(Json::as_str).unwrap_or(enclosing).to_owned()
}

fn member<'j>(object: &'j Map<String, Json>, key: &str) -> Result<&'j Json> {
    object.get(key).ok_or_else(|| Error::corrupt(format!("avro schema: a type without {key:?}")))
}
