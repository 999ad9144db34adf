use super::super::tests::{footer, read, storage, target, texts};
use super::super::{BaseWriter, options::BloomOptions};
use super::*;
use crate::format::bloom::{BloomFilter, BloomKind};
use crate::format::properties::TableConfig;
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use parquet::file::metadata::ParquetMetaData;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One row: key, version, and what its other values are made of.
#[derive(Clone, Copy, Debug)]
struct Row {
    key: u32,
    order: i64,
    value: i32,
    deletes: bool,
}

fn fields(wide: bool) -> Vec<Field> {
    let element = Arc::new(Field::new("element", DataType::Int32, true));
    let inner = vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)];
    let mut fields = vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("ts", DataType::Int64, true),
        Field::new("n", if wide { DataType::Int64 } else { DataType::Int32 }, true),
        Field::new("same", DataType::Utf8, true),
        Field::new("tags", DataType::List(element), true),
        Field::new("s", DataType::Struct(inner.into()), true),
        Field::new("dec", DataType::Decimal128(7, 3), true),
        Field::new("x", DataType::Float64, true),
    ];
    if wide {
        fields.push(Field::new("new", DataType::Utf8, true));
    }
    fields
}

fn schema(wide: bool) -> TableSchema {
    TableSchema::from_arrow(&Schema::new(fields(wide)), "t").unwrap()
}

fn keyed(rows: &[Row], wide: bool) -> Keyed {
    let values = || rows.iter().map(|r| r.value);
    let tags = values().map(|v| match v % 4 {
        0 => None,
        1 => Some(vec![]),
        n => Some((0..n).map(|i| (i != 2).then_some(v)).collect::<Vec<_>>()),
    });
    let a: ArrayRef = Arc::new(Int32Array::from_iter(values().map(|v| (v % 3 > 0).then_some(v))));
    let b: ArrayRef = Arc::new(StringArray::from_iter(values().map(|v| (v % 2 > 0).then(|| format!("b{v}")))));
    let DataType::Struct(inner) = fields(wide)[5].data_type().clone() else { panic!() };
    let valid = arrow::buffer::NullBuffer::from_iter(values().map(|v| v % 5 > 0));
    let n: ArrayRef = match wide {
        false => Arc::new(Int32Array::from_iter(values().map(|v| (v % 7 > 0).then_some(v)))),
        true => Arc::new(Int64Array::from_iter(values().map(|v| (v % 7 > 0).then_some(i64::from(v) << 33)))),
    };
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| format!("key-{:03}", r.key))))),
        ("ts", Arc::new(Int64Array::from_iter(rows.iter().map(|r| (r.order > 0).then_some(r.order))))),
        ("n", n),
        ("same", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| format!("of key {}", r.key))))),
        ("tags", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(tags))),
        ("s", Arc::new(StructArray::new(inner, vec![a, b], Some(valid)))),
        ("dec", Arc::new(Int32Array::from_iter_values(values().map(|v| v % 5000)))),
        (
            "x",
            Arc::new(Float64Array::from_iter_values(
                values().map(|v| if v == 9 { f64::NAN } else { f64::from(v) / 8.0 }),
            )),
        ),
    ];
    if wide {
        columns.push(("new", Arc::new(StringArray::from_iter_values(values().map(|v| format!("new {v}"))))));
    }
    let mut keyed = super::super::tests::keyed(&schema(wide), RecordBatch::try_from_iter(columns).unwrap());
    keyed.deletes = Some(BooleanArray::from_iter(rows.iter().map(|r| Some(r.deletes)))).filter(|d| d.true_count() > 0);
    keyed
}

fn rules(event_time: bool) -> MergeRules {
    let mode = if event_time { "EVENT_TIME_ORDERING" } else { "COMMIT_TIME_ORDERING" };
    let text = format!(
        "hoodie.table.name=t\nhoodie.table.version=9\nhoodie.timeline.layout.version=2\n\
         hoodie.record.merge.mode={mode}\nhoodie.table.ordering.fields=ts\n"
    );
    MergeRules::new(&TableConfig::parse(text.as_bytes()).unwrap()).unwrap()
}

fn options(row_group_rows: usize, threads: usize) -> BaseOptions {
    let bloom = BloomOptions { kind: BloomKind::Dynamic, entries: 500, fpp: 0.001, max_entries: 1000 };
    BaseOptions {
        row_group_rows,
        threads,
        bloom: Some(bloom),
        column_ranges: true,
        tell_keys: true,
        page_bytes: 128,
        ..BaseOptions::default()
    }
}

