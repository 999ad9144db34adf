use super::*;
use crate::error::ErrorKind;
use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::*;
use proptest::prelude::*;
use std::sync::Arc;

/// All types that Hudi's tables have, unions in either order.
const ALL: &str = r#"{"type": "record", "name": "Row", "namespace": "hoodie.t", "fields": [
    {"name": "b", "type": ["null", "boolean"], "default": null},
    {"name": "i", "type": ["int", "null"]},
    {"name": "l", "type": "long"},
    {"name": "f", "type": ["null", "float"]},
    {"name": "d", "type": ["null", "double"]},
    {"name": "s", "type": ["null", {"type": "string", "avro.java.string": "String"}]},
    {"name": "y", "type": ["null", "bytes"]},
    {"name": "x", "type": ["null", {"type": "fixed", "name": "X", "size": 3}]},
    {"name": "e", "type": ["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    {"name": "tm", "type": ["null", {"type": "int", "logicalType": "time-millis"}]},
    {"name": "tu", "type": ["null", {"type": "long", "logicalType": "time-micros"}]},
    {"name": "ms", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    {"name": "lms", "type": ["null", {"type": "long", "logicalType": "local-timestamp-millis"}]},
    {"name": "lus", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
    {"name": "dec", "type": ["null", {"type": "fixed", "name": "dec_fixed", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}]},
    {"name": "dby", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}]},
    {"name": "list", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
    {"name": "map", "type": ["null", {"type": "map", "values": ["null", "int"]}]},
    {"name": "rec", "type": ["null", {"type": "record", "name": "Rec", "fields": [
        {"name": "a", "type": ["null", "long"]},
        {"name": "deep", "type": ["null", {"type": "array", "items": {"type": "record", "name": "In", "fields": [
            {"name": "z", "type": "string"}, {"name": "again", "type": ["null", "dec_fixed"]}]}}]}]}]}]}"#;

fn utc() -> Option<Arc<str>> {
    Some("UTC".into())
}

fn all_schema() -> SchemaRef {
    let f = |name: &str, t: DataType| Field::new(name, t, true);
    let inner = vec![Field::new("z", DataType::Utf8, false), f("again", DataType::Decimal128(10, 2))];
    let deep = DataType::List(Arc::new(Field::new("array", DataType::Struct(inner.into()), false)));
    let pair = vec![Field::new("key", DataType::Utf8, false), f("value", DataType::Int32)];
    Arc::new(Schema::new(vec![
        f("b", DataType::Boolean),
        f("i", DataType::Int32),
        Field::new("l", DataType::Int64, false),
        f("f", DataType::Float32),
        f("d", DataType::Float64),
        f("s", DataType::Utf8),
        f("y", DataType::Binary),
        f("x", DataType::FixedSizeBinary(3)),
        f("e", DataType::Utf8),
        f("day", DataType::Date32),
        f("tm", DataType::Time32(TimeUnit::Millisecond)),
        f("tu", DataType::Time64(TimeUnit::Microsecond)),
        f("ms", DataType::Timestamp(TimeUnit::Millisecond, utc())),
        f("us", DataType::Timestamp(TimeUnit::Microsecond, utc())),
        f("lms", DataType::Timestamp(TimeUnit::Millisecond, None)),
        f("lus", DataType::Timestamp(TimeUnit::Microsecond, None)),
        f("dec", DataType::Decimal128(10, 2)),
        f("dby", DataType::Decimal128(38, 10)),
        f("list", DataType::List(Arc::new(f("element", DataType::Utf8)))),
        f("map", DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair.into()), false)), false)),
        f("rec", DataType::Struct(vec![f("a", DataType::Int64), f("deep", deep)].into())),
    ]))
}

