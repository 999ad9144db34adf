//! Commit metadata: what a completed commit, delta commit or replace commit wrote and replaced.
//!
//! JSON in timeline layout 1 and in one-timestamp instants of layout 2, Avro in layout 2; told apart by their first bytes.
//! Unknown keys are passed over: releases before 0.10 wrote derived values too. An empty file is a commit without a word, as
//! Hudi has it, and says so in [`CommitMetadata::empty`]. Format: docs/format.md, "Commit metadata".

mod avro;
mod json;
mod profile;
mod stat;
mod text;

pub(in crate::format) use avro::{DEFINITIONS, put_commit};
pub use stat::{RuntimeStats, WriteStat};

use super::avro::Container;
use super::instant::{Action, Layout};
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
            metadata = Some(avro::commit(cursor)?);
            Ok(())
        })?;
        metadata.ok_or_else(|| Error::corrupt("commit metadata without a record"))
    }

    /// The bytes of an instant file of `layout`: JSON in layouts 0 and 1, Avro in layout 2. A replace commit has one field
    /// more, which is written even where nothing is replaced.
    pub fn encode(&self, layout: Layout, action: Action) -> Result<Vec<u8>> {
        let replace = action == Action::ReplaceCommit;
        match layout {
            Layout::V0 | Layout::V1 => self.to_json(replace),
            Layout::V2 => self.to_avro(replace),
        }
    }

    /// The JSON form of layout 1, laid out as Hudi does; `replace` adds `partitionToReplaceFileIds`.
    pub fn to_json(&self, replace: bool) -> Result<Vec<u8>> {
        text::commit(self, replace)
    }

    /// The Avro form of layout 2: a container of one `HoodieCommitMetadata`, or `HoodieReplaceCommitMetadata`.
    pub fn to_avro(&self, replace: bool) -> Result<Vec<u8>> {
        avro::encode(self, replace)
    }

    /// Adds the stat of a file to its partition.
    pub fn add(&mut self, partition: &str, stat: WriteStat) {
        match self.written.iter_mut().find(|p| p.partition == partition) {
            Some(entry) => entry.stats.push(stat),
            None => self.written.push(PartitionStats { partition: partition.to_owned(), stats: vec![stat] }),
        }
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