fn base(storage: &dyn Storage, rows: &[Row], options: &BaseOptions) -> WrittenFile {
    let mut writer = BaseWriter::create(storage, &target("20260101000000000"), &schema(false), options).unwrap();
    writer.write(&keyed(rows, false)).unwrap();
    writer.finish().unwrap()
}

fn stored(file: &WrittenFile) -> StoredFile {
    StoredFile { name: file.stat.file_name().unwrap().to_owned(), size: file.stat.size.unwrap() }
}

type Outcome = (WrittenFile, RecordBatch, Arc<ParquetMetaData>);

/// Merges in both ways and compares; what the quick way gave.
fn both(
    storage: &dyn Storage,
    old: &WrittenFile,
    instant: &str,
    rows: &[Keyed],
    wide: bool,
    rules: &MergeRules,
    options: &BaseOptions,
) -> Outcome {
    let quick_target = target(instant);
    let full_target = NewBase { write_token: "9-9-9".to_owned(), ..target(instant) };
    let schema = schema(wide);
    let quick = merge_base(storage, &stored(old), &quick_target, &schema, rules, rows, options).unwrap();
    let full = merge_base_full(storage, &stored(old), &full_target, &schema, rules, rows, options).unwrap();
    let (quick_rows, metadata) = read(storage, &quick);
    let (full_rows, full_metadata) = read(storage, &full);
    let (quick_rows, full_rows) =
        (schema.conform_with_meta(&quick_rows).unwrap(), schema.conform_with_meta(&full_rows).unwrap());
    for (field, (a, b)) in schema.with_meta().fields().iter().zip(quick_rows.columns().iter().zip(full_rows.columns()))
    {
        if field.name() != "_hoodie_file_name" {
            assert_eq!(a, b, "{}", field.name());
        }
    }
    assert!(texts(&quick_rows, "_hoodie_file_name").iter().all(|n| *n == quick_target.file_name()));
    let counts = |f: &WrittenFile| {
        let s = f.stat.clone();
        (s.records, s.num_inserts, s.num_updates, s.num_deletes, s.previous, s.prev_base_file)
    };
    assert_eq!(counts(&quick), counts(&full));
    assert_eq!((&quick.keys_added, &quick.keys_removed), (&full.keys_added, &full.keys_removed));
    let ranges = |f: &WrittenFile| {
        let columns = f.columns.iter().filter(|c| c.column != "_hoodie_file_name");
        columns.map(|c| (c.column.clone(), c.min.clone(), c.max.clone(), c.values, c.nulls)).collect::<Vec<_>>()
    };
    assert_eq!(ranges(&quick), ranges(&full));
    let text = footer(&metadata, "org.apache.hudi.bloomfilter").unwrap();
    let bloom = BloomFilter::parse_text(BloomKind::Dynamic, text.as_bytes()).unwrap();
    let (min, max) = (footer(&metadata, "hoodie_min_record_key"), footer(&metadata, "hoodie_max_record_key"));
    for key in texts(&quick_rows, "_hoodie_record_key") {
        assert!(bloom.might_contain(&key));
        assert!(min.as_ref().is_some_and(|m| *m <= key) && max.as_ref().is_some_and(|m| *m >= key));
    }
    for name in ["parquet.avro.schema", "hoodie_bloom_filter_type_code", "writer.model.name"] {
        assert_eq!(footer(&metadata, name), footer(&full_metadata, name));
    }
    (quick, quick_rows, metadata)
}

fn rows_of(keys: impl Iterator<Item = u32>, value: i32) -> Vec<Row> {
    keys.map(|key| Row { key, order: 5, value: value + key as i32, deletes: false }).collect()
}

