use super::super::tests::{footer, keyed, read, storage, target, texts};
use super::*;
use crate::ErrorKind;
use crate::format::bloom::{BloomFilter, BloomKind};
use crate::metadata::Bound;
use arrow::array::{Float64Array, Int64Array, ListArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};

fn schema() -> TableSchema {
    let element = Arc::new(Field::new("element", DataType::Int32, true));
    let fields = vec![
        Field::new("id", DataType::Int64, true),
        Field::new("city", DataType::Utf8, true),
        Field::new("x", DataType::Float64, true),
        Field::new("tags", DataType::List(element), true),
        Field::new("dec", DataType::Decimal128(10, 2), true),
        Field::new("at", DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into())), true),
    ];
    TableSchema::from_arrow(&Schema::new(fields), "t").unwrap()
}

fn rows(range: std::ops::Range<i64>) -> Keyed {
    let tags = range.clone().map(|n| match n % 3 {
        0 => None,
        1 => Some(vec![]),
        _ => Some(vec![Some(n as i32), None]),
    });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(range.clone()))),
        (
            "city",
            Arc::new(StringArray::from_iter(range.clone().map(|n| (n % 5 > 0).then(|| format!("city {}", n % 7))))),
        ),
        ("x", Arc::new(Float64Array::from_iter_values(range.clone().map(|n| n as f64 / 3.0)))),
        ("tags", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(tags))),
        ("dec", Arc::new(Int64Array::from_iter_values(range.clone().map(|n| n % 1000 - 500)))),
        ("at", Arc::new(arrow::array::TimestampMicrosecondArray::from_iter_values(range).with_timezone("UTC"))),
    ];
    keyed(&schema(), RecordBatch::try_from_iter(columns).unwrap())
}

#[test]
fn a_file_is_as_java_has_it() {
    let (_dir, storage) = storage();
    let options = BaseOptions { row_group_rows: 400, column_ranges: true, tell_keys: true, ..BaseOptions::default() };
    let target = target("20260101000000000");
    let mut writer = BaseWriter::create(&*storage, &target, &schema(), &options).unwrap();
    writer.write(&rows(0..700)).unwrap();
    writer.write(&rows(700..1000)).unwrap();
    assert_eq!(writer.rows(), 1000);
    assert!(writer.size() > 10_000);
    let file = writer.finish().unwrap();
    let (batch, metadata) = read(&*storage, &file);

    let groups: Vec<i64> = metadata.row_groups().iter().map(|g| g.num_rows()).collect();
    assert_eq!(groups, [400, 400, 200]);
    assert_eq!(metadata.file_metadata().schema_descr().root_schema().name(), "hoodie.t.t_record");
    assert_eq!(texts(&batch, "_hoodie_commit_time").iter().filter(|t| *t == "20260101000000000").count(), 1000);
    assert_eq!(texts(&batch, "_hoodie_commit_seqno")[999], "20260101000000000_0_999");
    assert_eq!(texts(&batch, "_hoodie_record_key")[17], "17");
    assert_eq!(texts(&batch, "_hoodie_partition_path")[500], "p=a");
    assert_eq!(texts(&batch, "_hoodie_file_name")[0], target.file_name());
    let user = schema().conform(&batch, 0).unwrap();
    let wanted = arrow::compute::concat_batches(schema().arrow(), &[rows(0..1000).rows]).unwrap();
    assert_eq!(user, wanted);

    assert_eq!(footer(&metadata, "hoodie_min_record_key").as_deref(), Some("0"));
    assert_eq!(footer(&metadata, "hoodie_max_record_key").as_deref(), Some("999"));
    assert_eq!(footer(&metadata, "parquet.avro.schema").as_deref(), Some(schema().avro_with_meta()));
    assert_eq!(footer(&metadata, "hoodie_bloom_filter_type_code").as_deref(), Some("DYNAMIC_V0"));
    let text = footer(&metadata, "org.apache.hudi.bloomfilter").unwrap();
    let bloom = BloomFilter::parse_text(BloomKind::Dynamic, text.as_bytes()).unwrap();
    assert!((0..1000).all(|n| bloom.might_contain(&n.to_string())) && !bloom.might_contain("1000"));

    let stat = &file.stat;
    assert_eq!((stat.records, stat.num_inserts, stat.previous.as_deref()), (Some(1000), 1000, None));
    assert_eq!(stat.path.as_deref(), Some(format!("p=a/{}", target.file_name()).as_str()));
    assert_eq!(file.keys_added.len(), 1000);
    let range = |name: &str| file.columns.iter().find(|c| c.column == name).unwrap();
    assert_eq!((&range("id").min, &range("id").max), (&Some(Bound::Long(0)), &Some(Bound::Long(999))));
    assert_eq!((range("city").values, range("city").nulls), (1000, 200));
    assert_eq!(range("city").max, Some(Bound::String("city 6".into())));
    assert_eq!(range("dec").min, Some(Bound::Decimal { unscaled: -50_000, precision: 10, scale: 2 }));
    assert_eq!(range("at").max, Some(Bound::TimestampMicros(999)));
    assert!(!file.columns.iter().any(|c| c.column.starts_with("tags")));
}

