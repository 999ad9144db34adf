//! Rows as Avro values: what Avro data blocks of log files hold.
//!
//! [`RowEncoder`] turns the rows of a batch into bare Avro values, [`RowDecoder`] turns such values into a batch. Both are made
//! once for a pair of schemas, where everything that can go wrong between the two is found and named, and then run row by row.
//!
//! Columns and fields meet by name. A decoder resolves as Hudi does: what the target has and the writer had not is null; what
//! the writer had and the target has not is passed over; int widens to long, float and double, and so on; a timestamp or a
//! decimal is brought to the target's unit or scale where nothing is lost. Unions are of null and one type, in either order.
//!
//! Bytes may be hostile: work and memory are bounded by their length.
//! Format: docs/format.md, "Log files".

mod build;
mod decode;
mod encode;
mod plan;
mod read;
mod types;
mod write;

#[cfg(test)]
mod tests;

pub use decode::RowDecoder;
pub use encode::{EncodedRows, RowEncoder};
