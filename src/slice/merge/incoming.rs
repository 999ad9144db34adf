//! The incoming rows of a merge, as one batch with meta columns.

use super::super::NewBase;
use crate::error::{Error, Result};
use crate::record::{Keyed, MergeRules, OrderingValues, TableSchema};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::{concat, concat_batches};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use twox_hash::XxHash64;

/// The incoming rows: keys, columns with the meta columns, what deletes.
pub(super) struct Incoming {
    /// In the columns of [`TableSchema::with_meta`]; the file's name is empty.
    pub batch: RecordBatch,
    pub keys: StringArray,
    pub ordering: OrderingValues,
    deletes: Vec<bool>,
}

impl Incoming {
    pub fn new(target: &NewBase, schema: &TableSchema, rules: &MergeRules, rows: &[Keyed]) -> Result<Incoming> {
        let failed = |e| Error::internal(format!("incoming rows could not be joined: {e}"));
        let users: Vec<&RecordBatch> = rows.iter().map(|r| &r.rows).collect();
        let users = concat_batches(schema.arrow(), users).map_err(failed)?;
        let count = users.num_rows();
        let keys: Vec<&dyn Array> = rows.iter().map(|r| &r.keys as &dyn Array).collect();
        let keys: StringArray = match keys.as_slice() {
            [] => StringArray::from(Vec::<&str>::new()),
            _ => concat(&keys).map_err(failed)?.as_string::<i32>().clone(),
        };
        let constant =
            |value: &str| Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, count))) as ArrayRef;
        let meta: [ArrayRef; 5] = [
            constant(target.instant.as_str()),
            Arc::new(target.sequence(0, count)),
            Arc::new(keys.clone()),
            constant(&target.partition),
            constant(""),
        ];
        let columns = meta.into_iter().chain(users.columns().iter().cloned()).collect();
        let deletes =
            rows.iter().flat_map(|r| (0..r.keys.len()).map(|at| r.deletes.as_ref().is_some_and(|d| d.value(at))));
        Ok(Incoming {
            ordering: rules.ordering(&users)?,
            deletes: deletes.collect(),
            batch: RecordBatch::try_new(schema.with_meta().clone(), columns).map_err(failed)?,
            keys,
        })
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if the row deletes its key.
    pub fn deletes(&self, row: u32) -> bool {
        self.deletes.get(row as usize).copied().unwrap_or(false)
    }

    /// The rows by key. Keys come from outside, so that the hash has a seed that nobody knows.
    pub fn by_key(&self) -> HashMap<&str, u32, Seeded> {
        let mut places =
            HashMap::with_capacity_and_hasher(self.len(), Seeded(RandomState::new().build_hasher().finish()));
        places.extend((0_u32..).zip(self.keys.iter()).filter_map(|(row, key)| Some((key?, row))));
        places
    }
}

/// XXH64 with a seed: several times as fast as the standard hash for keys.
#[derive(Clone)]
pub(super) struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = XxHash64;

    fn build_hasher(&self) -> XxHash64 {
        XxHash64::with_seed(self.0)
    }
}
