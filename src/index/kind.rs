//! [`IndexKind`]: the kinds by name, and which one a table has.
//!
//! Hudi keeps the kind in the settings of each writer and not with the table. Two writers with different kinds disagree about
//! which keys are there, so that here the table's properties keep it: under names of our own, `hudifs.index.type` for
//! `hoodie.index.type`, because some of Hudi's procedures take settings from the properties, and fail where one is without others.

use crate::error::{Error, Result};
use crate::format::properties::TableConfig;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The setting, and the table's property.
const TYPE: &str = "hoodie.index.type";
/// What a bucket index must know, in the settings and in the table's properties.
pub(super) const BUCKETS: &str = "hoodie.bucket.index.num.buckets";
/// The columns whose values choose the bucket.
pub(super) const HASH_FIELD: &str = "hoodie.bucket.index.hash.field";
/// How buckets are chosen.
pub(super) const ENGINE: &str = "hoodie.index.bucket.engine";

/// A kind of index, by Hudi's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Filters and key ranges in the footers of base files; keys are unique in their partition.
    Bloom,
    /// The same over all partitions; keys are unique in the table.
    GlobalBloom,
    /// The keys of the base files of the partitions touched.
    Simple,
    /// The keys of all base files.
    GlobalSimple,
    /// The file group is a function of the key.
    Bucket,
    /// The metadata table's `record_index`; keys are unique in the table.
    RecordLevel,
    /// No lookups: only inserts are possible.
    None,
}

/// The name in the table's properties of a setting of Hudi.
pub(super) fn kept_name(setting: &str) -> String {
    setting.replacen("hoodie.", "hudifs.", 1)
}

/// What the table's properties keep of a setting: under our name, or under Hudi's where somebody put it there.
pub(super) fn kept<'c>(config: &'c TableConfig, setting: &str) -> Option<&'c str> {
    config.get(&kept_name(setting)).or_else(|| config.get(setting))
}

impl IndexKind {
    /// True for settings that a table's properties keep under names of our own.
    pub fn is_kept(setting: &str) -> bool {
        [TYPE, BUCKETS, HASH_FIELD, ENGINE].contains(&setting)
    }

    /// Hudi's name of the kind, as in `hoodie.index.type`.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Bloom => "BLOOM",
            IndexKind::GlobalBloom => "GLOBAL_BLOOM",
            IndexKind::Simple => "SIMPLE",
            IndexKind::GlobalSimple => "GLOBAL_SIMPLE",
            IndexKind::Bucket => "BUCKET",
            IndexKind::RecordLevel => "RECORD_INDEX",
            IndexKind::None => "NONE",
        }
    }

    /// The kind that a table is written with: `asked` for, or in the settings, or kept by the table. Where nobody says, the
    /// record index if the table has one, else bloom.
    ///
    /// `Invalid` if what is asked for is not what the table keeps: then two writers would not agree on which keys are there.
    pub fn of_table(
        config: &TableConfig,
        asked: Option<IndexKind>,
        settings: &BTreeMap<String, String>,
    ) -> Result<IndexKind> {
        let set = settings.get(TYPE).map(|t| t.parse()).transpose()?;
        if let (Some(asked), Some(set)) = (asked, set)
            && asked != set
        {
            return Err(Error::invalid(format!("{} is asked for, and {TYPE}={} is set", asked.name(), set.name())));
        }
        let kept = self::kept(config, TYPE)
            .map(str::parse::<IndexKind>)
            .transpose()
            .map_err(|e| e.context("hoodie.properties"))?;
        match (asked.or(set), kept) {
            (Some(asked), Some(kept)) if asked != kept => Err(Error::invalid(format!(
                "the table is written with the index {}, not {}",
                kept.name(),
                asked.name()
            ))
            .with_hint(format!(
                "leave the index out, or change {} in hoodie.properties once no writer is active",
                kept_name(TYPE)
            ))),
            (Some(kind), _) | (None, Some(kind)) => Ok(kind),
            (None, None) if config.metadata_partitions().contains(&"record_index") => Ok(IndexKind::RecordLevel),
            (None, None) => Ok(IndexKind::Bloom),
        }
    }

    /// What the table's properties must keep of this kind, as names and values: for a new table, and for one that a writer of
    /// ours writes for the first time.
    ///
    /// `Invalid` where the kind needs a setting that is not given.
    pub fn properties(
        self,
        config: &TableConfig,
        settings: &BTreeMap<String, String>,
    ) -> Result<Vec<(String, String)>> {
        let mut kept = vec![(kept_name(TYPE), self.name().to_owned())];
        if self == IndexKind::Bucket {
            kept.extend(super::bucket::Bucket::new(config, settings)?.properties());
        }
        Ok(kept)
    }
}

