//! Files that are read by range: HFiles and log files.
//!
//! A checksum would end nearly every damaged HFile at its first block, so the checksums are mended before it is opened; what
//! they guard against is a disk's mistake, and not what somebody wrote on purpose.

use bytes::Bytes;
use hudifs::format::avro::{Cursor, Schema};
use hudifs::format::hfile::HFile;
use hudifs::format::log::{BlockKind, HeaderKey, LogReader, avro_records, delete_keys, select};

const MAGICS: [&[u8; 8]; 5] = [b"DATABLK*", b"IDXROOT2", b"IDXINTE2", b"IDXLEAF2", b"FILEINF2"];

pub fn hfile(bytes: &[u8]) {
    read(Bytes::copy_from_slice(bytes));
    if let Some(mended) = without_checksums(bytes) {
        read(mended.into());
    }
}

fn read(bytes: Bytes) {
    let Ok(file) = HFile::open(bytes) else { return };
    let _ = (file.entry_count(), file.index_levels(), file.info("schema").is_some());
    let mut rows = Vec::new();
    let _ = file.scan(|row, value| {
        if rows.len() < 8 {
            rows.push((row.to_vec(), value));
        }
        Ok(())
    });
    for key in [&b"__all_partitions__"[..], b"", b"."].into_iter().chain(rows.iter().map(|(row, _)| &row[..])) {
        let _ = file.get(key);
    }
}

/// Says "no checksums" in every header of a block.
fn without_checksums(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut mended = bytes.to_vec();
    let mut changed = false;
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|r| r.len() > 33) {
        if MAGICS.iter().any(|m| rest.starts_with(&m[..])) && mended[at + 24] != 0 {
            mended[at + 24] = 0;
            changed = true;
        }
        at += 1;
    }
    changed.then_some(mended)
}

pub fn log(bytes: &[u8]) {
    let mut reader = LogReader::new(Bytes::copy_from_slice(bytes));
    let Ok(blocks) = reader.blocks() else { return };
    let heads: Result<Vec<_>, _> = blocks.iter().map(|b| b.head()).collect();
    if let Ok(heads) = heads {
        let _ = select(&heads, |_| true);
        let _ = select(&heads, |time| time.as_str().ends_with('0'));
    }
    for block in &blocks {
        let Ok(content) = reader.content(block) else { continue };
        match block.kind {
            BlockKind::HFile => read(content),
            BlockKind::Delete => drop(delete_keys(&content, |_, _| Ok(()))),
            BlockKind::Avro | BlockKind::Cdc => {
                let schema = block.header(HeaderKey::Schema).and_then(|t| Schema::parse(t).ok());
                let Ok(records) = avro_records(&content) else { continue };
                for record in records {
                    let (Ok(record), Some(schema)) = (record, &schema) else { break };
                    let _ = Cursor::new(schema, record).value();
                }
            }
            _ => {}
        }
    }
}
