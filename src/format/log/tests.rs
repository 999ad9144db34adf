use super::*;
use crate::error::ErrorKind;
use bytes::Bytes;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn text_map(entries: &[(i32, &str)]) -> Vec<u8> {
    let mut out = (entries.len() as i32).to_be_bytes().to_vec();
    for (key, value) in entries {
        out.extend(key.to_be_bytes());
        out.extend((value.len() as i32).to_be_bytes());
        out.extend(value.as_bytes());
    }
    out
}

fn block(kind: i32, header: &[(i32, &str)], content: &[u8]) -> Vec<u8> {
    let mut body = [1i32.to_be_bytes(), kind.to_be_bytes()].concat();
    body.extend(text_map(header));
    body.extend((content.len() as i64).to_be_bytes());
    body.extend(content);
    body.extend(text_map(&[]));
    let len = body.len() as i64 + 8;
    [&b"#HUDI#"[..], &len.to_be_bytes(), &body, &(len + 6).to_be_bytes()].concat()
}

fn read(bytes: &[u8]) -> Result<Vec<LogBlock>> {
    LogReader::new(Bytes::copy_from_slice(bytes)).blocks()
}

fn kinds(bytes: &[u8]) -> Vec<BlockKind> {
    read(bytes).unwrap().iter().map(|b| b.kind).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|d| digit(d[0]) << 4 | digit(d[1])).collect()
}

/// As Java wrote it into the first log file of a table of version 6 that was rolled back.
fn rollback_block() -> Vec<u8> {
    let mut bytes = hex("23 48 55 44 49 23 00 00 00 00 00 00 00 5b 00 00 00 01 00 00 00 00 00 00 00 03");
    bytes.extend(hex("00 00 00 00 00 00 00 11"));
    bytes.extend(b"20250126040936578");
    bytes.extend(hex("00 00 00 03 00 00 00 01"));
    bytes.extend(b"0");
    bytes.extend(hex("00 00 00 01 00 00 00 11"));
    bytes.extend(b"20250126040826878");
    bytes.extend(hex("00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 61"));
    bytes
}

/// As Java begins each file group of a metadata table.
fn empty_delete_block() -> Vec<u8> {
    let mut bytes = hex("23 48 55 44 49 23 00 00 00 00 00 00 00 42 00 00 00 01 00 00 00 01");
    bytes.extend(hex("00 00 00 01 00 00 00 00 00 00 00 11"));
    bytes.extend(b"00000000000000000");
    bytes.extend(hex("00 00 00 00 00 00 00 09 00 00 00 03 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 00 48"));
    bytes
}

#[test]
fn blocks_that_java_wrote() {
    let (rollback, delete) = (rollback_block(), empty_delete_block());
    assert_eq!((rollback.len(), delete.len()), (105, 80));
    let blocks = read(&[rollback, delete.clone()].concat()).unwrap();
    assert_eq!(blocks[0].kind, BlockKind::Command);
    assert_eq!(blocks[0].len, 105);
    let head = blocks[0].head().unwrap();
    assert_eq!(head.instant.as_str(), "20250126040936578");
    assert_eq!(head.target.unwrap().as_str(), "20250126040826878");
    assert_eq!(blocks[1].kind, BlockKind::Delete);
    assert_eq!(blocks[1].head().unwrap().instant.as_str(), "00000000000000000");
    let content = LogReader::new(Bytes::from(delete)).content(&read(&empty_delete_block()).unwrap()[0]).unwrap();
    delete_keys(&content, |key, _| panic!("{key}")).unwrap();
}

#[test]
fn keys_of_a_delete_block_that_java_wrote() {
    // Two keys of a record index: union branches, texts, IntWrapper 0 as ordering value, end of the array.
    let key = |key: &str| {
        [hex("02 3e"), key.as_bytes().to_vec(), hex("02 18"), b"record_index".to_vec(), hex("04 00")].concat()
    };
    let (first, second) = ("txn_id:TXN-004,account_id:ACC-C", "txn_id:TXN-006,account_id:ACC-C");
    let content = [hex("00000003 00000064 04"), key(first), key(second), hex("00")].concat();
    let mut keys = Vec::new();
    delete_keys(&content, |key, partition| {
        keys.push((key.to_owned(), partition.map(str::to_owned)));
        Ok(())
    })
    .unwrap();
    let partition = Some("record_index".to_owned());
    assert_eq!(keys, [(first.to_owned(), partition.clone()), (second.to_owned(), partition)]);
}

