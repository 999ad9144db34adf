//! The bucket index with a fixed number of buckets: the file group is a function of the key.
//!
//! The first eight characters of a group's id are its bucket, in decimal. A bucket has one group in each partition, made when
//! its first key arrives. The hash is Java's, of a list: of the key as it is, or of the values of its fields, where it is
//! written as `field:value,field:value`.
//!
//! Releases of Hudi take keys apart differently where values have a `:` or `,` in them, or are null: 0.x cuts values at the
//! second `:` and finds no field in `urn:x:1`, so that all such keys share a bucket; 1.x has the whole key there. Placed by one
//! rule, a key is lost to writers that go by the other: keys on which they disagree are refused.
//! Format: docs/format.md, "Indexes".

use super::kind::{BUCKETS, ENGINE, HASH_FIELD, kept, kept_name};
use super::{Index, IndexKind, Key, Location};
use crate::error::{Error, Result};
use crate::format::properties::TableConfig;
use crate::storage::TablePath;
use crate::table::Snapshot;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Digits of the bucket in a group's id.
const DIGITS: usize = 8;
/// Most buckets that eight digits can tell apart; far fewer make sense.
const BUCKETS_MAX: u32 = 10_000_000;

/// A bucket index.
#[derive(Debug)]
pub(super) struct Bucket {
    buckets: u32,
    key_fields: Vec<String>,
    hash_fields: Vec<String>,
}

impl Bucket {
    /// From the table's properties, and from the settings where the table keeps nothing.
    pub fn new(config: &TableConfig, settings: &BTreeMap<String, String>) -> Result<Bucket> {
        let find = |key: &str| chosen(key, kept(config, key), settings.get(key).map(|s| s.trim()));
        let engine = find(ENGINE)?.unwrap_or("SIMPLE");
        if !engine.eq_ignore_ascii_case("SIMPLE") {
            return Err(Error::unsupported(format!("bucket index with {ENGINE}={engine}"))
                .with_hint("only the simple engine, with a fixed number of buckets, is written here"));
        }
        let buckets = find(BUCKETS)?.ok_or_else(|| {
            Error::invalid(format!("a bucket index needs {BUCKETS}, which the table does not keep"))
                .with_hint("give the number that the table's other writers use; it can never change")
        })?;
        let buckets = buckets.parse().ok().filter(|n| (1..=BUCKETS_MAX).contains(n));
        let buckets =
            buckets.ok_or_else(|| Error::invalid(format!("{BUCKETS} is not a number from 1 to {BUCKETS_MAX}")))?;
        let key_fields = fields(config.get("hoodie.table.recordkey.fields").unwrap_or_default());
        let hash_fields = find(HASH_FIELD)?.map_or_else(|| key_fields.clone(), fields);
        if let Some(other) = hash_fields.iter().find(|f| !key_fields.contains(f)) {
            return Err(Error::invalid(format!("{HASH_FIELD} has {other:?}, which is no field of the record key")));
        }
        // Values are hashed in the key's order by some releases, in the setting's by others.
        let in_order: Vec<&String> = key_fields.iter().filter(|f| hash_fields.contains(f)).collect();
        if in_order.iter().copied().ne(&hash_fields) {
            return Err(Error::invalid(format!("{HASH_FIELD} does not have the order of the record key's fields")));
        }
        Ok(Bucket { buckets, key_fields, hash_fields })
    }

    /// What the table's properties keep.
    pub fn properties(&self) -> Vec<(String, String)> {
        vec![
            (kept_name(BUCKETS), self.buckets.to_string()),
            (kept_name(HASH_FIELD), self.hash_fields.join(",")),
            (kept_name(ENGINE), "SIMPLE".to_owned()),
        ]
    }

