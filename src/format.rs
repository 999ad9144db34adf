//! Hudi's written format as values and codecs: bytes in, values out.
//!
//! Nothing here touches storage, the clock or the log, and no input makes it panic, loop or allocate without bound.
//! `docs/format.md` states what is relied on, by table version.

pub mod avro;
pub mod bloom;
pub mod commit;
pub mod file_name;
pub mod hash;
pub mod hfile;
pub mod index_defs;
pub mod input;
pub mod instant;
pub(crate) mod jackson;
pub mod log;
pub mod partition_path;
pub mod plan;
pub mod properties;
pub mod source;
