//! Avro as Hudi writes it: container files of the timeline, and bare records in log blocks and HFiles.
//!
//! Data are always decoded with the schema that lies beside them, and fields are then picked by name. That is all of Avro's
//! schema resolution that a reader of Hudi needs, and it is what lets one reader serve seven table versions.
//!
//! Three ways to read, from fast to convenient:
//!
//! - [`Cursor`]: visit a value field by field, take what is wanted, pass over the rest; nothing is allocated;
//! - [`Value`]: a small value as a tree;
//! - [`Container`]: the records of a container file, each as a [`Cursor`].
//!
//! And their mirrors to write: [`Encoder`] puts down primitives unchecked, [`Writer`] is led by a schema, [`Value::encode`]
//! writes a tree, [`container_file`] and [`Model`] make container files.
//!
//! ```
//! use hudifs::format::avro::{Cursor, Schema};
//!
//! let schema = Schema::parse(r#"{"type": "record", "name": "Stat", "fields": [
//!     {"name": "path", "type": ["null", "string"]}, {"name": "size", "type": "long"}]}"#)?;
//! let (mut path, mut size) = (None, None);
//! Cursor::new(&schema, &[2, 4, b'a', b'b', 0x54]).record(|field, cursor| {
//!     match field {
//!         "path" => path = cursor.str()?,
//!         "size" => size = cursor.long()?,
//!         _ => {} // what is not taken is passed over
//!     }
//!     Ok(())
//! })?;
//! assert_eq!((path, size), (Some("ab"), Some(42)));
//! # Ok::<(), hudifs::Error>(())
//! ```
//!
//! Work and memory are bounded by the input's length whatever the schema says: a [`Cursor`] has a budget of steps, so that
//! neither a billion items without bytes nor records that double at each level can be used against it.

mod container;
mod cursor;
mod encoder;
mod notation;
mod parse;
mod schema;
mod value;
mod writer;

#[cfg(test)]
mod tests;

pub use container::{Container, container_file};
pub use cursor::Cursor;
pub use encoder::Encoder;
pub(crate) use notation::Definition;
pub use notation::Model;
pub use schema::Schema;
pub use value::Value;
pub use writer::Writer;