    /// The bucket of a key.
    fn of(&self, key: &str) -> Result<u32> {
        let hash = if !key.contains(':') {
            add(1, key)
        } else {
            let values = self.values(key).ok_or_else(|| {
                Error::invalid(format!("record key {key:?}: releases of Hudi disagree about its bucket"))
                    .with_hint("with a bucket index, values of key fields must not be null nor have ':' or ',' in them")
            })?;
            values.into_iter().fold(1, add)
        };
        Ok((hash & i32::MAX) as u32 % self.buckets)
    }

    /// The values of the hashed fields of a key of several fields, if all releases see the same ones.
    fn values<'k>(&self, key: &'k str) -> Option<Vec<&'k str>> {
        let mut pairs = Vec::new();
        for pair in key.split(',') {
            let (field, value) = pair.split_once(':')?;
            if value.contains(':') || matches!(value, "" | "__null__" | "__empty__") {
                return None;
            }
            pairs.push((field, value));
        }
        let fields: Vec<&str> = pairs.iter().map(|(field, _)| *field).collect();
        let same = pairs.len() > 1 && fields == self.key_fields;
        let hashed = |field: &str| self.hash_fields.iter().any(|f| f == field);
        same.then(|| pairs.into_iter().filter(|(field, _)| hashed(field)).map(|(_, value)| value).collect())
    }
}

/// Java's hash of a list, one element more.
fn add(hash: i32, value: &str) -> i32 {
    let code = value.encode_utf16().fold(0i32, |h, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.wrapping_mul(31).wrapping_add(code)
}

impl Index for Bucket {
    fn kind(&self) -> &'static str {
        IndexKind::Bucket.name()
    }

    fn is_global(&self) -> bool {
        false
    }

    fn sees_logs(&self) -> bool {
        true
    }

    fn tag(&self, snapshot: &Snapshot, keys: &[Key<'_>]) -> Result<Vec<Option<Location>>> {
        let mut partitions: HashMap<&str, HashMap<u32, Location>> = HashMap::new();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let groups = match partitions.get(key.partition) {
                Some(groups) => groups,
                None => {
                    let groups = self.groups(snapshot, key.partition)?;
                    partitions.entry(key.partition).or_insert(groups)
                }
            };
            found.push(groups.get(&self.of(key.key)?).cloned());
        }
        Ok(found)
    }

    fn place(&self, key: &Key<'_>) -> Result<Option<String>> {
        let random = uuid::Uuid::new_v4().to_string();
        Ok(Some(format!("{:08}{}-0", self.of(key.key)?, random.get(DIGITS..).unwrap_or_default())))
    }
}

impl Bucket {
    /// The group of each bucket of a partition.
    fn groups(&self, snapshot: &Snapshot, partition: &str) -> Result<HashMap<u32, Location>> {
        let shared: Arc<str> = partition.into();
        let mut groups = HashMap::new();
        for slice in snapshot.file_slices(&TablePath::parse(partition)?)? {
            let bucket = slice.file_id.get(..DIGITS).and_then(|d| d.parse::<u32>().ok()).filter(|b| *b < self.buckets);
            let bucket = bucket.ok_or_else(|| {
                Error::invalid(format!("file group {:?} belongs to none of {} buckets", slice.file_id, self.buckets))
                    .with_hint("the table is not written with a bucket index, or with another number of buckets")
            })?;
            let location = Location {
                partition: shared.clone(),
                file_id: slice.file_id.as_str().into(),
                instant: slice.base_instant,
            };
            if let Some(other) = groups.insert(bucket, location) {
                return Err(Error::corrupt(format!(
                    "partition {partition:?} has two file groups of bucket {bucket}: {} and {}",
                    other.file_id, slice.file_id
                )));
            }
        }
        Ok(groups)
    }
}

fn fields(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|f| !f.is_empty()).map(str::to_owned).collect()
}

