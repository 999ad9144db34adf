//! Commit metadata: what a completed commit, delta commit or replace commit wrote and replaced.
//!
//! JSON in timeline layout 1 and in one-timestamp instants of layout 2, Avro in layout 2; told apart by their first bytes.
//! Unknown keys are passed over: releases before 0.10 wrote derived values too. An empty file is a commit without a word, as
//! Hudi has it, and says so in [`CommitMetadata::empty`]. Format: docs/format.md, "Commit metadata".

mod json;

use super::avro::{Container, Cursor};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// What one instant wrote and replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitMetadata {
    /// The operation in upper case: `UPSERT`, `CLUSTER`, …; `None` in very old commits.
    pub operation: Option<String>,
    /// A compaction.
    pub compacted: bool,
    /// The files written, by partition.
    pub written: Vec<PartitionStats>,
    /// The file groups replaced, by partition.
    pub replaced: Vec<ReplacedGroups>,
    /// `extraMetadata`: the schema, checkpoints.
    pub extra: BTreeMap<String, String>,
    /// The file held nothing at all: written before a crash, on a store without atomic writes.
    pub empty: bool,
}

/// The files that an instant wrote to one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionStats {
    /// The partition's path.
    pub partition: String,
    /// One entry a file.
    pub stats: Vec<WriteStat>,
}

/// One written file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteStat {
    /// The file group.
    pub file_id: String,
    /// The file's path relative to the table; `None` in the work profile of an inflight instant.
    pub path: Option<String>,
    /// The base instant of the slice that was there before; `None` for a new group.
    pub previous: Option<String>,
    /// Bytes of the file.
    pub size: Option<u64>,
    /// Records written.
    pub records: Option<u64>,
}

/// The file groups that an instant replaced in one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplacedGroups {
    /// The partition's path.
    pub partition: String,
    /// The replaced groups.
    pub file_ids: Vec<String>,
}

impl CommitMetadata {
    /// Reads either encoding; errors are `Corrupt`.
    pub fn parse(bytes: &[u8]) -> Result<CommitMetadata> {
        if bytes.is_empty() {
            return Ok(CommitMetadata { empty: true, ..CommitMetadata::default() });
        }
        if !Container::is_container(bytes) {
            return json::parse(bytes);
        }
        let mut metadata = None;
        Container::open(bytes)?.records(|cursor| {
            metadata = Some(avro_commit(cursor)?);
            Ok(())
        })?;
        metadata.ok_or_else(|| Error::corrupt("commit metadata without a record"))
    }

    /// The write stats of one partition.
    pub fn stats_of(&self, partition: &str) -> &[WriteStat] {
        self.written.iter().find(|p| p.partition == partition).map_or(&[], |p| &p.stats)
    }

    /// The table's schema (Avro, JSON text) as this commit saw it.
    pub fn schema(&self) -> Option<&str> {
        self.extra.get("schema").map(String::as_str).filter(|s| !s.is_empty())
    }
}

impl WriteStat {
    /// The file's name without folders.
    pub fn file_name(&self) -> Option<&str> {
        self.path.as_deref().map(|p| p.rsplit('/').next().unwrap_or(p))
    }

    fn tidy(mut self) -> WriteStat {
        // Writers put the text "null" where a group is new.
        self.previous = self.previous.filter(|p| p != "null");
        self
    }
}

