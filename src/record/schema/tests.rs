use super::*;
use crate::ErrorKind;
use ::arrow::array::*;
use ::arrow::datatypes::{DataType, Field as ArrowField, Int32Type, TimeUnit};
use proptest::prelude::*;
use std::sync::Arc;

/// As Spark 3.5 with Hudi 1.0 wrote it into a commit.
const SPARKS: &str = r#"{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[{"name":"id","type":["null","string"],"default":null},{"name":"n","type":"long"},{"name":"dec","type":["null",{"type":"fixed","name":"fixed","namespace":"hoodie.t.t_record.dec","size":5,"logicalType":"decimal","precision":10,"scale":2}],"default":null},{"name":"d","type":["null",{"type":"int","logicalType":"date"}],"default":null},{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-micros"}],"default":null},{"name":"tags","type":["null",{"type":"array","items":["null","string"]}],"default":null},{"name":"m","type":["null",{"type":"map","values":["null",{"type":"record","name":"m","namespace":"hoodie.t.t_record","fields":[{"name":"x","type":["null",{"type":"fixed","name":"fixed","namespace":"hoodie.t.t_record.m.x","size":3,"logicalType":"decimal","precision":5,"scale":2}],"default":null}]}]}],"default":null}]}"#;

fn arrow_schema(fields: &[(&str, DataType)]) -> Schema {
    Schema::new(fields.iter().map(|(name, ty)| ArrowField::new(*name, ty.clone(), true)).collect::<Vec<_>>())
}

#[test]
fn what_spark_wrote_is_written_again() {
    let schema = TableSchema::from_avro(SPARKS).unwrap();
    assert_eq!(schema.avro(), SPARKS);
    let with_meta = TableSchema::from_avro(schema.avro_with_meta()).unwrap();
    assert_eq!(with_meta.avro(), SPARKS, "meta columns are left out");
    let meta = r#""fields":[{"name":"_hoodie_commit_time","type":["null","string"],"doc":"","default":null},"#;
    assert!(schema.avro_with_meta().contains(meta));
}

#[test]
fn arrow_gives_the_names_that_spark_gives() {
    let arrow = TableSchema::from_avro(SPARKS).unwrap().arrow().clone();
    assert_eq!(TableSchema::from_arrow(&arrow, "t").unwrap().avro(), SPARKS);
    assert_eq!(super::arrow::record_name("1-b.c"), "hoodie.__1__b__c.__1__b__c_record".replace("__1", "__"));
}

#[test]
fn spark_sql_puts_null_last() {
    let json = r#"{"type":"record","name":"r","fields":[{"name":"a","type":["long","null"]},{"name":"e","type":{"type":"enum","name":"e","symbols":["X","Y"]}},{"name":"e2","type":["null","e"],"default":null},{"name":"b","type":"bytes"},{"name":"u","type":{"type":"string","logicalType":"uuid"}},{"name":"p","type":{"type":"bytes","logicalType":"decimal","precision":7,"scale":3}}]}"#;
    let schema = TableSchema::from_avro(json).unwrap();
    assert_eq!(schema.avro(), json);
    assert!(schema.arrow().field(0).is_nullable() && !schema.arrow().field(1).is_nullable());
}

