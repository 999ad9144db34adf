//! [`Cursor`]: a walk over one Avro value, guided by its schema.
//!
//! Unions are transparent: a typed getter looks through them and answers `None` for the null branch, which is what optional
//! fields are in Avro. A value that is neither taken nor visited is passed over when its parent moves on.

use super::schema::{Node, NodeId, Schema};
use super::value::Value;
use crate::error::{Error, Result};
use crate::format::input::Input;
use std::sync::Arc;

/// Deepest nesting of records, arrays, maps and unions that is followed.
const DEPTH_MAX: u32 = 64;
/// Steps (values visited or passed over) allowed for each byte of input: fields without bytes are rare in honest data.
const STEPS_PER_BYTE: u64 = 4;
/// Steps allowed whatever the length.
const STEPS_MIN: u64 = 4096;

/// One Avro value that has not been decoded yet, and the way through it.
pub struct Cursor<'s, 'a> {
    schema: &'s Schema,
    input: Input<'a>,
    node: NodeId,
    /// The value at hand has been consumed.
    taken: bool,
    depth: u32,
    steps: u64,
}

impl<'s, 'a> Cursor<'s, 'a> {
    /// A value of the schema's root type at the start of `bytes`.
    pub fn new(schema: &'s Schema, bytes: &'a [u8]) -> Self {
        let steps = (bytes.len() as u64).saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_MIN);
        Cursor { schema, input: Input::new(bytes), node: schema.root, taken: false, depth: 0, steps }
    }

    /// Before the first of several values of the root type; [`Cursor::next_root`] goes to it.
    pub(super) fn at_end(schema: &'s Schema, bytes: &'a [u8]) -> Self {
        Cursor { taken: true, ..Self::new(schema, bytes) }
    }

    /// Visits the fields of a record in their order. False for a null branch, of which nothing is visited.
    pub fn record(&mut self, mut visit: impl FnMut(&'s str, &mut Self) -> Result<()>) -> Result<bool> {
        self.fields(|name, cursor| visit(name, cursor))
    }

    /// [`Cursor::record`] with the names as the schema shares them.
    fn fields(&mut self, mut visit: impl FnMut(&'s Arc<str>, &mut Self) -> Result<()>) -> Result<bool> {
        let fields = match self.enter()? {
            Node::Null => return Ok(self.leave(false)),
            Node::Record(fields) => fields,
            other => return Err(mismatch("a record", other)),
        };
        for field in fields {
            self.child(field.node, |cursor| visit(&field.name, cursor)).map_err(|e| in_field(e, &field.name))?;
        }
        Ok(self.leave(true))
    }

    /// Visits the items of an array. False for a null branch.
    pub fn array(&mut self, mut visit: impl FnMut(&mut Self) -> Result<()>) -> Result<bool> {
        let items = match self.enter()? {
            Node::Null => return Ok(self.leave(false)),
            Node::Array(items) => *items,
            other => return Err(mismatch("an array", other)),
        };
        while let Some((count, _)) = self.block()? {
            for _ in 0..count {
                self.child(items, &mut visit)?;
            }
        }
        Ok(self.leave(true))
    }

    /// Visits the entries of a map in their written order. False for a null branch.
    pub fn map(&mut self, mut visit: impl FnMut(&'a str, &mut Self) -> Result<()>) -> Result<bool> {
        let values = match self.enter()? {
            Node::Null => return Ok(self.leave(false)),
            Node::Map(values) => *values,
            other => return Err(mismatch("a map", other)),
        };
        while let Some((count, _)) = self.block()? {
            for _ in 0..count {
                let key = self.text()?;
                self.child(values, |cursor| visit(key, cursor))?;
            }
        }
        Ok(self.leave(true))
    }

    /// A string.
    pub fn str(&mut self) -> Result<Option<&'a str>> {
        let found = match self.enter()? {
            Node::Null => None,
            Node::String => Some(self.text()?),
            other => return Err(mismatch("a string", other)),
        };
        self.leave(true);
        Ok(found)
    }

    /// The symbol of an enum.
    pub fn symbol(&mut self) -> Result<Option<&'s str>> {
        let found = match self.enter()? {
            Node::Null => None,
            Node::Enum(symbols) => {
                let index = self.zigzag()?;
                let found = usize::try_from(index).ok().and_then(|i| symbols.get(i));
                Some(&**found.ok_or_else(|| Error::corrupt(format!("symbol {index} of {}", symbols.len())))?)
            }
            other => return Err(mismatch("an enum", other)),
        };
        self.leave(true);
        Ok(found)
    }

    /// Bytes, of fixed or written length.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>> {
        let found = match self.enter()? {
            Node::Null => None,
            Node::Bytes | Node::String => Some(self.chunk()?),
            Node::Fixed(size) => Some(self.input.take(*size)?),
            other => return Err(mismatch("bytes", other)),
        };
        self.leave(true);
        Ok(found)
    }

    /// An int or a long.
    pub fn long(&mut self) -> Result<Option<i64>> {
        let found = match self.enter()? {
            Node::Null => None,
            Node::Int | Node::Long => Some(self.zigzag()?),
            other => return Err(mismatch("a long", other)),
        };
        self.leave(true);
        Ok(found)
    }

    /// A float, a double, an int or a long.
    pub fn double(&mut self) -> Result<Option<f64>> {
        let found = match self.enter()? {
            Node::Null => None,
            Node::Float => Some(f64::from(f32::from_le_bytes(self.input.array()?))),
            Node::Double => Some(f64::from_le_bytes(self.input.array()?)),
            Node::Int | Node::Long => Some(self.zigzag()? as f64),
            other => return Err(mismatch("a double", other)),
        };
        self.leave(true);
        Ok(found)
    }

    /// A boolean.
    pub fn bool(&mut self) -> Result<Option<bool>> {
        let found = match self.enter()? {
            Node::Null => None,
            Node::Boolean => Some(self.input.u8()? != 0),
            other => return Err(mismatch("a boolean", other)),
        };
        self.leave(true);
        Ok(found)
    }

    /// The value as a tree.
    pub fn value(&mut self) -> Result<Value> {
        Ok(match self.resolve()? {
            Node::Null | Node::Union(_) => {
                self.skip()?;
                Value::Null
            }
            Node::Boolean => Value::Boolean(self.bool()?.unwrap_or_default()),
            Node::Int | Node::Long => Value::Long(self.long()?.unwrap_or_default()),
            Node::Float | Node::Double => Value::Double(self.double()?.unwrap_or_default()),
            Node::Bytes | Node::Fixed(_) => Value::Bytes(self.bytes()?.unwrap_or_default().to_vec()),
            Node::String => Value::String(self.str()?.unwrap_or_default().to_owned()),
            Node::Enum(_) => Value::String(self.symbol()?.unwrap_or_default().to_owned()),
            Node::Record(_) => {
                let mut fields = Vec::new();
                self.fields(|name, c| push(&mut fields, (name.clone(), c.value()?)))?;
                Value::Record(fields)
            }
            Node::Array(_) => {
                let mut items = Vec::new();
                self.array(|c| push(&mut items, c.value()?))?;
                Value::Array(items)
            }
            Node::Map(_) => {
                let mut entries = Vec::new();
                self.map(|key, c| push(&mut entries, (key.to_owned(), c.value()?)))?;
                Value::Map(entries)
            }
        })
    }

    /// Enters a union and tells which of its branches the value is of; 0 for a value that is not of a union. What the branch
    /// holds is read as if the union were not there.
    pub fn branch(&mut self) -> Result<usize> {
        if self.taken {
            return Err(Error::internal("an avro value was taken twice"));
        }
        let Node::Union(branches) = self.get(self.node)? else { return Ok(0) };
        let branch = self.zigzag()?;
        let found = usize::try_from(branch).ok().and_then(|b| Some((b, *branches.get(b)?)));
        let (index, node) = found.ok_or_else(|| Error::corrupt(format!("branch {branch} of {}", branches.len())))?;
        self.node = node;
        Ok(index)
    }

    /// Passes over the value.
    pub fn skip(&mut self) -> Result<()> {
        match self.enter()? {
            Node::Null => {}
            Node::Boolean => drop(self.input.u8()?),
            Node::Int | Node::Long | Node::Enum(_) => drop(self.zigzag()?),
            Node::Float => drop(self.input.take(4)?),
            Node::Double => drop(self.input.take(8)?),
            Node::Bytes | Node::String => drop(self.chunk()?),
            Node::Fixed(size) => drop(self.input.take(*size)?),
            Node::Record(fields) => {
                for field in fields {
                    self.child(field.node, Self::skip)?;
                }
            }
            Node::Array(items) => self.skip_blocks(*items, false)?,
            Node::Map(values) => self.skip_blocks(*values, true)?,
            Node::Union(_) => return Err(Error::internal("avro cursor stopped at a union")),
        }
        self.leave(true);
        Ok(())
    }

    /// Ends the walk: the whole value is passed over if it was not taken, and bytes after it are refused.
    pub fn finish(mut self) -> Result<()> {
        self.pass()?;
        match self.input.remaining() {
            0 => Ok(()),
            left => Err(Error::corrupt(format!("{left} bytes after an avro value"))),
        }
    }

    /// Bytes of input consumed so far.
    pub fn position(&self) -> usize {
        self.input.position()
    }

    /// Makes the next value of the root type the one at hand: container blocks hold them end to end.
    pub(super) fn next_root(&mut self) -> Result<()> {
        self.pass()?;
        self.node = self.schema.root;
        self.taken = false;
        Ok(())
    }

    fn pass(&mut self) -> Result<()> {
        if self.taken { Ok(()) } else { self.skip() }
    }

    /// Visits one value of type `node`, and passes over it where the visitor did not.
    fn child(&mut self, node: NodeId, visit: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.node = node;
        self.taken = false;
        visit(self)?;
        self.pass()
    }

    /// Takes the branches of unions at the value at hand, so that another type is at hand.
    fn resolve(&mut self) -> Result<&'s Node> {
        if self.taken {
            return Err(Error::internal("an avro value was taken twice"));
        }
        let mut node = self.get(self.node)?;
        while let Node::Union(branches) = node {
            let branch = self.zigzag()?;
            let id = usize::try_from(branch).ok().and_then(|b| branches.get(b));
            self.node = *id.ok_or_else(|| Error::corrupt(format!("branch {branch} of {}", branches.len())))?;
            node = self.get(self.node)?;
        }
        Ok(node)
    }

    /// Resolves unions and counts the value: every value that is consumed goes through here.
    fn enter(&mut self) -> Result<&'s Node> {
        let node = self.resolve()?;
        match self.steps.checked_sub(1) {
            Some(left) => self.steps = left,
            None => return Err(Error::corrupt("avro value of far more parts than bytes")),
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::corrupt(format!("avro value nested more than {DEPTH_MAX} deep")));
        }
        Ok(node)
    }

    /// Ends what [`Cursor::enter`] began.
    fn leave(&mut self, answer: bool) -> bool {
        self.depth = self.depth.saturating_sub(1);
        self.taken = true;
        answer
    }

    fn get(&self, id: NodeId) -> Result<&'s Node> {
        self.schema.nodes.get(id as usize).ok_or_else(|| Error::internal("avro schema refers to no type"))
    }

    /// The head of the next block of an array or map: items, and their bytes where written. `None` at the end.
    fn block(&mut self) -> Result<Option<(u64, Option<i64>)>> {
        match self.zigzag()? {
            0 => Ok(None),
            count if count > 0 => Ok(Some((count.unsigned_abs(), None))),
            count => Ok(Some((count.unsigned_abs(), Some(self.zigzag()?)))),
        }
    }

    fn skip_blocks(&mut self, items: NodeId, keyed: bool) -> Result<()> {
        while let Some((count, size)) = self.block()? {
            if let Some(size) = size {
                self.input.take_signed(size)?;
                continue;
            }
            for _ in 0..count {
                if keyed {
                    self.chunk()?;
                }
                self.child(items, Self::skip)?;
            }
        }
        Ok(())
    }

    fn zigzag(&mut self) -> Result<i64> {
        let raw = self.input.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn chunk(&mut self) -> Result<&'a [u8]> {
        let len = self.zigzag()?;
        self.input.take_signed(len)
    }

    fn text(&mut self) -> Result<&'a str> {
        let start = self.input.position();
        std::str::from_utf8(self.chunk()?).map_err(|_| Error::corrupt(format!("string at byte {start} is not UTF-8")))
    }
}

fn mismatch(wanted: &str, found: &Node) -> Error {
    Error::corrupt(format!("avro schema has {} where {wanted} is expected", found.kind()))
}

/// Names the field once, at the innermost record; a full path is not worth an allocation at each level.
fn in_field(error: Error, name: &str) -> Error {
    if error.message().starts_with("field ") { error } else { error.context(format!("field {name:?}")) }
}

fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    list.push(item);
    Ok(())
}
