use super::*;
use crate::error::ErrorKind;
use proptest::prelude::*;
use samples::{Generation, HFileWriter};

#[path = "../../../tests/it/hfile_writer.rs"]
mod samples;

const GENERATIONS: [Generation; 3] = [Generation::HBase, Generation::Native, Generation::FirstNative];

fn cells(count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count).map(|i| (format!("row-{:06}", i * 2).into_bytes(), format!("value {i}").into_bytes())).collect()
}

fn open(bytes: &[u8]) -> Result<HFile<Bytes>> {
    HFile::open(Bytes::copy_from_slice(bytes))
}

/// Every way of writing: all generations, with and without gzip, one to four index levels.
fn writers() -> Vec<HFileWriter> {
    let mut all = Vec::new();
    for generation in GENERATIONS {
        for gzip in [false, true] {
            for (block_size, fanout) in [(1 << 20, 0), (100, 0), (100, 5), (100, 2), (1, 3)] {
                all.push(HFileWriter { generation, gzip, block_size, fanout });
            }
        }
    }
    all
}

#[test]
fn lookups_and_scans_agree_for_all_writers() {
    let cells = cells(60);
    for writer in writers() {
        let file = open(&writer.write(&cells, "\"bytes\"")).unwrap();
        let mut scanned = Vec::new();
        file.scan(|row, value| {
            scanned.push((row.to_vec(), value.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(scanned, cells, "{writer:?}");
        for (i, (row, value)) in cells.iter().enumerate() {
            assert_eq!(file.get(row).unwrap().unwrap(), value, "{writer:?}");
            let between = format!("row-{:06}", i * 2 + 1);
            assert_eq!(file.get(between.as_bytes()).unwrap(), None, "{writer:?}");
        }
        assert_eq!(file.get(b"").unwrap(), None);
        assert_eq!(file.get(b"a").unwrap(), None);
        assert_eq!(file.get(b"z").unwrap(), None);
        assert_eq!(file.entry_count(), 60);
        assert_eq!(file.info("schema").unwrap().as_ref(), b"\"bytes\"");
    }
    assert_eq!(open(&writers()[4].write(&cells, "")).unwrap().index_levels(), 4);
}

#[test]
fn long_rows_use_more_than_one_byte_for_their_length() {
    let cells: Vec<_> = [126usize, 127, 128, 300, 32767].iter().map(|n| (vec![b'k'; *n], vec![1])).collect();
    for writer in writers() {
        let file = open(&writer.write(&cells, "")).unwrap();
        for (row, _) in &cells {
            assert_eq!(file.get(row).unwrap().unwrap().as_ref(), [1]);
        }
    }
}

#[test]
fn a_file_without_cells_is_read() {
    for writer in writers().into_iter().filter(|w| w.fanout == 0) {
        let file = open(&writer.write(&[], "")).unwrap();
        file.scan(|_, _| panic!("a cell")).unwrap();
        assert_eq!(file.get(b"x").unwrap(), None);
    }
}

#[test]
fn a_flipped_bit_fails_the_checksum() {
    let writer = HFileWriter { generation: Generation::HBase, gzip: false, block_size: 100, fanout: 0 };
    let mut bytes = writer.write(&cells(3), "");
    bytes[60] ^= 1;
    let error = open(&bytes).unwrap().get(b"row-000000").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("checksum of chunk 0"), "{error}");
}

#[test]
fn other_codecs_are_refused_by_name() {
    let writer = HFileWriter { generation: Generation::Native, gzip: false, block_size: 100, fanout: 0 };
    let mut bytes = writer.write(&cells(1), "");
    let trailer = bytes.len() - 4096;
    let codec = bytes[trailer..].windows(2).position(|w| w == [12 << 3, 2]).unwrap();
    bytes[trailer + codec + 1] = 6;
    let error = open(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("ZSTD"), "{error}");
}

#[test]
fn an_index_that_goes_in_circles_ends() {
    // Every entry of every node points at the first node of its level: each scan would multiply at each level.
    let writer = HFileWriter { generation: Generation::Native, gzip: false, block_size: 1, fanout: 3 };
    let mut bytes = writer.write(&cells(60), "");
    let leaf = bytes.windows(8).position(|w| w == b"IDXLEAF2").unwrap();
    let first = bytes.windows(8).position(|w| w == b"IDXINTE2").unwrap();
    let entries = first + 33 + 4 + 4 * 4;
    let entry_len = 8 + 4 + 2 + 10;
    for i in 0..3 {
        bytes[entries + i * entry_len..][..8].copy_from_slice(&(leaf as u64).to_be_bytes());
    }
    let error = open(&bytes).unwrap().scan(|_, _| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn hadoop_numbers() {
    for (bytes, value) in [
        (&[0x1eu8][..], 30),
        (&[0x7f], 127),
        (&[0x90], -112),
        (&[0x8f, 0x82], 130),
        (&[0x8e, 0x01, 0x00], 256),
        (&[0x87, 0x82], -131),
    ] {
        assert_eq!(index::hadoop_vlong(&mut crate::format::input::Input::new(bytes)).unwrap(), value, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn any_change_is_an_answer_or_an_error(
        writer in 0usize..30,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        truncate in any::<bool>(),
    ) {
        let mut bytes = writers()[writer].write(&cells(40), "x");
        // Half of the edits go where the structure is: near the end.
        for (i, (at, value)) in edits.iter().enumerate() {
            let at = if i % 2 == 0 { at.index(bytes.len()) } else { bytes.len() - 1 - at.index(bytes.len().min(4600)) };
            bytes[at] = *value;
        }
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(file) = open(&bytes) {
            let _ = file.get(b"row-000020");
            let _ = file.get(b"row-000077");
            let _ = file.scan(|_, _| Ok(()));
        }
    }
}