/// A random array of a type; nulls only where the field has them.
fn array(field: &Field, rows: usize, seed: &mut impl FnMut() -> u64) -> ArrayRef {
    let valid: Vec<bool> = (0..rows).map(|_| !field.is_nullable() || !seed().is_multiple_of(4)).collect();
    let nulls = field.is_nullable().then(|| NullBuffer::from(valid.clone()));
    let texts = |seed: &mut dyn FnMut() -> u64| -> Vec<Option<String>> {
        valid.iter().map(|v| v.then(|| "ж".repeat(seed() as usize % 5) + &(seed() % 1000).to_string())).collect()
    };
    let words = |seed: &mut dyn FnMut() -> u64| -> Vec<i64> {
        let word = |n: u64| [0, 1, -1, i64::MAX, i64::MIN, n as i64][(n % 6) as usize];
        (0..rows).map(|_| word(seed())).collect()
    };
    match field.data_type() {
        DataType::Boolean => {
            Arc::new(valid.iter().map(|v| v.then(|| seed().is_multiple_of(2))).collect::<BooleanArray>())
        }
        DataType::Int32 => Arc::new(Int32Array::new(words(seed).iter().map(|w| *w as i32).collect(), nulls)),
        DataType::Date32 => Arc::new(Date32Array::new(words(seed).iter().map(|w| *w as i32).collect(), nulls)),
        DataType::Time32(_) => {
            Arc::new(Time32MillisecondArray::new(words(seed).iter().map(|w| *w as i32).collect(), nulls))
        }
        DataType::Int64 => Arc::new(Int64Array::new(words(seed).into(), nulls)),
        DataType::Time64(_) => Arc::new(Time64MicrosecondArray::new(words(seed).into(), nulls)),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            Arc::new(TimestampMillisecondArray::new(words(seed).into(), nulls).with_timezone_opt(zone.clone()))
        }
        DataType::Timestamp(_, zone) => {
            Arc::new(TimestampMicrosecondArray::new(words(seed).into(), nulls).with_timezone_opt(zone.clone()))
        }
        DataType::Float32 => Arc::new(Float32Array::new(words(seed).iter().map(|w| *w as f32).collect(), nulls)),
        DataType::Float64 => Arc::new(Float64Array::new(words(seed).iter().map(|w| *w as f64).collect(), nulls)),
        DataType::Utf8 if field.name() == "e" => {
            Arc::new(valid.iter().map(|v| v.then(|| ["A", "B"][seed() as usize % 2])).collect::<StringArray>())
        }
        DataType::Utf8 => Arc::new(texts(seed).into_iter().collect::<StringArray>()),
        DataType::Binary => {
            Arc::new(texts(seed).into_iter().map(|t| t.map(String::into_bytes)).collect::<BinaryArray>())
        }
        DataType::FixedSizeBinary(size) => {
            let mut builder = FixedSizeBinaryBuilder::new(*size);
            for valid in &valid {
                let bytes = seed().to_le_bytes();
                if *valid { builder.append_value(&bytes[..*size as usize]).unwrap() } else { builder.append_null() }
            }
            Arc::new(builder.finish())
        }
        DataType::Decimal128(precision, scale) => {
            let limit = 10i128.pow(u32::from(*precision));
            let one = |n: u64| {
                [0, 1, -1, limit - 1, 1 - limit, i128::from(n as i64) % limit, 128, -128, -129][(n % 9) as usize]
            };
            let values = (0..rows).map(|_| one(seed())).collect::<Vec<_>>();
            let built = Decimal128Array::new(values.into(), nulls);
            Arc::new(built.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::List(item) => {
            let lengths: Vec<usize> = valid.iter().map(|v| if *v { seed() as usize % 4 } else { 0 }).collect();
            let items = array(item, lengths.iter().sum(), seed);
            Arc::new(ListArray::new(item.clone(), OffsetBuffer::from_lengths(lengths), items, nulls))
        }
        DataType::Map(entries, _) => {
            let lengths: Vec<usize> = valid.iter().map(|v| if *v { seed() as usize % 4 } else { 0 }).collect();
            let items = array(entries, lengths.iter().sum(), seed).as_struct().clone();
            Arc::new(MapArray::new(entries.clone(), OffsetBuffer::from_lengths(lengths), items, nulls, false))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|f| array(f, rows, seed)).collect();
            // A null struct has null fields, as Avro cannot say anything else.
            Arc::new(masked(StructArray::new(fields.clone(), columns, None), nulls))
        }
        other => panic!("{other}"),
    }
}

fn masked(array: StructArray, nulls: Option<NullBuffer>) -> StructArray {
    let (fields, columns, _) = array.into_parts();
    let hide = |c: ArrayRef| match &nulls {
        Some(n) => {
            let keep = BooleanArray::new(!n.inner(), None);
            arrow::compute::nullif(&c, &keep).unwrap()
        }
        None => c,
    };
    StructArray::new(fields, columns.into_iter().map(hide).collect(), nulls.clone())
}

fn random(schema: &SchemaRef, rows: usize, mut state: u64) -> RecordBatch {
    let mut seed = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 17
    };
    let columns = schema.fields().iter().map(|f| array(f, rows, &mut seed)).collect();
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

fn encode(batch: &RecordBatch, avro: &str) -> Vec<Vec<u8>> {
    let encoder = RowEncoder::new(batch.schema_ref(), avro).unwrap();
    let rows = encoder.rows(batch).unwrap();
    let row = |i| {
        let mut out = Vec::new();
        rows.write(i, &mut out).unwrap();
        out
    };
    (0..rows.len()).map(row).collect()
}

fn decode(rows: &[Vec<u8>], writer: &str, target: SchemaRef) -> crate::Result<RecordBatch> {
    let mut decoder = RowDecoder::new(writer, target)?;
    rows.iter().try_for_each(|row| decoder.decode(row))?;
    decoder.finish()
}

