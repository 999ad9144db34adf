//! [`ColumnRange`]: what the metadata table's column statistics say of one column of one file.

/// A bound of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// A boolean.
    Boolean(bool),
    /// 32 bits: int, and time in milliseconds.
    Int(i32),
    /// 64 bits.
    Long(i64),
    /// Single precision.
    Float(f32),
    /// Double precision.
    Double(f64),
    /// Bytes or fixed.
    Bytes(Vec<u8>),
    /// Text, never truncated.
    String(String),
    /// Days since the epoch.
    Date(i32),
    /// An unscaled decimal.
    Decimal {
        /// The unscaled value.
        unscaled: i128,
        /// Digits in all.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// Milliseconds since the epoch, in UTC.
    TimestampMillis(i64),
    /// Microseconds since the epoch, in UTC.
    TimestampMicros(i64),
    /// Milliseconds since the epoch, without a zone.
    LocalTimestampMillis(i64),
    /// Microseconds since the epoch, without a zone.
    LocalTimestampMicros(i64),
    /// Microseconds since midnight.
    TimeMicros(i64),
}

/// The range of one column in one file.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnRange {
    /// The column, dotted where nested.
    pub column: String,
    /// The smallest value; `None` where all are null, or the type has no order.
    pub min: Option<Bound>,
    /// The largest value.
    pub max: Option<Bound>,
    /// Values, nulls included.
    pub values: u64,
    /// Nulls.
    pub nulls: u64,
    /// Compressed bytes of the column's chunks; 0 for log files.
    pub bytes: u64,
    /// Uncompressed bytes of the column's chunks; 0 for log files.
    pub uncompressed_bytes: u64,
}
