//! Copy-on-write: a base file anew, with updates, deletes and inserts.

use super::{BaseOptions, NewBase, WrittenFile};
use crate::error::{Error, Result};
use crate::record::{Keyed, MergeRules, TableSchema};
use crate::storage::Storage;
use crate::table::StoredFile;

/// Writes the next version of a base file. Rows whose key the file holds update or delete it by the rules; the others are
/// inserted, and deletes of keys that it does not hold change nothing.
///
/// `rows` hold each key once. `NotFound` and `Stale` speak of the old file.
pub fn merge_base(
    _storage: &dyn Storage,
    _old: &StoredFile,
    _target: &NewBase,
    _schema: &TableSchema,
    _rules: &MergeRules,
    _rows: &[Keyed],
    _options: &BaseOptions,
) -> Result<WrittenFile> {
    Err(Error::internal("not written yet"))
}