fn record(fields: &str) -> String {
    format!(r#"{{"type": "record", "name": "r", "fields": [{fields}]}}"#)
}

fn one(name: &str, t: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, t, true)]))
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::Utf8, false),
        Field::new("d", DataType::Decimal128(10, 2), true),
    ]));
    let batch = RecordBatch::try_new(
        schema,
        vec![
            Arc::new(Int64Array::from(vec![Some(-65), None])),
            Arc::new(StringArray::from(vec!["ab", ""])),
            Arc::new(Decimal128Array::from(vec![-150, 150]).with_precision_and_scale(10, 2).unwrap()),
        ],
    )
    .unwrap();
    let avro = record(
        r#"{"name": "s", "type": "string"}, {"name": "a", "type": ["long", "null"]},
           {"name": "d", "type": ["null", {"type": "fixed", "name": "n", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}]}"#,
    );
    let rows = encode(&batch, &avro);
    assert_eq!(rows[0], [&[4, b'a', b'b', 0, 0x81, 1, 2][..], &[0xff, 0xff, 0xff, 0xff, 0x6a]].concat());
    assert_eq!(rows[1], [&[0, 2, 2][..], &[0, 0, 0, 0, 0x96]].concat());
}

#[test]
fn every_type_comes_back_equal() {
    let batch = random(&all_schema(), 500, 7);
    for i in 0..batch.num_columns() {
        assert!(batch.column(i).null_count() > 0 || batch.schema().field(i).name() == "l");
    }
    let rows = encode(&batch, ALL);
    assert_eq!(decode(&rows, ALL, batch.schema()).unwrap(), batch);
}

#[test]
fn columns_meet_by_name() {
    let batch = random(&all_schema(), 50, 3);
    let rows = encode(&batch, ALL);
    let fewer = batch.project(&[20, 5, 2]).unwrap();
    let mut fields = fewer.schema().fields().to_vec();
    fields.push(Arc::new(Field::new("later", DataType::Int32, true)));
    let read = decode(&rows, ALL, Arc::new(Schema::new(fields))).unwrap();
    assert_eq!(read.columns()[..3], fewer.columns()[..]);
    assert_eq!(read.column(3).null_count(), 50);
}