#[test]
fn kryo_delete_blocks_are_refused_by_name() {
    // As Java begins each file group of a metadata table of table version 4.
    let mut empty = hex("00000002 00000030 0100");
    empty.extend(b"[Lorg.apache.hudi.common.model.DeleteRecord\xbb\x01\x01");
    assert_eq!(empty.len(), 56);
    delete_keys(&empty, |key, _| panic!("{key}")).unwrap();
    *empty.last_mut().unwrap() = 2;
    assert_eq!(delete_keys(&empty, |_, _| Ok(())).unwrap_err().kind(), ErrorKind::Unsupported);
    for version in [1, 2] {
        let content = [&[0, 0, 0, version][..], &[0, 0, 0, 1, 9]].concat();
        let error = delete_keys(&content, |_, _| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("Kryo"));
    }
}

#[test]
fn avro_records_of_a_block() {
    let content = hex("00000003 00000002 00000002 aabb 00000000");
    let records: Vec<_> = avro_records(&content).unwrap().map(|r| r.unwrap().to_vec()).collect();
    assert_eq!(records, [vec![0xaa, 0xbb], vec![]]);
    let short = hex("00000003 7fffffff 00000002 aa");
    assert_eq!(avro_records(&short).unwrap().count(), 1, "ends with the failure");
    assert!(avro_records(&short).unwrap().next().unwrap().is_err());
}

#[test]
fn a_block_that_was_cut_is_passed_over() {
    let whole = block(3, &[(0, "001")], b"content");
    for cut in 6..whole.len() {
        let bytes = [&whole[..], &whole[..cut], &whole].concat();
        let blocks = read(&bytes).unwrap();
        let found: Vec<_> = blocks.iter().map(|b| b.kind).collect();
        assert_eq!(found, [BlockKind::Avro, BlockKind::Corrupt, BlockKind::Avro], "cut at {cut}");
        assert_eq!(blocks[1].len, cut as u64);
        // At the end of the file too.
        assert_eq!(kinds(&bytes[..whole.len() + cut]), [BlockKind::Avro, BlockKind::Corrupt], "cut at {cut}");
    }
}

#[test]
fn a_tail_shorter_than_a_magic_is_the_end() {
    let whole = block(1, &[(0, "001")], b"");
    for tail in 1..6 {
        assert_eq!(kinds(&[&whole[..], &whole[..tail]].concat()), [BlockKind::Delete]);
    }
    assert_eq!(kinds(b""), []);
}

