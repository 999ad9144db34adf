//! The values of metadata table records, in Avro's binary form.
//!
//! Written by hand, because a first load has a record for each row of the table. A value is five empty meta columns, an empty
//! key (the row key of the HFile carries it), the record's type, and one payload among the empty others.
//! What Hudi's readers take for granted is kept: files have a size, and every field of an index entry has a value.

use super::schema::RecordFormat;
use crate::error::{Error, Result};
use crate::metadata::placement::Placement;
use crate::metadata::stats::Stats;

/// `type` of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::metadata) enum RecordType {
    /// The list of partitions.
    Partitions = 1,
    /// The files of a partition.
    Files = 2,
    /// The range of a column in a file.
    ColumnStats = 3,
    /// The file group of a key.
    RecordIndex = 5,
    /// The range of a column in a partition.
    PartitionStats = 6,
}

/// Payload fields between `type` and the one that a record has, all empty: their number tells the field.
const FILES_FIELD: usize = 0;
const STATS_FIELD: usize = 2;
const RECORD_INDEX_FIELD: usize = 3;

/// Writes values of one format.
#[derive(Clone, Copy, Debug)]
pub(in crate::metadata) struct Encoder {
    format: RecordFormat,
}

impl Encoder {
    pub fn new(format: RecordFormat) -> Encoder {
        Encoder { format }
    }

    /// A record of names with sizes; `None` marks a deletion. Partitions have size 0, files never.
    pub fn files<'a>(
        self,
        kind: RecordType,
        entries: impl ExactSizeIterator<Item = (&'a str, Option<u64>)>,
    ) -> Result<Vec<u8>> {
        let mut out = self.start(kind, FILES_FIELD);
        if entries.len() > 0 {
            put_long(&mut out, entries.len() as i64);
        }
        for (name, size) in entries {
            if kind == RecordType::Files && size == Some(0) {
                return Err(Error::internal(format!("{name:?} would be listed with a size of 0")));
            }
            put_text(&mut out, name);
            put_long(&mut out, size.and_then(|s| i64::try_from(s).ok()).unwrap_or(0));
            out.push(u8::from(size.is_none()));
        }
        put_long(&mut out, 0);
        Ok(self.finish(out, FILES_FIELD))
    }

    /// The range of a column.
    pub fn stats(self, kind: RecordType, stats: &Stats) -> Vec<u8> {
        let mut out = self.start(kind, STATS_FIELD);
        for text in [&stats.file, &stats.column] {
            put_branch(&mut out, 1);
            put_text(&mut out, text);
        }
        stats.min.put(&mut out);
        stats.max.put(&mut out);
        for count in [stats.values, stats.nulls, stats.bytes, stats.uncompressed_bytes] {
            put_branch(&mut out, 1);
            put_long(&mut out, count);
        }
        out.push(u8::from(stats.is_deleted));
        if self.format >= RecordFormat::V8 {
            out.push(u8::from(stats.is_tight));
        }
        if self.format >= RecordFormat::V9 {
            match &stats.value_type {
                None => put_branch(&mut out, 0),
                Some((ordinal, info)) => {
                    put_branch(&mut out, 1);
                    put_long(&mut out, i64::from(*ordinal));
                    put_branch(&mut out, usize::from(info.is_some()));
                    info.iter().for_each(|info| put_text(&mut out, info));
                }
            }
        }
        self.finish(out, STATS_FIELD)
    }

    /// Where a key lives.
    pub fn placement(self, placement: &Placement<'_>) -> Vec<u8> {
        let mut out = self.start(RecordType::RecordIndex, RECORD_INDEX_FIELD);
        put_branch(&mut out, 1);
        put_text(&mut out, placement.partition);
        for bits in [placement.high, placement.low] {
            put_branch(&mut out, 1);
            put_long(&mut out, bits);
        }
        put_branch(&mut out, 1);
        put_long(&mut out, i64::from(placement.index));
        put_branch(&mut out, 1);
        put_text(&mut out, placement.raw);
        put_branch(&mut out, 1);
        put_long(&mut out, placement.instant_ms);
        put_long(&mut out, i64::from(placement.encoding));
        if self.format >= RecordFormat::V8 {
            put_branch(&mut out, 0);
        }
        self.finish(out, RECORD_INDEX_FIELD)
    }

    fn start(self, kind: RecordType, field: usize) -> Vec<u8> {
        // Five meta columns and the key.
        let mut out = vec![0; 6];
        put_long(&mut out, kind as i64);
        out.extend(std::iter::repeat_n(0, field));
        put_branch(&mut out, 1);
        out
    }

    fn finish(self, mut out: Vec<u8>, field: usize) -> Vec<u8> {
        let fields = if self.format >= RecordFormat::V8 { 5 } else { 4 };
        out.extend(std::iter::repeat_n(0, fields - 1 - field));
        out
    }
}

pub(in crate::metadata) fn put_branch(out: &mut Vec<u8>, branch: usize) {
    put_long(out, branch as i64);
}

pub(in crate::metadata) fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

pub(in crate::metadata) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(in crate::metadata) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}