#[test]
fn parquet_is_as_java_writes_it() {
    let schema = TableSchema::from_avro(SPARKS).unwrap();
    let mut text = Vec::new();
    ::parquet::schema::printer::print_schema(&mut text, schema.parquet().root_schema());
    let text = String::from_utf8(text).unwrap();
    for line in [
        "message hoodie.t.t_record {",
        "OPTIONAL BYTE_ARRAY _hoodie_commit_time (STRING);",
        "REQUIRED INT64 n;",
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (5) dec (DECIMAL(10,2));",
        "OPTIONAL INT32 d (DATE);",
        "OPTIONAL INT64 at (TIMESTAMP(MICROS,true));",
        "OPTIONAL group tags (LIST) {",
        "REPEATED group list {",
        "OPTIONAL BYTE_ARRAY element (STRING);",
        "REPEATED group key_value {",
        "REQUIRED BYTE_ARRAY key (STRING);",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let arrow = ::parquet::arrow::parquet_to_arrow_schema(schema.parquet(), None).unwrap();
    assert_eq!(&arrow.fields, schema.with_meta().fields(), "read back as the same Arrow types");
}

#[test]
fn refusals_name_the_field() {
    for (json, named) in [
        (r#"{"type":"record","name":"r","fields":[{"name":"a","type":["int","string"]}]}"#, "\"a\""),
        (r#"{"type":"record","name":"r","fields":[{"name":"a","type":["null","r"]}]}"#, "contains itself"),
        (
            r#"{"type":"record","name":"r","fields":[{"name":"v","type":{"type":"fixed","name":"f","size":8,"logicalType":"vector"}}]}"#,
            "\"v\"",
        ),
        (r#"{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}"#, "twice"),
        (r#"{"type":"record","name":"r","fields":[]}"#, "at least one column"),
        (r#""string""#, "string"),
        ("{", "not JSON"),
    ] {
        let error = TableSchema::from_avro(json).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
    // Records that double at each level.
    let mut json = r#"{"type":"record","name":"r","fields":[{"name":"a0","type":{"type":"record","name":"r0","fields":[{"name":"x","type":"int"}]}}"#.to_owned();
    for level in 1..40 {
        json += &format!(
            r#",{{"name":"a{level}","type":{{"type":"record","name":"r{level}","fields":[{{"name":"x","type":"r{0}"}},{{"name":"y","type":"r{0}"}}]}}}}"#,
            level - 1
        );
    }
    let error = TableSchema::from_avro(&(json + "]}")).unwrap_err();
    assert!(error.message().contains("200000 types"), "{error}");
    for name in ["a-b", "", "1a", "é"] {
        let error = TableSchema::from_arrow(&arrow_schema(&[(name, DataType::Int32)]), "t").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn columns_are_added_and_widened() {
    let table = TableSchema::from_arrow(
        &arrow_schema(&[
            ("i", DataType::Int32),
            ("l", DataType::Int64),
            ("f", DataType::Float32),
            ("S", DataType::Utf8),
        ]),
        "t",
    )
    .unwrap();
    let incoming = arrow_schema(&[
        ("new", DataType::Date32),
        ("l", DataType::Int16),
        ("i", DataType::Int64),
        ("f", DataType::Float64),
        ("s", DataType::LargeUtf8),
        ("_hoodie_commit_time", DataType::Utf8),
    ]);
    let evolved = table.evolve(&incoming).unwrap();
    let types: Vec<(&str, &DataType)> =
        evolved.arrow().fields().iter().map(|f| (f.name().as_str(), f.data_type())).collect();
    assert_eq!(
        types,
        [
            ("i", &DataType::Int64),
            ("l", &DataType::Int64),
            ("f", &DataType::Float64),
            ("S", &DataType::Utf8),
            ("new", &DataType::Date32)
        ]
    );
    assert!(
        evolved.avro().contains(r#"{"name":"new","type":["null",{"type":"int","logicalType":"date"}],"default":null}"#)
    );
    assert_eq!(evolved.evolve(&incoming).unwrap(), evolved);
}

#[test]
fn nested_columns_evolve() {
    let table = TableSchema::from_avro(SPARKS).unwrap();
    let value = DataType::Struct(vec![ArrowField::new("y", DataType::Int32, false)].into());
    let entries =
        DataType::Struct(vec![ArrowField::new("k", DataType::Utf8, false), ArrowField::new("v", value, true)].into());
    let map = DataType::Map(Arc::new(ArrowField::new("entries", entries, false)), false);
    let evolved = table.evolve(&arrow_schema(&[("n", DataType::Int64), ("m", map)])).unwrap();
    assert!(evolved.avro().contains(r#"{"name":"y","type":["null","int"],"default":null}"#), "{}", evolved.avro());
}

#[test]
fn what_loses_data_is_refused() {
    let table = TableSchema::from_avro(SPARKS).unwrap();
    for (name, ty) in [
        ("n", DataType::Utf8),
        ("id", DataType::Int64),
        ("dec", DataType::Decimal128(12, 2)),
        ("dec", DataType::Decimal128(10, 3)),
        ("d", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("tags", DataType::Utf8),
    ] {
        let error = table
            .evolve(&arrow_schema(&[("n", DataType::Int64), (name, ty.clone())][usize::from(name == "n")..]))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name} {ty}");
        assert!(error.message().contains(&format!("{name:?}")), "{error}");
    }
    let error = table.evolve(&arrow_schema(&[("id", DataType::Utf8)])).unwrap_err();
    assert!(error.message().contains("\"n\" is missing"), "{error}");
}

#[test]
fn rows_conform_or_are_named() {
    let table = TableSchema::from_avro(SPARKS).unwrap();
    let tags = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let ids: StringDictionaryBuilder<Int32Type> = {
        let mut builder = StringDictionaryBuilder::new();
        builder.append_value("a");
        builder
    };
    let mut ids = ids;
    let batch = RecordBatch::try_from_iter([
        ("n", Arc::new(Int32Array::from(vec![7])) as ArrayRef),
        ("ID", Arc::new(ids.finish())),
        ("at", Arc::new(TimestampNanosecondArray::from(vec![5_000]).with_timezone("+02:00"))),
        ("dec", Arc::new(Int64Array::from(vec![12]))),
        ("other", Arc::new(tags)),
    ])
    .unwrap();
    let rows = table.conform(&batch, 0).unwrap();
    assert_eq!(rows.schema_ref(), table.arrow());
    assert_eq!(rows.column(0).as_string::<i32>().value(0), "a");
    assert_eq!(rows.column(1).as_primitive::<::arrow::datatypes::Int64Type>().value(0), 7);
    assert_eq!(rows.column(2).as_primitive::<::arrow::datatypes::Decimal128Type>().value(0), 1200);
    assert_eq!(rows.column(4).as_primitive::<::arrow::datatypes::TimestampMicrosecondType>().value(0), 5);
    assert!(rows.column(5).is_null(0));

    let bad: [(&str, ArrayRef); 4] = [
        ("n", Arc::new(Int64Array::from(vec![Some(1), None]))),
        ("n", Arc::new(UInt64Array::from(vec![1, u64::MAX]))),
        ("at", Arc::new(TimestampNanosecondArray::from(vec![1_000, 1_001]).with_timezone("UTC"))),
        ("dec", Arc::new(Int64Array::from(vec![1, 1_000_000_000]))),
    ];
    for (name, column) in bad {
        let mut columns = vec![(name, column)];
        if name != "n" {
            columns.push(("n", Arc::new(Int64Array::from(vec![1, 1]))));
        }
        let error = table.conform(&RecordBatch::try_from_iter(columns).unwrap(), 40).unwrap_err();
        assert!(error.message().contains("row 42") && error.message().contains(&format!("{name:?}")), "{error}");
    }
}

#[test]
fn longs_become_doubles_only_where_they_fit() {
    let table = TableSchema::from_arrow(&arrow_schema(&[("x", DataType::Float64)]), "t").unwrap();
    let batch = |v: i64| RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![v])) as ArrayRef)]).unwrap();
    assert!(table.conform(&batch(1 << 53), 0).is_ok());
    assert!(table.conform(&batch((1 << 53) + 1), 0).unwrap_err().message().contains("9007199254740993"));
}

proptest! {
    #[test]
    fn any_text_is_refused_or_read(text in r#"(\{|\}|\[|\]|,|:|"type"|"name"|"fields"|"record"|"array"|"items"|"null"|"int"|"a"|[0-9]){0,40}"#) {
        let _ = TableSchema::from_avro(&text);
    }
}
