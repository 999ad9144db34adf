//! [`Writer`]: one Avro value written as its schema leads: the mirror of [`super::Cursor`].
//!
//! Unions are transparent: a typed setter takes the first branch of its type, and a field that is left alone is null where
//! it may be. So one writer serves schemas that differ in their order and in which fields they have. A value that does not
//! fit its schema is our own mistake, and an `Internal` error.

use super::encoder::Encoder;
use super::schema::{Node, NodeId, Schema};
use super::value::Value;
use crate::error::{Error, Result};

/// The place of one Avro value that has not been written yet.
pub struct Writer<'s, 'o> {
    schema: &'s Schema,
    out: &'o mut Encoder,
    node: NodeId,
    /// The value at hand has been written.
    written: bool,
}

impl<'s, 'o> Writer<'s, 'o> {
    /// A value of the schema's root type, appended to `out`.
    pub fn new(schema: &'s Schema, out: &'o mut Encoder) -> Self {
        Writer { schema, out, node: schema.root, written: false }
    }

    /// Visits the fields of a record in their order; what the visitor leaves alone becomes null.
    pub fn record(&mut self, mut fill: impl FnMut(&'s str, &mut Self) -> Result<()>) -> Result<()> {
        let Node::Record(fields) = self.enter("a record", |n| matches!(n, Node::Record(_)))? else {
            return Err(self.misfit("a record"));
        };
        for field in fields {
            self.child(field.node, |writer| fill(&field.name, writer))
                .map_err(|e| e.context(format!("field {:?}", field.name)))?;
        }
        self.leave()
    }

    /// An array of `items`, each written by `fill`.
    pub fn array<I: IntoIterator<IntoIter: ExactSizeIterator>>(
        &mut self,
        items: I,
        mut fill: impl FnMut(I::Item, &mut Self) -> Result<()>,
    ) -> Result<()> {
        let Node::Array(node) = self.enter("an array", |n| matches!(n, Node::Array(_)))? else {
            return Err(self.misfit("an array"));
        };
        let items = items.into_iter();
        self.out.block(items.len());
        for item in items {
            self.child(*node, |writer| fill(item, writer))?;
        }
        self.out.end_blocks();
        self.leave()
    }

    /// A map of `entries`, each value written by `fill`.
    pub fn map<K: AsRef<str>, V, I: IntoIterator<Item = (K, V), IntoIter: ExactSizeIterator>>(
        &mut self,
        entries: I,
        mut fill: impl FnMut(V, &mut Self) -> Result<()>,
    ) -> Result<()> {
        let Node::Map(node) = self.enter("a map", |n| matches!(n, Node::Map(_)))? else {
            return Err(self.misfit("a map"));
        };
        let entries = entries.into_iter();
        self.out.block(entries.len());
        for (key, value) in entries {
            self.out.str(key.as_ref());
            self.child(*node, |writer| fill(value, writer))?;
        }
        self.out.end_blocks();
        self.leave()
    }

    /// An array of strings.
    pub fn strs<S: AsRef<str>>(&mut self, items: &[S]) -> Result<()> {
        self.array(items, |item, writer| writer.str(item.as_ref()))
    }

    /// Null.
    pub fn null(&mut self) -> Result<()> {
        self.enter("null", |n| matches!(n, Node::Null))?;
        self.leave()
    }

    /// A string.
    pub fn str(&mut self, value: &str) -> Result<()> {
        self.enter("a string", |n| matches!(n, Node::String))?;
        self.out.str(value);
        self.leave()
    }

    /// A string or null.
    pub fn opt_str(&mut self, value: Option<&str>) -> Result<()> {
        value.map_or_else(|| Ok(()), |v| self.str(v))
    }

    /// The symbol of an enum.
    pub fn symbol(&mut self, value: &str) -> Result<()> {
        let node = self.enter("an enum", |n| matches!(n, Node::Enum(_)))?;
        let Node::Enum(symbols) = node else { return Err(self.misfit("an enum")) };
        let index = symbols.iter().position(|s| &**s == value);
        self.out.branch(index.ok_or_else(|| Error::internal(format!("{value:?} is no symbol of its enum")))?);
        self.leave()
    }

    /// Bytes, of written length or of the fixed type's.
    pub fn bytes(&mut self, value: &[u8]) -> Result<()> {
        match self.enter("bytes", |n| matches!(n, Node::Bytes | Node::Fixed(_)))? {
            Node::Fixed(size) if *size != value.len() => {
                return Err(Error::internal(format!("{} bytes for a fixed type of {size}", value.len())));
            }
            Node::Fixed(_) => self.out.raw(value),
            _ => self.out.bytes(value),
        }
        self.leave()
    }

    /// A long, or an int where it fits.
    pub fn long(&mut self, value: i64) -> Result<()> {
        let node = self.enter("a long", |n| matches!(n, Node::Int | Node::Long))?;
        if matches!(node, Node::Int) && i32::try_from(value).is_err() {
            return Err(Error::internal(format!("{value} does not fit an int")));
        }
        self.out.long(value);
        self.leave()
    }

    /// A count as a long.
    pub fn count(&mut self, value: u64) -> Result<()> {
        self.long(i64::try_from(value).map_err(|_| Error::internal(format!("{value} does not fit a long")))?)
    }

    /// A double, or a float.
    pub fn double(&mut self, value: f64) -> Result<()> {
        match self.enter("a double", |n| matches!(n, Node::Double | Node::Float))? {
            Node::Float => self.out.float(value as f32),
            _ => self.out.double(value),
        }
        self.leave()
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) -> Result<()> {
        self.enter("a boolean", |n| matches!(n, Node::Boolean))?;
        self.out.bool(value);
        self.leave()
    }

    /// Takes a branch of the union at hand by its index, so that the branch's type is at hand.
    pub fn branch(&mut self, index: usize) -> Result<()> {
        let Node::Union(branches) = self.get(self.node)? else { return Err(self.misfit("a union")) };
        self.node = *branches.get(index).ok_or_else(|| Error::internal(format!("a union has no branch {index}")))?;
        self.out.branch(index);
        Ok(())
    }

    /// A tree.
    pub fn value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Null => self.null(),
            Value::Boolean(value) => self.bool(*value),
            Value::Long(value) => self.long(*value),
            Value::Double(value) => self.double(*value),
            Value::Bytes(value) => self.bytes(value),
            Value::String(value) => match self.wants(|n| matches!(n, Node::Enum(_)))? {
                true => self.symbol(value),
                false => self.str(value),
            },
            Value::Array(items) => self.array(items, |item, writer| writer.value(item)),
            Value::Map(entries) => self.map(entries.iter().map(|(k, v)| (k, v)), |value, writer| writer.value(value)),
            Value::Record(_) => {
                self.enter("a record of these fields", |n| is_record_of(n, value))?;
                self.record(|field, writer| value.get(field).map_or(Ok(()), |v| writer.value(v)))
            }
        }
    }

    /// A tree that was written by another version of the schema: fields are taken by name, those that are gone are left out,
    /// and those that are new are null or, where they cannot be, empty.
    pub fn copy(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Record(_) => self.record(|field, writer| match value.get(field) {
                Some(found) => writer.copy(found),
                None => writer.empty(),
            }),
            Value::Array(items) => self.array(items, |item, writer| writer.copy(item)),
            Value::Map(entries) => self.map(entries.iter().map(|(k, v)| (k, v)), |value, writer| writer.copy(value)),
            scalar => self.value(scalar),
        }
    }

    /// Null, or where it cannot be the empty value of the type.
    fn empty(&mut self) -> Result<()> {
        if self.wants(|n| matches!(n, Node::Null))? {
            return self.null();
        }
        match self.get(self.node)? {
            Node::String => self.str(""),
            Node::Int | Node::Long => self.long(0),
            Node::Boolean => self.bool(false),
            Node::Array(_) => self.strs::<&str>(&[]),
            Node::Map(_) => self.map([("", ""); 0], |_, _| Ok(())),
            _ => Err(self.misfit("nothing")),
        }
    }

    /// True if the value at hand is, or may be, of a type that `fits`.
    fn wants(&self, fits: impl Fn(&Node) -> bool) -> Result<bool> {
        let node = self.get(self.node)?;
        Ok(fits(node) || matches!(node, Node::Union(ids) if ids.iter().any(|id| self.get(*id).is_ok_and(&fits))))
    }

    /// Goes to the value at hand, through the first branch of a union that `fits`.
    fn enter(&mut self, wanted: &str, fits: impl Fn(&Node) -> bool) -> Result<&'s Node> {
        if self.written {
            return Err(Error::internal("an avro value was written twice"));
        }
        if let Node::Union(branches) = self.get(self.node)? {
            let found = branches.iter().position(|id| self.get(*id).is_ok_and(&fits));
            let index = found.ok_or_else(|| Error::internal(format!("{wanted} is no branch of the union")))?;
            self.branch(index)?;
        }
        let node = self.get(self.node)?;
        if fits(node) { Ok(node) } else { Err(self.misfit(wanted)) }
    }

    fn leave(&mut self) -> Result<()> {
        self.written = true;
        Ok(())
    }

    /// One value of type `node`: by the visitor, or null.
    fn child(&mut self, node: NodeId, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.node = node;
        self.written = false;
        fill(self)?;
        if self.written { Ok(()) } else { self.null() }
    }

    fn get(&self, id: NodeId) -> Result<&'s Node> {
        self.schema.nodes.get(id as usize).ok_or_else(|| Error::internal("avro schema refers to no type"))
    }

    fn misfit(&self, wanted: &str) -> Error {
        let kind = self.get(self.node).map_or("nothing", |n| n.kind());
        Error::internal(format!("avro schema has {kind} where {wanted} is written"))
    }
}

fn is_record_of(node: &Node, value: &Value) -> bool {
    let (Node::Record(fields), Value::Record(values)) = (node, value) else { return false };
    values.iter().all(|(name, _)| fields.iter().any(|f| f.name == *name))
}

impl Value {
    /// The value's bytes as `schema` encodes it. A value that does not fit is `Internal`.
    pub fn encode(&self, schema: &Schema) -> Result<Vec<u8>> {
        let mut out = Encoder::new();
        Writer::new(schema, &mut out).value(self)?;
        Ok(out.into_bytes())
    }
}