#[test]
fn long_texts_keep_whole_statistics() {
    let (_dir, storage) = storage();
    let options = BaseOptions { column_ranges: true, ..BaseOptions::default() };
    let mut writer = BaseWriter::create(&*storage, &target("1"), &schema(), &options).unwrap();
    let long = "é".repeat(5000);
    let mut some = rows(0..1);
    let mut columns = some.rows.columns().to_vec();
    columns[1] = Arc::new(StringArray::from(vec![long.as_str()]));
    some.rows = RecordBatch::try_new(some.rows.schema(), columns).unwrap();
    writer.write(&some).unwrap();
    let file = writer.finish().unwrap();
    let city = file.columns.iter().find(|c| c.column == "city").unwrap();
    assert_eq!(city.max, Some(Bound::String(long)));
}

#[test]
fn rows_with_meta_columns_keep_them() {
    let (_dir, storage) = storage();
    let options = BaseOptions { row_group_rows: 10, ..BaseOptions::default() };
    let mut writer = BaseWriter::create(&*storage, &target("20260101000000000"), &schema(), &options).unwrap();
    writer.write(&rows(0..15)).unwrap();
    let first = writer.finish().unwrap();
    let (batch, _) = read(&*storage, &first);
    let next = target("20260102000000000");
    let mut writer = BaseWriter::create(&*storage, &next, &schema(), &options).unwrap();
    writer.write(&rows(100..103)).unwrap();
    writer.write_with_meta(&schema().conform_with_meta(&batch).unwrap()).unwrap();
    let (batch, metadata) = read(&*storage, &writer.finish().unwrap());
    assert_eq!(metadata.row_groups().iter().map(|g| g.num_rows()).collect::<Vec<_>>(), [3, 10, 5]);
    let times = texts(&batch, "_hoodie_commit_time");
    assert_eq!((times[2].as_str(), times[3].as_str()), ("20260102000000000", "20260101000000000"));
    assert_eq!(texts(&batch, "_hoodie_file_name")[10], next.file_name());
}

#[test]
fn what_is_not_finished_leaves_nothing() {
    let (dir, storage) = storage();
    let options = BaseOptions::default();
    let mut writer = BaseWriter::create(&*storage, &target("1"), &schema(), &options).unwrap();
    writer.write(&rows(0..10)).unwrap();
    drop(writer);
    let names: Vec<_> = std::fs::read_dir(dir.path().join("p=a")).unwrap().collect();
    assert!(names.is_empty(), "{names:?}");

    let empty = BaseWriter::create(&*storage, &target("1"), &schema(), &options).unwrap().finish().unwrap();
    let (batch, metadata) = read(&*storage, &empty);
    assert_eq!((batch.num_rows(), metadata.num_row_groups()), (0, 0));
    assert_eq!(footer(&metadata, "hoodie_min_record_key"), None);

    let again = BaseWriter::create(&*storage, &target("1"), &schema(), &options).and_then(BaseWriter::finish);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn decimals_in_longer_bytes_than_they_need() {
    let json = r#"{"type":"record","name":"r","fields":[
        {"name":"id","type":"long"},
        {"name":"d","type":["null",{"type":"fixed","name":"f","size":16,"logicalType":"decimal","precision":10,"scale":2}]},
        {"name":"l","type":{"type":"array","items":["null",{"type":"fixed","name":"g","size":6,"logicalType":"decimal","precision":10,"scale":2}]}}]}"#;
    let schema = TableSchema::from_avro(json).unwrap();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(-1), None]),
        Some(vec![]),
        Some(vec![Some(7)]),
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..3))),
        ("d", Arc::new(Int64Array::from(vec![Some(-99_999_999), None, Some(5)]))),
        ("l", Arc::new(list)),
    ];
    let rows = keyed(&schema, RecordBatch::try_from_iter(columns).unwrap());
    let (_dir, storage) = storage();
    let options = BaseOptions { column_ranges: true, ..BaseOptions::default() };
    let mut writer = BaseWriter::create(&*storage, &target("1"), &schema, &options).unwrap();
    writer.write(&rows).unwrap();
    let file = writer.finish().unwrap();
    let (batch, metadata) = read(&*storage, &file);
    assert_eq!(schema.conform(&batch, 0).unwrap(), rows.rows);
    let lengths: Vec<i32> = metadata.file_metadata().schema_descr().columns().iter().map(|c| c.type_length()).collect();
    assert_eq!(lengths[6..], [16, 6]);
    let range = file.columns.iter().find(|c| c.column == "d").unwrap();
    assert_eq!(range.max, Some(Bound::Decimal { unscaled: 500, precision: 10, scale: 2 }));
}

#[test]
fn dictionaries_only_where_values_repeat() {
    let (_dir, storage) = storage();
    let mut writer = BaseWriter::create(&*storage, &target("1"), &schema(), &BaseOptions::default()).unwrap();
    writer.write(&rows(0..5000)).unwrap();
    let (_, metadata) = read(&*storage, &writer.finish().unwrap());
    let has = |name: &str| {
        let chunk = metadata.row_group(0).columns().iter().find(|c| c.column_path().string() == name).unwrap();
        chunk.dictionary_page_offset().is_some()
    };
    assert_eq!(["_hoodie_record_key", "id", "x", "at"].map(has), [false; 4]);
    assert_eq!(["_hoodie_commit_time", "_hoodie_file_name", "city", "dec"].map(has), [true; 4]);
}
