//! The types that Hudi's columns have: Avro's, with the logical types that Hudi writes.
//!
//! Unlike [`crate::format::avro::Schema`], which serves decoding, this keeps names, logical types and defaults, so that a
//! schema can be written again as it was read.

use serde_json::Value as Json;
use std::fmt;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Uuid,
    Date,
    TimeMillis,
    TimeMicros,
    TimestampMillis,
    TimestampMicros,
    LocalTimestampMillis,
    LocalTimestampMicros,
    /// `fixed`: its full name and bytes; `None`: kept as bytes of any length.
    Decimal {
        precision: u8,
        scale: u8,
        fixed: Option<(String, usize)>,
    },
    /// Full name and bytes.
    Fixed(String, usize),
    /// Full name and symbols.
    Enum(String, Vec<String>),
    Array(Box<Slot>),
    Map(Box<Slot>),
    Record(Record),
}

/// A type that may or may not be null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    pub ty: Type,
    pub nullable: bool,
    /// The null stands last in the union, as in the schemas that Spark SQL creates tables with.
    pub null_last: bool,
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// The name with its namespace.
    pub name: String,
    pub fields: Vec<Field>,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub name: String,
    pub slot: Slot,
    pub default: Option<Json>,
    pub doc: Option<String>,
}

impl Slot {
    pub fn required(ty: Type) -> Slot {
        Slot { ty, nullable: false, null_last: false }
    }

    pub fn nullable(ty: Type) -> Slot {
        Slot { ty, nullable: true, null_last: false }
    }
}

impl Field {
    /// A field that may be null, as Java makes it: null first, and null by default.
    pub fn nullable(name: &str, ty: Type) -> Field {
        Field { name: name.to_owned(), slot: Slot::nullable(ty), default: Some(Json::Null), doc: None }
    }
}

/// The name that a person knows the type by.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Boolean => "boolean",
            Type::Int => "int",
            Type::Long => "long",
            Type::Float => "float",
            Type::Double => "double",
            Type::Bytes => "bytes",
            Type::String => "string",
            Type::Uuid => "uuid",
            Type::Date => "date",
            Type::TimeMillis => "time-millis",
            Type::TimeMicros => "time-micros",
            Type::TimestampMillis => "timestamp-millis",
            Type::TimestampMicros => "timestamp-micros",
            Type::LocalTimestampMillis => "local-timestamp-millis",
            Type::LocalTimestampMicros => "local-timestamp-micros",
            Type::Decimal { precision, scale, .. } => return write!(f, "decimal({precision},{scale})"),
            Type::Fixed(_, size) => return write!(f, "fixed({size})"),
            Type::Enum(..) => "enum",
            Type::Array(items) => return write!(f, "array<{}>", items.ty),
            Type::Map(values) => return write!(f, "map<{}>", values.ty),
            Type::Record(_) => "record",
        };
        f.write_str(name)
    }
}

/// Fewest bytes that hold every decimal of that many digits, as Java sizes its `fixed`.
pub(crate) fn decimal_bytes(precision: u8) -> usize {
    // 38 digits need 16 bytes, the most that this build accepts.
    let largest = 10_i128.checked_pow(u32::from(precision)).map_or(i128::MAX, |p| p - 1);
    (1..16).find(|n| largest < 1_i128 << (8 * n - 1)).unwrap_or(16)
}

#[cfg(test)]
mod tests {
    #[test]
    fn decimals_are_as_wide_as_javas() {
        for (precision, bytes) in [(1, 1), (2, 1), (3, 2), (5, 3), (9, 4), (10, 5), (15, 7), (18, 8), (20, 9), (38, 16)]
        {
            assert_eq!(super::decimal_bytes(precision), bytes, "{precision}");
        }
    }
}
