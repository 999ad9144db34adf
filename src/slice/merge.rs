//! Copy-on-write: a base file anew, with updates, deletes and inserts.

mod full;

pub use full::merge_base_full;

use super::{BaseOptions, NewBase, WrittenFile};
use crate::error::Result;
use crate::record::{Keyed, MergeRules, TableSchema};
use crate::storage::Storage;
use crate::table::StoredFile;

/// Writes the next version of a base file. Rows whose key the file holds update or delete it by the rules; the others are
/// inserted, and deletes of keys that it does not hold change nothing.
///
/// `rows` hold each key once. `NotFound` and `Stale` speak of the old file.
pub fn merge_base(
    storage: &dyn Storage,
    old: &StoredFile,
    target: &NewBase,
    schema: &TableSchema,
    rules: &MergeRules,
    rows: &[Keyed],
    options: &BaseOptions,
) -> Result<WrittenFile> {
    full::merge_base_full(storage, old, target, schema, rules, rows, options)
}
