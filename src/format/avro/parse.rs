//! Parsing a schema's JSON.
//!
//! Lenient where strict parsers stop: names are not checked against Avro's alphabet, unknown attributes and bad defaults are
//! passed over, a name may be defined twice (the later definition counts from then on), a union may stand in a union. Hudi's
//! own `HoodieFSPermission` has a default that strict parsers refuse. Strict in what a decoder relies on: every reference
//! must resolve, and no record may contain itself without an array, a map or a union between.

use super::schema::{Field, Node, NodeId, Schema};
use crate::error::{Error, Result};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::Arc;

/// Longest schema text accepted, bytes. The widest tables that Hudi is used with have schemas of some hundred KiB.
const TEXT_LEN_MAX: usize = 16 << 20;

impl Schema {
    /// Parses a schema's JSON text.
    pub fn parse(text: &str) -> Result<Schema> {
        if text.len() > TEXT_LEN_MAX {
            return Err(Error::corrupt(format!("avro schema of {} bytes, more than {TEXT_LEN_MAX}", text.len())));
        }
        // serde_json stops at 128 levels, which bounds the recursion of `Parser::node` too.
        let json: Json = serde_json::from_str(text)
            .map_err(|e| Error::corrupt(format!("avro schema is not JSON: {e}")).with_source(e))?;
        let mut parser = Parser::default();
        let root = parser.node(&json, "").map_err(|e| e.context("avro schema"))?;
        let schema = Schema { nodes: parser.nodes, root };
        refuse_endless_records(&schema)?;
        Ok(schema)
    }
}

#[derive(Default)]
struct Parser {
    nodes: Vec<Node>,
    names: HashMap<String, NodeId>,
}

impl Parser {
    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        (self.nodes.len() - 1) as NodeId
    }

    fn node(&mut self, json: &Json, namespace: &str) -> Result<NodeId> {
        match json {
            Json::String(name) => self.reference(name, namespace),
            Json::Array(branches) => {
                let branches = branches.iter().map(|b| self.node(b, namespace)).collect::<Result<_>>()?;
                Ok(self.push(Node::Union(branches)))
            }
            Json::Object(object) => self.object(object, namespace),
            other => Err(Error::corrupt(format!("{other} stands where a type is expected"))),
        }
    }

    fn reference(&mut self, name: &str, namespace: &str) -> Result<NodeId> {
        if let Some(node) = primitive(name) {
            return Ok(self.push(node));
        }
        let full = full_name(name, namespace);
        let found = self.names.get(&full).or_else(|| self.names.get(name));
        found.copied().ok_or_else(|| Error::corrupt(format!("type {name:?} is not defined")))
    }

    fn object(&mut self, object: &Map<String, Json>, namespace: &str) -> Result<NodeId> {
        match object.get("type") {
            Some(Json::String(kind)) => match kind.as_str() {
                "record" | "error" => self.record(object, namespace),
                "enum" => {
                    let symbols = strings(object, "symbols")?;
                    Ok(self.named(Node::Enum(symbols), object, namespace))
                }
                "fixed" => {
                    let size = object.get("size").and_then(Json::as_u64).and_then(|s| usize::try_from(s).ok());
                    let size = size.ok_or_else(|| Error::corrupt("a fixed type without a size"))?;
                    Ok(self.named(Node::Fixed(size), object, namespace))
                }
                "array" => {
                    let items = self.node(member(object, "items")?, namespace)?;
                    Ok(self.push(Node::Array(items)))
                }
                "map" => {
                    let values = self.node(member(object, "values")?, namespace)?;
                    Ok(self.push(Node::Map(values)))
                }
                name => self.reference(name, namespace),
            },
            // {"type": {"type": "string"}} and {"type": ["null", "int"]}.
            Some(inner) => self.node(inner, namespace),
            None => Err(Error::corrupt("a type without \"type\"")),
        }
    }

    fn record(&mut self, object: &Map<String, Json>, namespace: &str) -> Result<NodeId> {
        // The name comes first: fields may refer to the record that they stand in.
        let id = self.named(Node::Record(Vec::new()), object, namespace);
        let inner = own_namespace(object, namespace);
        let Some(Json::Array(list)) = object.get("fields") else {
            return Err(Error::corrupt("a record without fields"));
        };
        let mut fields = Vec::new();
        for field in list {
            let field = field.as_object().ok_or_else(|| Error::corrupt("a field that is not an object"))?;
            let name = field.get("name").and_then(Json::as_str);
            let name: Arc<str> = name.ok_or_else(|| Error::corrupt("a field without a name"))?.into();
            let node = self.node(member(field, "type")?, &inner).map_err(|e| e.context(format!("field {name:?}")))?;
            fields.push(Field { name, node });
        }
        if let Some(Node::Record(empty)) = self.nodes.get_mut(id as usize) {
            *empty = fields;
        }
        Ok(id)
    }

    fn named(&mut self, node: Node, object: &Map<String, Json>, namespace: &str) -> NodeId {
        let id = self.push(node);
        if let Some(name) = object.get("name").and_then(Json::as_str) {
            self.names.insert(full_name(name, &own_namespace(object, namespace)), id);
        }
        id
    }
}

fn primitive(name: &str) -> Option<Node> {
    Some(match name {
        "null" => Node::Null,
        "boolean" => Node::Boolean,
        "int" => Node::Int,
        "long" => Node::Long,
        "float" => Node::Float,
        "double" => Node::Double,
        "bytes" => Node::Bytes,
        "string" => Node::String,
        _ => return None,
    })
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
    object.get(key).ok_or_else(|| Error::corrupt(format!("a type without {key:?}")))
}

fn strings(object: &Map<String, Json>, key: &str) -> Result<Vec<Arc<str>>> {
    let list = member(object, key)?.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|s| s.as_str().map(Arc::from).ok_or_else(|| Error::corrupt(format!("{s} among {key}")))).collect()
}

/// A record that holds itself as a plain field can have no finite value, and decoding one would never end.
fn refuse_endless_records(schema: &Schema) -> Result<()> {
    // Depth-first over record-to-record edges, with a stack of our own: nesting by reference is not bounded by the JSON.
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; schema.nodes.len()];
    let fields = |id: usize| match schema.nodes.get(id) {
        Some(Node::Record(fields)) => fields.as_slice(),
        _ => &[],
    };
    for start in 0..schema.nodes.len() {
        let mut stack = vec![(start, 0)];
        while let Some((id, next)) = stack.pop() {
            let Some(state) = states.get_mut(id) else { continue };
            match (*state, next) {
                (State::Done, _) => continue,
                (State::Open, 0) => return Err(Error::corrupt("avro schema: a record contains itself directly")),
                _ => *state = State::Open,
            }
            match fields(id).get(next) {
                Some(field) => stack.extend([(id, next + 1), (field.node as usize, 0)]),
                None => *state = State::Done,
            }
        }
    }
    Ok(())
}
