//! [`Schema`]: a parsed Avro schema, flat.
//!
//! Types lie in one vector and name each other by index, so that a type that contains itself needs no reference counting and
//! the whole is dropped without recursion. Aliases, defaults, documentation, order and logical types are not kept: a reader
//! of written data has no use for them.

use std::sync::Arc;

/// A type's place in its [`Schema`].
pub(super) type NodeId = u32;

/// A parsed Avro schema. Cheap to share by reference; parse once for each distinct text.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub(super) nodes: Vec<Node>,
    pub(super) root: NodeId,
}

/// One type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// Bytes of each value.
    Fixed(usize),
    Enum(Vec<Arc<str>>),
    Array(NodeId),
    Map(NodeId),
    Union(Vec<NodeId>),
    Record(Vec<Field>),
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub name: Arc<str>,
    pub node: NodeId,
}

impl Node {
    /// What to call it in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Boolean => "boolean",
            Node::Int => "int",
            Node::Long => "long",
            Node::Float => "float",
            Node::Double => "double",
            Node::Bytes => "bytes",
            Node::String => "string",
            Node::Fixed(_) => "fixed",
            Node::Enum(_) => "enum",
            Node::Array(_) => "array",
            Node::Map(_) => "map",
            Node::Union(_) => "union",
            Node::Record(_) => "record",
        }
    }
}

impl Schema {
    /// Number of types, named or not.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never true: a schema has at least its root.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The names of the root's fields, in order; none where the root is not a record.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        let fields = match self.nodes.get(self.root as usize) {
            Some(Node::Record(fields)) => fields.as_slice(),
            _ => &[],
        };
        fields.iter().map(|f| &*f.name)
    }
}