/// What the table keeps; a setting must not contradict it.
fn chosen<'a>(key: &str, kept: Option<&'a str>, set: Option<&'a str>) -> Result<Option<&'a str>> {
    match (kept, set) {
        (Some(kept), Some(set)) if !kept.eq_ignore_ascii_case(set) => {
            Err(Error::invalid(format!("{key}={set} is set, and the table was made with {kept}")))
        }
        (kept, set) => Ok(kept.or(set)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(key_fields: &str, buckets: u32) -> Bucket {
        let text = format!("hoodie.table.name=t\nhoodie.table.recordkey.fields={key_fields}\n{BUCKETS}={buckets}\n");
        Bucket::new(&TableConfig::parse(text.as_bytes()).unwrap(), &BTreeMap::new()).unwrap()
    }

    #[test]
    fn a_key_of_one_field_hashes_as_a_list_of_one() {
        let eight = index("id", 8);
        assert_eq!(eight.of("abc").unwrap(), 1);
        assert_eq!(eight.of("key-000001").unwrap(), 6);
        // Its own hash is the smallest there is; 31 more is not negated, but cut to 31 bits.
        assert_eq!(eight.of("polygenelubricants").unwrap(), 7);
        assert_eq!(index("id", 1).of("abc").unwrap(), 0);
        assert_eq!(index("id", 1000).of("a,b").unwrap(), (31 + 97 * 961 + 44 * 31 + 98) % 1000);
    }

    #[test]
    fn a_key_of_several_fields_hashes_their_values() {
        // ((31 + h("1")) * 31 + h("b")), h of one letter being its code.
        assert_eq!(index("a,b", 7).of("a:1,b:b").unwrap(), ((31 + 49) * 31 + 98) % 7);
        let mut only_b = index("a,b", 7);
        only_b.hash_fields = vec!["b".into()];
        assert_eq!(only_b.of("a:1,b:b").unwrap(), (31 + 98) % 7);
    }

    #[test]
    fn keys_on_which_releases_disagree_are_refused() {
        for (fields, key) in [
            ("id", "urn:x:1"),
            ("id", "id:7"),
            ("a,b", "a:1,b:10:30:00"),
            ("a,b", "a:1,2,b:3"),
            ("a,b", "a:__null__,b:3"),
            ("a,b", "b:1,a:2"),
        ] {
            let error = index(fields, 8).of(key).unwrap_err();
            assert!(error.kind() == crate::ErrorKind::Invalid && error.message().contains(key), "{error}");
            assert!(index(fields, 8).place(&Key { partition: "", key }).is_err());
        }
    }

    #[test]
    fn new_groups_begin_with_their_bucket() {
        let index = index("id", 8);
        let id = index.place(&Key { partition: "p", key: "abc" }).unwrap().unwrap();
        assert!(id.starts_with("00000001-") && id.ends_with("-0") && id.len() == 38, "{id}");
    }

    #[test]
    fn what_contradicts_is_refused() {
        let config = |extra: &str| {
            TableConfig::parse(format!("hoodie.table.name=t\nhoodie.table.recordkey.fields=id\n{extra}").as_bytes())
                .unwrap()
        };
        let set = |k: &str, v: &str| BTreeMap::from([(k.to_owned(), v.to_owned())]);
        assert!(Bucket::new(&config(""), &BTreeMap::new()).unwrap_err().message().contains(BUCKETS));
        assert!(Bucket::new(&config(&format!("{BUCKETS}=4")), &set(BUCKETS, "8")).is_err());
        assert!(Bucket::new(&config(""), &set(BUCKETS, "0")).is_err());
        let two = BTreeMap::from([(BUCKETS.to_owned(), "4".to_owned()), (HASH_FIELD.to_owned(), "x".to_owned())]);
        assert!(Bucket::new(&config(""), &two).unwrap_err().message().contains("\"x\""));
        let consistent = set(ENGINE, "CONSISTENT_HASHING");
        assert!(Bucket::new(&config(""), &consistent).unwrap_err().message().contains("CONSISTENT"));
    }
}
