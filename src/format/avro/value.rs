//! [`Value`]: an Avro value as a tree, for metadata of which little is read and whose size does not matter.

use std::sync::Arc;

/// An Avro value. Unions are resolved: an optional field is its value or [`Value::Null`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The null type, or the null branch of a union.
    Null,
    /// A boolean.
    Boolean(bool),
    /// An int or a long.
    Long(i64),
    /// A float or a double.
    Double(f64),
    /// Bytes or fixed.
    Bytes(Vec<u8>),
    /// A string, or an enum's symbol.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// A map in its written order.
    Map(Vec<(String, Value)>),
    /// A record in its schema's order.
    Record(Vec<(Arc<str>, Value)>),
}

impl Value {
    /// The field or entry of that name; of an entry written twice the last counts.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Record(fields) => fields.iter().find(|(n, _)| &**n == name).map(|(_, v)| v),
            Value::Map(entries) => entries.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// True for null.
    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }

    /// The text of a string or symbol.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// The number of an int or long.
    pub fn as_long(&self) -> Option<i64> {
        if let Value::Long(number) = self { Some(*number) } else { None }
    }

    /// The boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Boolean(value) = self { Some(*value) } else { None }
    }

    /// The items of an array; none of anything else.
    pub fn items(&self) -> &[Value] {
        if let Value::Array(items) = self { items } else { &[] }
    }

    /// The entries of a map; none of anything else.
    pub fn entries(&self) -> &[(String, Value)] {
        if let Value::Map(entries) = self { entries } else { &[] }
    }
}