#[test]
fn types_are_promoted() {
    let cases: Vec<(&str, Vec<u8>, ArrayRef)> = vec![
        (r#""int""#, vec![3], Arc::new(Int64Array::from(vec![-2]))),
        (r#""int""#, vec![3], Arc::new(Float32Array::from(vec![-2.0]))),
        (r#"["null", "long"]"#, vec![2, 3], Arc::new(Float64Array::from(vec![-2.0]))),
        (r#""float""#, 1.5f32.to_le_bytes().to_vec(), Arc::new(Float64Array::from(vec![1.5]))),
        (r#""long""#, vec![3], Arc::new(StringArray::from(vec!["-2"]))),
        (r#""double""#, 1.0f64.to_le_bytes().to_vec(), Arc::new(StringArray::from(vec!["1.0"]))),
        (r#""string""#, vec![2, b'x'], Arc::new(BinaryArray::from(vec![&b"x"[..]]))),
        (r#""bytes""#, vec![2, b'x'], Arc::new(StringArray::from(vec!["x"]))),
        (
            r#"{"type": "long", "logicalType": "timestamp-millis"}"#,
            vec![4],
            Arc::new(TimestampMicrosecondArray::from(vec![2000]).with_timezone("UTC")),
        ),
        (r#""long""#, vec![4], Arc::new(TimestampMicrosecondArray::from(vec![2]).with_timezone("UTC"))),
        (
            r#"{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}"#,
            vec![2, 0xff],
            Arc::new(Decimal128Array::from(vec![-100]).with_precision_and_scale(10, 3).unwrap()),
        ),
    ];
    for (of, bytes, wanted) in cases {
        let avro = record(&format!(r#"{{"name": "c", "type": {of}}}"#));
        let read = decode(&[bytes], &avro, one("c", wanted.data_type().clone())).unwrap();
        assert_eq!(read.column(0), &wanted, "{of}");
    }
}

#[test]
fn what_loses_data_is_refused_with_the_column_named() {
    for (of, to) in [
        (r#""long""#, DataType::Int32),
        (r#""double""#, DataType::Float32),
        (r#""string""#, DataType::Int64),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}"#, DataType::Decimal128(4, 1)),
    ] {
        let avro = record(&format!(r#"{{"name": "price", "type": {of}}}"#));
        let error = RowDecoder::new(&avro, one("price", to)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("\"price\""), "{error}");
    }
}

#[test]
fn microseconds_in_a_table_of_milliseconds_are_milliseconds() {
    let micros = record(r#"{"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}}"#);
    let read = decode(&[vec![4]], &micros, one("t", DataType::Timestamp(TimeUnit::Millisecond, utc()))).unwrap();
    assert_eq!(read.column(0).as_primitive::<TimestampMillisecondType>().value(0), 2);
}

#[test]
fn an_encoder_names_what_does_not_fit() {
    let of = |t: &str| record(&format!(r#"{{"name": "c", "type": {t}}}"#));
    let long = Schema::new(vec![Field::new("c", DataType::Int64, true)]);
    for (schema, avro, word) in [
        (&long, of(r#""string""#), "\"c\""),
        (&Schema::new(vec![Field::new("other", DataType::Int64, true)]), of(r#""long""#), "\"other\""),
        (&Schema::empty(), of(r#""long""#), "\"c\""),
    ] {
        let error = RowEncoder::new(schema, &avro).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains(word), "{error}");
    }
    let encoder = RowEncoder::new(&long, &of(r#""long""#)).unwrap();
    let batch = RecordBatch::try_new(one("c", DataType::Int64), vec![Arc::new(Int64Array::from(vec![None]))]).unwrap();
    let error = encoder.rows(&batch).unwrap().write(0, &mut Vec::new()).unwrap_err();
    assert!(error.message().contains("\"c\" is null"), "{error}");
    let short = of(r#"{"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0}"#);
    let big = Decimal128Array::from(vec![1000]).with_precision_and_scale(10, 0).unwrap();
    let batch = RecordBatch::try_new(one("c", DataType::Decimal128(10, 0)), vec![Arc::new(big)]).unwrap();
    let encoder = RowEncoder::new(batch.schema_ref(), &short).unwrap();
    assert!(encoder.rows(&batch).unwrap().write(0, &mut Vec::new()).unwrap_err().message().contains("3 digits"));
}

#[test]
fn a_null_where_the_target_has_none_is_corrupt() {
    let avro = record(r#"{"name": "c", "type": ["null", "long"]}"#);
    let target = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, false)]));
    let error = decode(&[vec![0]], &avro, target).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("\"c\""), "{error}");
}

#[test]
fn values_without_bytes_cost_a_bounded_time() {
    let start = std::time::Instant::now();
    let billions = vec![0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
    for items in
        ["\"null\"", r#"{"type": "record", "name": "n", "fields": []}"#, r#"{"type": "fixed", "name": "z", "size": 0}"#]
    {
        let avro = record(&format!(r#"{{"name": "c", "type": {{"type": "array", "items": {items}}}}}"#));
        let item = Arc::new(Field::new("element", DataType::Null, true));
        for target in [one("c", DataType::List(item)), one("other", DataType::Int32)] {
            assert_eq!(decode(std::slice::from_ref(&billions), &avro, target).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
    let mut doubling = r#"{"type": "record", "name": "R0", "fields": []}"#.to_owned();
    for i in 1..28 {
        let last = i - 1;
        doubling = format!(
            r#"{{"type": "record", "name": "R{i}", "fields": [{{"name": "a", "type": {doubling}}}, {{"name": "b", "type": "R{last}"}}]}}"#
        );
    }
    assert!(RowDecoder::new(&doubling, one("a", DataType::Int32)).is_err());
    let itself = record(r#"{"name": "c", "type": ["null", "r"]}"#);
    assert!(RowDecoder::new(&itself, one("c", DataType::Int32)).unwrap_err().message().contains("itself"));
    assert!(start.elapsed() < std::time::Duration::from_secs(2));
}

#[test]
fn a_decoder_that_failed_gives_no_rows() {
    let avro = record(r#"{"name": "a", "type": "long"}, {"name": "b", "type": "string"}"#);
    let target =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)]));
    let mut decoder = RowDecoder::new(&avro, target).unwrap();
    assert!(decoder.decode(&[2, 9]).is_err());
    assert!(decoder.decode(&[2, 0]).is_err());
    assert!(decoder.finish().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn rows_round_trip(state in any::<u64>(), rows in 0usize..20) {
        let batch = random(&all_schema(), rows, state);
        prop_assert_eq!(decode(&encode(&batch, ALL), ALL, batch.schema()).unwrap(), batch);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), damage in any::<(usize, u8)>(), state in any::<u64>()) {
        let _ = decode(std::slice::from_ref(&bytes), ALL, all_schema());
        let mut row = encode(&random(&all_schema(), 1, state), ALL).remove(0);
        let at = damage.0 % row.len();
        row[at] ^= damage.1;
        let _ = decode(&[row], ALL, all_schema());
    }

    #[test]
    fn any_schema_is_read_or_refused(text in r#"[\[\]{}":,a-z ]{0,80}"#) {
        let _ = RowDecoder::new(&text, all_schema());
        let _ = RowEncoder::new(&all_schema(), &text);
    }
}