#[test]
fn untouched_row_groups_are_copied_byte_by_byte() {
    let (_dir, storage) = storage();
    let options = options(50, 2);
    let old = base(&*storage, &rows_of(0..400, 0), &options);
    let changes = [keyed(&rows_of(120..125, 1000), false)];
    let (_, _, metadata) = both(&*storage, &old, "20260102000000000", &changes, false, &rules(false), &options);
    let (_, before) = read(&*storage, &old);
    assert_eq!(metadata.num_row_groups(), 8);
    let chunk = |m: &ParquetMetaData, group: usize, leaf: usize| {
        let c = m.row_group(group).column(leaf).clone();
        (c.compressed_size(), c.statistics().cloned(), c.encodings().collect::<Vec<_>>(), c.num_values())
    };
    for group in (0..8).filter(|g| *g != 2) {
        for leaf in (0..before.row_group(0).num_columns()).filter(|leaf| *leaf != 4) {
            assert_eq!(chunk(&metadata, group, leaf), chunk(&before, group, leaf), "{group} {leaf}");
        }
    }
}

#[test]
fn page_indexes_survive_copying() {
    let (_dir, storage) = storage();
    let options = options(50, 1);
    let old = base(&*storage, &rows_of(0..200, 0), &options);
    let changes = [keyed(&rows_of(10..11, 1000), false)];
    let (new, _, _) = both(&*storage, &old, "20260102000000000", &changes, false, &rules(false), &options);
    let metadata = |file: &WrittenFile| {
        let path = TablePath::parse(file.stat.path.as_deref().unwrap()).unwrap();
        let file = ParquetFile::open(&*storage, &path, None).unwrap();
        (file.metadata(true).unwrap(), file)
    };
    let ((before, old_file), (after, new_file)) = (metadata(&old), metadata(&new));
    let (a, b) = (before.page_index().unwrap(), after.page_index().unwrap());
    for group in 0..4 {
        for leaf in 0..before.row_group(0).num_columns() {
            let (old_pages, new_pages) = (a.offset_index(group, leaf).unwrap(), b.offset_index(group, leaf).unwrap());
            if group > 0 && leaf != 4 {
                assert!(a.column_index(group, leaf) == b.column_index(group, leaf));
                // The pages are where the index says.
                for (old_page, new_page) in old_pages.page_locations().iter().zip(new_pages.page_locations()) {
                    assert_eq!(old_page.first_row_index, new_page.first_row_index);
                    let len = old_page.compressed_page_size as u64;
                    let bytes = |f: &ParquetFile, at: i64| f.read(at as u64, len).unwrap();
                    assert_eq!(bytes(&old_file, old_page.offset), bytes(&new_file, new_page.offset));
                }
            }
        }
    }
}

#[test]
fn equal_columns_of_a_touched_row_group_are_copied() {
    let (_dir, storage) = storage();
    let options = options(50, 2);
    let old = base(&*storage, &rows_of(0..100, 0), &options);
    // The same rows again: only commit time and sequence number change.
    let changes = [keyed(&rows_of(0..50, 0), false)];
    let (_, _, metadata) = both(&*storage, &old, "20260102000000000", &changes, false, &rules(false), &options);
    let (_, before) = read(&*storage, &old);
    for leaf in 5..before.row_group(0).num_columns() {
        let (a, b) = (before.row_group(0).column(leaf), metadata.row_group(0).column(leaf));
        assert_eq!((a.compressed_size(), a.statistics()), (b.compressed_size(), b.statistics()));
    }
}

#[test]
fn few_inserts_join_the_last_row_group() {
    let (_dir, storage) = storage();
    let options = options(50, 2);
    let sizes = |m: &ParquetMetaData| m.row_groups().iter().map(|g| g.num_rows()).collect::<Vec<_>>();
    let mut file = base(&*storage, &rows_of(0..120, 0), &options);
    for (number, wanted) in [(1, vec![50, 50, 30]), (2, vec![50, 50, 30, 10]), (3, vec![50, 50, 30, 20])] {
        let inserts = [keyed(&rows_of(number * 200..number * 200 + 10, 0), false)];
        let instant = format!("2026010{}000000000", number + 1);
        let (next, _, metadata) = both(&*storage, &file, &instant, &inserts, false, &rules(false), &options);
        assert_eq!(sizes(&metadata), wanted);
        file = next;
    }
}

#[test]
fn a_large_row_group_is_divided() {
    let (_dir, storage) = storage();
    let old = base(&*storage, &rows_of(0..505, 0), &options(10_000, 2));
    let changes = [keyed(&rows_of([0, 99, 100, 101, 504, 600].into_iter(), 7), false)];
    let (_, _, metadata) = both(&*storage, &old, "20260102000000000", &changes, false, &rules(true), &options(100, 2));
    let sizes: Vec<i64> = metadata.row_groups().iter().map(|g| g.num_rows()).collect();
    assert_eq!(sizes, [85, 85, 85, 85, 85, 80, 1]);
}