#[test]
fn what_follows_a_block_must_be_a_block() {
    let whole = block(1, &[(0, "001")], b"");
    // Junk after a block makes the block before it suspect, as in Java.
    assert_eq!(kinds(&[&whole[..], b"JUNKJUNK"].concat()), [BlockKind::Corrupt]);
    assert_eq!(read(b"JUNKJUNK").unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_file_of_magics_is_given_up() {
    let bytes = b"#HUDI#".repeat(100_000);
    let start = Instant::now();
    assert!(read(&bytes).unwrap_err().message().contains("more than 1000 damaged"));
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_magic_across_two_pieces_of_the_search_is_found() {
    let whole = block(1, &[(0, "001")], b"");
    for shift in 0..8 {
        let junk = vec![b'#'; (1 << 20) - shift];
        let bytes = [&whole[..20], &junk, &whole].concat();
        assert_eq!(kinds(&bytes), [BlockKind::Corrupt, BlockKind::Delete], "shift {shift}");
    }
}

#[test]
fn contents_and_headers_larger_than_a_window_are_read() {
    let schema = "s".repeat(3 << 20);
    let content = vec![7; 5 << 20];
    let bytes = [block(3, &[(2, &schema), (0, "001")], &content), rollback_block()].concat();
    let mut reader = LogReader::new(Bytes::from(bytes));
    let blocks = reader.blocks().unwrap();
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].header(HeaderKey::Schema).unwrap().len(), 3 << 20);
    assert_eq!(reader.content(&blocks[0]).unwrap(), content);
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let mut version = block(3, &[(0, "001")], b"");
    version[17] = 0;
    for (bytes, word) in [
        (version, "version 0"),
        (block(9, &[(0, "001")], b""), "kind 9"),
        (block(3, &[(0, "001"), (9, "x")], b""), "header key 9"),
    ] {
        let error = read(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(word), "{error}");
    }
    let command = block(0, &[(0, "001"), (3, "1")], b"");
    assert!(read(&command).unwrap()[0].head().is_err());
    assert!(read(&block(3, &[], b"")).unwrap()[0].head().is_err(), "a block without an instant");
}

fn head(kind: BlockKind, instant: &str) -> BlockHead {
    BlockHead { kind, instant: instant.parse().unwrap(), target: None, compacted: Vec::new() }
}

fn data(instant: &str) -> BlockHead {
    head(BlockKind::Avro, instant)
}

fn rollback(instant: &str, target: &str) -> BlockHead {
    BlockHead { target: Some(target.parse().unwrap()), ..head(BlockKind::Command, instant) }
}

fn compacted(instant: &str, times: &[&str]) -> BlockHead {
    BlockHead { compacted: times.iter().map(|t| t.parse().unwrap()).collect(), ..data(instant) }
}

#[test]
fn a_rollback_drops_what_came_before_it() {
    let delete = head(BlockKind::Delete, "2");
    let blocks = [data("1"), data("2"), delete, data("3"), rollback("4", "2"), data("2"), rollback("5", "9")];
    assert_eq!(select(&blocks, |_| true).unwrap(), [0, 3, 5]);
}

#[test]
fn unwanted_instants_corrupt_and_cdc_blocks_do_not_count() {
    let blocks = [data("1"), head(BlockKind::Corrupt, "0"), head(BlockKind::Cdc, "1"), data("2"), data("1")];
    assert_eq!(select(&blocks, |t| t.as_str() != "2").unwrap(), [0, 4]);
}

#[test]
fn log_compaction_stands_in_for_what_it_replaced() {
    // 5 replaces 1 and 2; 7 replaces 5 and 3; 4 and 6 stay. 7 goes where 3, the newest of them, was.
    let blocks = [
        data("1"),
        data("2"),
        data("3"),
        data("4"),
        compacted("5", &["1", "2"]),
        data("6"),
        compacted("7", &["5", "3"]),
    ];
    assert_eq!(select(&blocks, |_| true).unwrap(), [6, 3, 5]);
    // Rolled back, it leaves the originals.
    let mut undone = blocks[..5].to_vec();
    undone.push(rollback("8", "5"));
    assert_eq!(select(&undone, |_| true).unwrap(), [0, 1, 2, 3]);
    // Its originals are not in this slice.
    assert_eq!(select(&blocks[4..6], |_| true).unwrap(), [0, 1]);
}

#[test]
fn compactions_in_a_circle_are_refused() {
    // Whole but for the blocks in a circle: 3 waits for 2, which waits for 3.
    let with_original = [data("1"), compacted("2", &["3", "1"]), compacted("3", &["2"])];
    assert_eq!(select(&with_original, |_| true).unwrap(), [2]);
    for blocks in [&with_original[1..], &[compacted("4", &["4"])]] {
        assert_eq!(select(blocks, |_| true).unwrap_err().kind(), ErrorKind::Corrupt, "{blocks:?}");
    }
}

proptest! {
    #[test]
    fn any_change_is_an_answer_or_an_error(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = [
            block(3, &[(0, "001"), (2, "schema")], &hex("00000003 00000001 00000002 aabb")),
            rollback_block(),
            empty_delete_block(),
        ].concat();
        for (at, value) in &edits {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let mut reader = LogReader::new(Bytes::from(bytes));
        let start = Instant::now();
        while let Ok(Some(block)) = reader.next_block() {
            let content = reader.content(&block).unwrap();
            let _ = block.head();
            let _ = delete_keys(&content, |_, _| Ok(()));
            let _ = avro_records(&content).map(Iterator::count);
        }
        prop_assert!(start.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn any_bytes_are_contents_or_not(content in prop::collection::vec(any::<u8>(), 0..80)) {
        let content = [vec![0, 0, 0, 3, 0, 0, 0, content.len() as u8], content].concat();
        let _ = delete_keys(&content, |_, _| Ok(()));
        let _ = avro_records(&content).map(Iterator::count);
    }

    #[test]
    fn selection_names_each_block_once(times in prop::collection::vec((0u8..6, 0u8..6, 0u8..4), 0..12)) {
        let blocks: Vec<BlockHead> = times.iter().map(|(at, other, what)| {
            let (at, other) = (at.to_string(), other.to_string());
            match what {
                0 => rollback(&at, &other),
                1 => compacted(&at, &[&other]),
                _ => data(&at),
            }
        }).collect();
        let Ok(mut found) = select(&blocks, |_| true) else { return Ok(()) };
        let count = found.len();
        found.sort_unstable();
        found.dedup();
        prop_assert_eq!(found.len(), count);
    }
}
