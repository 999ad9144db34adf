//! One record of the `files` partition, and how records of one key are merged.
//!
//! A record maps names to sizes, or marks them as deleted. Newer records win name by name: a deletion removes a name, an
//! addition puts it back, and of two sizes the larger counts, because files only grow.

use crate::error::{Error, Result};
use crate::format::avro::{Cursor, Schema};
use crate::view::ListedFile;
use std::collections::HashMap;

/// `type` of the record of all partitions, and of a partition's files.
const TYPES: [i64; 2] = [1, 2];

/// Visits the names of a record with their sizes; `None` marks a deletion.
fn visit<'a>(
    schema: &Schema,
    value: &'a [u8],
    mut entry: impl FnMut(&'a str, Option<u64>) -> Result<()>,
) -> Result<()> {
    let mut cursor = Cursor::new(schema, value);
    let mut is_listing = false;
    cursor.record(|field, cursor| {
        match field {
            "type" => {
                let kind = cursor.long()?;
                is_listing = kind.is_some_and(|k| TYPES.contains(&k));
                if !is_listing {
                    return Err(Error::corrupt(format!("record of type {kind:?} among the file listings")));
                }
            }
            "filesystemMetadata" => drop(cursor.map(|name, cursor| {
                let (mut size, mut deleted) = (None, false);
                cursor.record(|field, cursor| {
                    match field {
                        "size" => size = cursor.long()?,
                        "isDeleted" => deleted = cursor.bool()?.unwrap_or_default(),
                        _ => {}
                    }
                    Ok(())
                })?;
                if deleted {
                    return entry(name, None);
                }
                let size = size.and_then(|s| u64::try_from(s).ok());
                entry(
                    name,
                    Some(size.ok_or_else(|| Error::corrupt(format!("{name:?} has no size or less than none")))?),
                )
            })?),
            _ => {}
        }
        Ok(())
    })?;
    if is_listing { Ok(()) } else { Err(Error::corrupt("record without a type among the file listings")) }
}

/// What the log records of a key do to its base record.
#[derive(Default)]
pub(super) struct Merge<'a> {
    /// A whole record was deleted: nothing of the base counts.
    drop_base: bool,
    effects: HashMap<&'a str, Effect>,
}

#[derive(Clone, Copy)]
struct Effect {
    /// The size as added last; `None` if deleted last.
    size: Option<u64>,
    /// A deletion came before: the base's size no longer counts.
    replaces: bool,
}

impl<'a> Merge<'a> {
    /// The next newer record.
    pub fn put(&mut self, schema: &Schema, value: &'a [u8]) -> Result<()> {
        visit(schema, value, |name, size| {
            let effect = self.effects.entry(name).or_insert(Effect { size: None, replaces: false });
            *effect = match size {
                Some(size) => Effect { size: effect.size.max(Some(size)), ..*effect },
                None => Effect { size: None, replaces: true },
            };
            Ok(())
        })
    }

    /// The whole record is deleted.
    pub fn delete(&mut self) {
        *self = Merge { drop_base: true, effects: HashMap::new() };
    }

    /// The names that are left, on top of the base's record. In no order.
    pub fn finish(mut self, base: Option<(&Schema, &'a [u8])>) -> Result<Vec<ListedFile>> {
        let mut files = Vec::new();
        let mut push = |name: &str, size: u64| files.push(ListedFile { name: name.to_owned(), size: Some(size) });
        if let Some((schema, value)) = base.filter(|_| !self.drop_base) {
            visit(schema, value, |name, size| {
                // A tombstone in a base file means nothing: there is nothing below it.
                let Some(size) = size else { return Ok(()) };
                match self.effects.remove(name) {
                    None => push(name, size),
                    Some(Effect { size: Some(newer), replaces: false }) => push(name, newer.max(size)),
                    Some(Effect { size: Some(newer), replaces: true }) => push(name, newer),
                    Some(Effect { size: None, .. }) => {}
                }
                Ok(())
            })?;
        }
        for (name, effect) in self.effects {
            if let Some(size) = effect.size {
                push(name, size);
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SCHEMA: &str = r#"{"type": "record", "name": "R", "fields": [{"name": "type", "type": "int"},
        {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values": {"type": "record", "name": "F",
        "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}]}}]}]}"#;

    /// A log record: names `a` to `d` with small sizes, `None` for a deletion.
    type Entries = BTreeMap<u8, Option<u8>>;

    fn encode(entries: &Entries) -> Vec<u8> {
        let mut out = vec![4, 2];
        if !entries.is_empty() {
            out.push(entries.len() as u8 * 2);
            for (name, size) in entries {
                out.extend([2, b'a' + name, size.unwrap_or(0) * 2, u8::from(size.is_none())]);
            }
        }
        out.push(0);
        out
    }

    fn merged(base: Option<&Entries>, logs: &[Option<Entries>]) -> Entries {
        let schema = Schema::parse(SCHEMA).unwrap();
        let (base, logs): (Option<Vec<u8>>, Vec<Option<Vec<u8>>>) =
            (base.map(encode), logs.iter().map(|l| l.as_ref().map(encode)).collect());
        let mut merge = Merge::default();
        for log in &logs {
            match log {
                Some(value) => merge.put(&schema, value).unwrap(),
                None => merge.delete(),
            }
        }
        let files = merge.finish(base.as_deref().map(|b| (&schema, b))).unwrap();
        files.iter().map(|f| (f.name.as_bytes()[0] - b'a', Some(f.size.unwrap() as u8))).collect()
    }

    /// Records one at a time, as the rules are told.
    fn model(base: &Entries, logs: &[Option<Entries>]) -> Entries {
        let mut all = base.clone();
        for log in logs {
            let Some(log) = log else {
                all.clear();
                continue;
            };
            for (name, size) in log {
                match size {
                    Some(size) => {
                        let old = all.get(name).copied().flatten();
                        all.insert(*name, Some(*size).max(old));
                    }
                    None => drop(all.remove(name)),
                }
            }
        }
        all
    }

    #[test]
    fn records_of_other_types_are_refused() {
        let schema = Schema::parse(SCHEMA).unwrap();
        for value in [[6, 0], [10, 0]] {
            assert!(Merge::default().put(&schema, &value).unwrap_err().message().contains("type"));
        }
        let negative = [4, 2, 2, 2, b'a', 1, 0, 0];
        assert!(Merge::default().put(&schema, &negative).is_err());
        let untyped = Schema::parse(r#"{"type": "record", "name": "R", "fields": []}"#).unwrap();
        assert!(Merge::default().put(&untyped, &[]).is_err());
    }

    fn entries(deleted: bool) -> impl Strategy<Value = Entries> {
        let size = (1u8..9, prop::bool::weighted(if deleted { 0.4 } else { 0.0 }));
        let size = size.prop_map(|(size, deleted)| (!deleted).then_some(size));
        prop::collection::btree_map(0u8..4, size, 0..4)
    }

    proptest! {
        #[test]
        fn merging_is_applying_one_record_after_another(
            base in entries(false),
            logs in prop::collection::vec(prop::option::weighted(0.9, entries(true)), 0..6),
            compacted in 0usize..7,
        ) {
            let expected = model(&base, &logs);
            prop_assert_eq!(&merged(Some(&base), &logs), &expected);
            // A compaction at any point changes nothing.
            let (older, newer) = logs.split_at(compacted.min(logs.len()));
            prop_assert_eq!(merged(Some(&merged(Some(&base), older)), newer), expected);
            prop_assert_eq!(merged(None, &logs), model(&Entries::new(), &logs));
        }
    }
}