#[test]
fn all_rows_may_go() {
    let (_dir, storage) = storage();
    let options = options(50, 2);
    let old = base(&*storage, &rows_of(0..120, 0), &options);
    let mut gone = rows_of(0..130, 0);
    gone.iter_mut().for_each(|r| r.deletes = true);
    let rows = [keyed(&gone, false)];
    let (file, rows, metadata) = both(&*storage, &old, "20260102000000000", &rows, false, &rules(false), &options);
    assert_eq!((rows.num_rows(), metadata.num_row_groups(), file.stat.num_deletes), (0, 0, 120));
    let again = [keyed(&rows_of(5..7, 0), false)];
    let (file, ..) = both(&*storage, &file, "20260103000000000", &again, false, &rules(false), &options);
    assert_eq!(file.stat.records, Some(2));
}

#[test]
fn a_footer_without_a_filter_gets_one_of_all_keys() {
    let (_dir, storage) = storage();
    let without = BaseOptions { bloom: None, ..options(50, 2) };
    let old = base(&*storage, &rows_of(0..120, 0), &without);
    let (_, metadata) = read(&*storage, &old);
    assert_eq!(footer(&metadata, "org.apache.hudi.bloomfilter"), None);
    let changes = [keyed(&rows_of(500..501, 0), false)];
    both(&*storage, &old, "20260102000000000", &changes, false, &rules(false), &options(50, 2));
}

#[test]
fn a_damaged_file_is_corrupt() {
    let (dir, storage) = storage();
    let options = options(50, 2);
    let old = base(&*storage, &rows_of(0..400, 0), &options);
    let path = dir.path().join(old.stat.path.as_deref().unwrap());
    let whole = std::fs::read(&path).unwrap();
    let rows = [keyed(&rows_of((0..400).step_by(7), 3), false)];
    for at in (4..whole.len()).step_by(whole.len() / 60) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        std::fs::write(&path, &damaged).unwrap();
        let next = NewBase { write_token: format!("{at}-0-0"), ..target("20260102000000000") };
        let merged = merge_base(&*storage, &stored(&old), &next, &schema(false), &rules(true), &rows, &options);
        if let Err(error) = merged {
            assert!(matches!(error.kind(), crate::ErrorKind::Corrupt | crate::ErrorKind::Unsupported), "{error:?}");
        }
    }
}

fn any_rows(keys: u32, most: usize) -> impl Strategy<Value = Vec<Row>> {
    let row = (0..keys, 0_i64..6, 0_i32..40, prop::bool::weighted(0.2));
    let row = row.prop_map(|(key, order, value, deletes)| Row { key, order, value, deletes });
    prop::collection::vec(row, 0..most).prop_map(|rows| {
        // Each key once.
        rows.into_iter().map(|r| (r.key, r)).collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_quick_way_gives_the_rows_of_the_plain_way(
        mut first in any_rows(300, 300),
        sorted in any::<bool>(),
        steps in prop::collection::vec((any_rows(400, 60), any::<bool>()), 1..4),
        group in prop::sample::select(vec![3_usize, 17, 64, 1000]),
        next_group in prop::sample::select(vec![5_usize, 20, 100]),
        threads in 1_usize..4,
        event_time in any::<bool>(),
        doubled in any::<bool>(),
    ) {
        let (_dir, storage) = storage();
        first.iter_mut().for_each(|r| r.deletes = false);
        if !sorted {
            first.sort_by_key(|r| r.value);
        }
        if doubled {
            // A key twice, as inserts without lookup make it.
            let again: Vec<Row> = first.iter().take(3).map(|r| Row { value: 1, ..*r }).collect();
            first.extend(again);
        }
        let mut file = base(&*storage, &first, &options(group, threads));
        let mut wide = false;
        for (number, (rows, widens)) in steps.iter().enumerate() {
            wide |= *widens;
            let (left, right) = rows.split_at(rows.len() / 2);
            let rows = [keyed(left, wide), keyed(right, wide)];
            let instant = format!("2026010{}000000000", number + 2);
            file = both(&*storage, &file, &instant, &rows, wide, &rules(event_time), &options(next_group, threads)).0;
        }
    }
}
