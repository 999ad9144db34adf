use super::*;
use crate::format::bloom::{BloomFilter, BloomKind};
use crate::format::hfile::HFile;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn settings(codec: Codec, block_len: usize) -> HFileSettings {
    let bloom = BloomFilter::new(BloomKind::Dynamic, 100, 1e-3, 1000).unwrap();
    HFileSettings { codec, block_len, ..HFileSettings::base_file("\"bytes\"", bloom) }
}

fn write(settings: HFileSettings, cells: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut writer = HFileWriter::new(Vec::new(), settings);
    cells.iter().for_each(|(row, value)| writer.append(row, value).unwrap());
    let (bytes, len) = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, len);
    bytes
}

fn read(bytes: Vec<u8>) -> (HFile<Bytes>, BTreeMap<Vec<u8>, Vec<u8>>) {
    let file = HFile::open(Bytes::from(bytes)).unwrap();
    let mut cells = BTreeMap::new();
    file.scan(|row, value| {
        cells.insert(row.to_vec(), value.to_vec());
        Ok(())
    })
    .unwrap();
    (file, cells)
}

/// The blocks of a file, from its first byte: offset, stored bytes after the header, payload length.
fn blocks(bytes: &[u8]) -> Vec<(u64, usize, usize)> {
    let (mut at, mut found) = (0, Vec::new());
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    while &bytes[at..at + 8] == b"DATABLK*" {
        found.push((at as u64, number(at + 8), number(at + 12)));
        at += 33 + number(at + 8);
    }
    found
}

#[test]
fn a_file_without_cells() {
    let (file, cells) = read(write(settings(Codec::Gz, 1 << 20), &BTreeMap::new()));
    assert!(cells.is_empty());
    assert_eq!((file.entry_count(), file.index_levels()), (0, 1));
    assert_eq!(file.info("minRecordKey").unwrap().as_ref(), b"");
    assert_eq!(file.info("schema").unwrap().as_ref(), b"\"bytes\"");
}

#[test]
fn file_information() {
    let cells = BTreeMap::from([(b"a".to_vec(), vec![1, 2]), (b"key-2".to_vec(), vec![3; 6])]);
    let (file, _) = read(write(settings(Codec::None, 1 << 20), &cells));
    let of = |key| file.info(key).unwrap().to_vec();
    assert_eq!((of("minRecordKey"), of("maxRecordKey")), (b"a".to_vec(), b"key-2".to_vec()));
    assert_eq!(of("bloomFilterTypeCode"), b"DYNAMIC_V0");
    assert_eq!(of("hfile.LASTKEY"), [&[0, 5][..], b"key-2", &[0], &[0x7f], &[0xff; 7], &[4]].concat());
    assert_eq!((of("hfile.AVG_KEY_LEN"), of("hfile.AVG_VALUE_LEN")), (vec![0, 0, 0, 15], vec![0, 0, 0, 4]));
    let (log, _) = read(write(HFileSettings::log_block("x"), &cells));
    assert!(log.info("minRecordKey").is_none() && log.info("bloomFilterTypeCode").is_none());
}

#[test]
fn rows_that_do_not_ascend_are_refused() {
    let mut writer = HFileWriter::new(Vec::new(), settings(Codec::Gz, 100));
    writer.append(b"b", b"").unwrap();
    assert!(writer.append(b"b", b"").is_err());
    assert!(writer.append(b"a", b"").is_err());
    assert!(writer.append(b"", b"").is_err());
    assert!(writer.append(&[b'c'; 32_768], b"").is_err());
    writer.append(&[b'c'; 32_767], b"").unwrap();
}

/// What Hudi's own reader sees as the end of a block's cells must lie after the start of its last cell.
#[test]
fn the_last_cell_of_a_block_is_longer_than_its_checksums() {
    // Cells of 22 bytes whose rows do not compress: 200 KiB of them have more checksums than that.
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32
    };
    let cells: BTreeMap<Vec<u8>, Vec<u8>> = (0..200_000).map(|_| (random().to_be_bytes().to_vec(), vec![])).collect();
    for codec in [Codec::None, Codec::Gz] {
        let bytes = write(settings(codec, 1 << 20), &cells);
        let blocks = blocks(&bytes);
        assert!(blocks.len() > 4);
        for (_, stored, _) in &blocks {
            assert!(25 > 4 * (33 + stored).div_ceil(16_384), "{stored} bytes");
        }
        assert!(read(bytes).1 == cells);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        cells in proptest::collection::btree_map(
            proptest::collection::vec(any::<u8>(), 1..200),
            proptest::collection::vec(any::<u8>(), 0..300), 0..60),
        block_len in 1usize..2000, gzip in any::<bool>(),
    ) {
        let codec = if gzip { Codec::Gz } else { Codec::None };
        let (file, found) = read(write(settings(codec, block_len), &cells));
        prop_assert_eq!(&found, &cells);
        for (row, value) in &cells {
            prop_assert_eq!(file.get(row).unwrap().unwrap(), value);
        }
        prop_assert_eq!(file.get(b"\xff\xff no such row").unwrap(), None);
    }
}