fn avro_commit(cursor: &mut Cursor<'_, '_>) -> Result<CommitMetadata> {
    let mut metadata = CommitMetadata::default();
    cursor.record(|field, cursor| {
        match field {
            "operationType" => metadata.operation = cursor.str()?.map(str::to_ascii_uppercase),
            "compacted" => metadata.compacted = cursor.bool()?.unwrap_or(false),
            "partitionToWriteStats" => {
                cursor.map(|partition, cursor| {
                    let mut entry = PartitionStats { partition: partition.to_owned(), stats: Vec::new() };
                    cursor.array(|cursor| {
                        entry.stats.push(avro_stat(cursor)?.tidy());
                        Ok(())
                    })?;
                    metadata.written.push(entry);
                    Ok(())
                })?;
            }
            "partitionToReplaceFileIds" => {
                cursor.map(|partition, cursor| {
                    let mut entry = ReplacedGroups { partition: partition.to_owned(), file_ids: Vec::new() };
                    cursor.array(|cursor| {
                        entry.file_ids.extend(cursor.str()?.map(str::to_owned));
                        Ok(())
                    })?;
                    metadata.replaced.push(entry);
                    Ok(())
                })?;
            }
            "extraMetadata" => {
                cursor.map(|key, cursor| {
                    metadata.extra.extend(cursor.str()?.map(|v| (key.to_owned(), v.to_owned())));
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(metadata)
}

fn avro_stat(cursor: &mut Cursor<'_, '_>) -> Result<WriteStat> {
    let mut stat = WriteStat::default();
    cursor.record(|field, cursor| {
        match field {
            "fileId" => stat.file_id = cursor.str()?.unwrap_or_default().to_owned(),
            "path" => stat.path = cursor.str()?.map(str::to_owned),
            "prevCommit" => stat.previous = cursor.str()?.map(str::to_owned),
            "fileSizeInBytes" => stat.size = cursor.long()?.and_then(|n| n.try_into().ok()),
            "numWrites" => stat.records = cursor.long()?.and_then(|n| n.try_into().ok()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(stat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn json_of_a_replacement() {
        let text = r#"{
          "partitionToWriteStats" : { "30" : [ {
            "fileId" : "ebcb-0", "path" : "30/ebcb-0_0-111-154_20240707001303088.parquet", "cdcStats" : null,
            "prevCommit" : "null", "numWrites" : 1, "fileSizeInBytes" : 440617, "recordsStats" : {"val": null} } ],
            "40": null },
          "compacted" : false, "totalScanTime": 7, "fileIdAndRelativePaths": {"a": "b"},
          "extraMetadata" : { "schema" : "{}", "none": null },
          "operationType" : "insert_overwrite_table",
          "partitionToReplaceFileIds" : { "30" : [ "d398-0" ], "20" : [ "8816-0", "4f26-0" ], "10": [] }
        }"#;
        let metadata = CommitMetadata::parse(text.as_bytes()).unwrap();
        assert_eq!(metadata.operation.as_deref(), Some("INSERT_OVERWRITE_TABLE"));
        let [stat] = metadata.stats_of("30") else { panic!() };
        assert_eq!(stat.file_name(), Some("ebcb-0_0-111-154_20240707001303088.parquet"));
        assert_eq!((stat.size, stat.records, &stat.previous), (Some(440617), Some(1), &None));
        let replaced: Vec<(&str, usize)> =
            metadata.replaced.iter().map(|r| (r.partition.as_str(), r.file_ids.len())).collect();
        assert_eq!(replaced, [("10", 0), ("20", 2), ("30", 1)]);
        assert_eq!(metadata.schema(), Some("{}"));
        assert!(!metadata.empty);
    }

    #[test]
    fn odd_contents() {
        assert!(CommitMetadata::parse(b"").unwrap().empty);
        assert_eq!(CommitMetadata::parse(b"{}").unwrap(), CommitMetadata::default());
        let nulls = br#"{"partitionToWriteStats":null,"operationType":null,"extraMetadata":null,"compacted":null,
            "partitionToReplaceFileIds":null}"#;
        assert_eq!(CommitMetadata::parse(nulls).unwrap(), CommitMetadata::default());
        let odd = br#"{"partitionToWriteStats":{"p":[{"fileId":"f","fileSizeInBytes":-1,"numWrites":1.5}]}}"#;
        let stat = CommitMetadata::parse(odd).unwrap().stats_of("p")[0].clone();
        assert_eq!((stat.size, stat.records), (None, None));
        for bad in
            [&b"{\"partitionToWriteStats\" : { \"30\" : [ {"[..], b"[]", b"null", b"\0\0\0", b"Obj\x01", b"Obj\x01\0"]
        {
            assert_eq!(CommitMetadata::parse(bad).unwrap_err().kind(), crate::ErrorKind::Corrupt, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..100), avro in any::<bool>()) {
            let head: &[u8] = if avro { b"Obj\x01" } else { b"{" };
            let _ = CommitMetadata::parse(&[head, &bytes].concat());
        }
    }
}