impl FromStr for IndexKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.trim().to_ascii_uppercase().replace('-', "_").as_str() {
            "BLOOM" => IndexKind::Bloom,
            "GLOBAL_BLOOM" => IndexKind::GlobalBloom,
            "SIMPLE" => IndexKind::Simple,
            "GLOBAL_SIMPLE" => IndexKind::GlobalSimple,
            "BUCKET" => IndexKind::Bucket,
            "RECORD_INDEX" | "GLOBAL_RECORD_LEVEL_INDEX" | "RECORD_LEVEL" => IndexKind::RecordLevel,
            "NONE" => IndexKind::None,
            _ => {
                return Err(Error::unsupported(format!("index type {text:?}")).with_hint(
                    "the kinds are BLOOM, GLOBAL_BLOOM, SIMPLE, GLOBAL_SIMPLE, BUCKET, RECORD_INDEX and NONE",
                ));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn config(extra: &str) -> TableConfig {
        TableConfig::parse(format!("hoodie.table.name=t\n{extra}").as_bytes()).unwrap()
    }

    fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn every_kind_is_found_by_its_name() {
        use IndexKind::*;
        for kind in [Bloom, GlobalBloom, Simple, GlobalSimple, Bucket, RecordLevel, None] {
            assert_eq!(kind.name().parse::<IndexKind>().unwrap(), kind);
            assert_eq!(kind.name().to_lowercase().replace('_', "-").parse::<IndexKind>().unwrap(), kind);
        }
        assert!("HBASE".parse::<IndexKind>().unwrap_err().message().contains("HBASE"));
    }

    #[test]
    fn what_the_table_keeps_stands() {
        let none = settings(&[]);
        assert_eq!(IndexKind::of_table(&config(""), None, &none).unwrap(), IndexKind::Bloom);
        let records = config("hoodie.table.metadata.partitions=files,record_index");
        assert_eq!(IndexKind::of_table(&records, None, &none).unwrap(), IndexKind::RecordLevel);
        assert_eq!(IndexKind::of_table(&records, Some(IndexKind::Simple), &none).unwrap(), IndexKind::Simple);
        let kept = config("hoodie.index.type=SIMPLE");
        assert_eq!(IndexKind::of_table(&kept, None, &none).unwrap(), IndexKind::Simple);
        assert_eq!(IndexKind::of_table(&kept, Some(IndexKind::Simple), &none).unwrap(), IndexKind::Simple);
        let error = IndexKind::of_table(&kept, Some(IndexKind::Bloom), &none).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.message().contains("SIMPLE, not BLOOM"), "{error}");
        assert!(IndexKind::of_table(&kept, None, &settings(&[(TYPE, "bucket")])).is_err());
        assert!(IndexKind::of_table(&config(""), Some(IndexKind::Bloom), &settings(&[(TYPE, "bucket")])).is_err());
    }

    #[test]
    fn a_bucket_index_keeps_its_shape() {
        let table = config("hoodie.table.recordkey.fields=a,b");
        let error = IndexKind::Bucket.properties(&table, &settings(&[])).unwrap_err();
        assert!(error.message().contains(BUCKETS), "{error}");
        let kept = IndexKind::Bucket.properties(&table, &settings(&[(BUCKETS, "8")])).unwrap();
        let kept: Vec<(&str, &str)> = kept.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let names = [TYPE, BUCKETS, HASH_FIELD, ENGINE].map(kept_name);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(kept, names.into_iter().zip(["BUCKET", "8", "a,b", "SIMPLE"]).collect::<Vec<_>>());
        let text: String = kept.iter().map(|(k, v)| format!("{k}={v}\n")).collect();
        let again = config(&format!("hoodie.table.recordkey.fields=a,b\n{text}"));
        assert_eq!(IndexKind::of_table(&again, None, &settings(&[])).unwrap(), IndexKind::Bucket);
        assert_eq!(IndexKind::Bucket.properties(&again, &settings(&[])).unwrap().len(), 4);
        assert_eq!(IndexKind::Simple.properties(&table, &settings(&[])).unwrap().len(), 1);
    }
}
