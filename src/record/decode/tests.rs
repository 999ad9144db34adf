use super::*;
use crate::ErrorKind;
use ::arrow::array::*;
use ::arrow::datatypes::{DataType, Decimal128Type, Field, Float64Type, Int64Type, Schema, TimeUnit};
use ::arrow::ipc::writer::StreamWriter;
use proptest::prelude::*;
use std::sync::Arc;

fn rows(format: BodyFormat, body: &[u8], table: Option<&TableSchema>) -> Result<Vec<RecordBatch>> {
    Rows::read(format, Box::new(std::io::Cursor::new(body.to_vec())), table)?.collect()
}

fn one(format: BodyFormat, body: &str, table: Option<&TableSchema>) -> RecordBatch {
    let batches = rows(format, body.as_bytes(), table).unwrap();
    ::arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn refused(format: BodyFormat, body: &str, table: Option<&TableSchema>) -> Error {
    let error = rows(format, body.as_bytes(), table).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error
}

fn table() -> TableSchema {
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("price", DataType::Decimal128(6, 2), true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("x", DataType::Float64, true),
    ];
    TableSchema::from_arrow(&Schema::new(fields), "t").unwrap()
}

fn nested() -> TableSchema {
    let fields = vec![
        Field::new("id", DataType::Int64, true),
        Field::new("tags", DataType::List(Arc::new(Field::new("element", DataType::Utf8, true))), true),
        Field::new("s", DataType::Struct(vec![Field::new("a", DataType::Int32, false)].into()), true),
    ];
    TableSchema::from_arrow(&Schema::new(fields), "t").unwrap()
}

const CSV: &str = "id,name,price,day,at,new\n1,Bob,12.30,2024-01-15,2024-01-15T10:00:00+02:00,5\n2,,,,,\n";
const JSON: &str = r#"{"id": 1, "name": "Bob", "price": 12.30, "day": "2024-01-15", "at": "2024-01-15T08:00:00Z", "new": 5}

{"id": 2, "name": null, "x": 0.5}
"#;

#[test]
fn text_is_read_as_the_tables_types() {
    for (format, body) in
        [(BodyFormat::Csv, CSV), (BodyFormat::NdJson, JSON), (BodyFormat::Csv, &format!("\u{feff}{CSV}"))]
    {
        let batch = one(format, body, Some(&table()));
        let evolved = table().evolve(&batch.schema()).unwrap();
        assert!(evolved.arrow().field_with_name("new").unwrap().data_type() == &DataType::Int64);
        let rows = evolved.conform(&batch, 0).unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
        assert_eq!(rows.column(2).as_primitive::<Decimal128Type>().value(0), 1230);
        let at = rows.column(4).as_primitive::<::arrow::datatypes::TimestampMicrosecondType>();
        assert_eq!(at.value(0), 1_705_305_600_000_000);
        assert!((1..5).all(|c| rows.column(c).is_null(1)), "{rows:?}");
    }
}

#[test]
fn types_are_guessed_where_there_is_no_table() {
    let batch = one(BodyFormat::Csv, "a,b,c,d\n1,1.5,true,2024-01-01T00:00:00\n2,2,false,\n", None);
    let types: Vec<String> = batch.schema().fields().iter().map(|f| f.data_type().to_string()).collect();
    assert_eq!(types, ["Int64", "Float64", "Boolean", "Timestamp(µs, \"+00:00\")"]);
    let batch = one(BodyFormat::NdJson, "{\"a\":1,\"l\":[1,2]}\n{\"a\":1.5,\"s\":{\"x\":\"y\"}}\n", None);
    assert_eq!(batch.num_rows(), 2);
    assert_eq!(batch.column_by_name("a").unwrap().as_primitive::<Float64Type>().value(1), 1.5);
    TableSchema::from_arrow(&batch.schema(), "t").unwrap();
}

#[test]
fn nested_json() {
    let body = "{\"id\":1,\"tags\":[\"a\",null],\"s\":{\"a\":7}}\n{\"id\":2,\"tags\":null}\n";
    let read = nested().conform(&one(BodyFormat::NdJson, body, Some(&nested())), 0).unwrap();
    assert_eq!(read.column(1).as_list::<i32>().value(0).len(), 2);
    let error = rows(BodyFormat::NdJson, b"{\"id\":1}\n{\"id\":1,\"s\":{}}\n", Some(&nested())).unwrap_err();
    assert!(error.message().contains("s.a"), "{error}");
    let error = rows(BodyFormat::Csv, b"id,tags\n1,a\n", Some(&nested())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("\"tags\""), "{error}");
}

#[test]
fn what_is_wrong_is_named_by_line_and_column() {
    for (line, named) in [
        ("{\"id\": \"x\"}", vec!["line 3", "\"id\""]),
        ("{\"id\": 1, \"name\": 7}", vec!["line 3", "\"name\""]),
        ("{\"id\": 1", vec!["line 3"]),
        ("[1]", vec!["line 3"]),
        ("{\"id\": 1, \"day\": \"yesterday\"}", vec!["line 3", "\"day\""]),
    ] {
        // Types of the first lines are guessed from them, so the bad line stands beyond them.
        let body = format!("{}{}", "{\"id\": 1}\n".repeat(2), line) + "\n";
        let error = refused(BodyFormat::NdJson, &body, Some(&table()));
        for name in named {
            assert!(error.message().contains(name) || error.message().contains("first lines"), "{error}");
        }
    }
    let late = format!("{}{{\"id\": 1, \"other\": 2}}\n", "{\"id\": 1}\n".repeat(2000));
    let error = refused(BodyFormat::NdJson, &late, Some(&table()));
    assert!(error.message().contains("line 2001") && error.message().contains("other"), "{error}");
    let late = format!("{}{{\"id\": 1, \"name\": 2}}\n", "{\"id\": 1}\n".repeat(9000));
    let error = refused(BodyFormat::NdJson, &late, Some(&table()));
    assert!(error.message().contains("line 9001, column \"name\""), "{error}");

    let error = refused(BodyFormat::Csv, "id,name\n1,a\nx,b\n", Some(&table()));
    assert!(error.message().contains("line 3, column \"id\""), "{error}");
    let error = refused(BodyFormat::Csv, "id,price\n1,1\n1,1.2.3\n", Some(&table()));
    assert!(error.message().contains("row 2, column \"price\""), "{error}");
    let error = refused(BodyFormat::Csv, "id,price\n1,12.345\n", Some(&table()));
    assert!(error.message().contains("row 1, column \"price\""), "{error}");
    let error = refused(BodyFormat::Csv, "id,name\n1,a\n2\n", Some(&table()));
    assert!(error.message().contains("line"), "{error}");
    for format in [BodyFormat::Csv, BodyFormat::NdJson, BodyFormat::ArrowStream, BodyFormat::Parquet] {
        refused(format, "", None);
        if format != BodyFormat::Csv {
            refused(format, "\u{1}\u{2}nonsense", None);
        }
    }
    let late = format!("{}{{\"id\":1,\"price\":1.239}}\n", "{\"id\": 1}\n".repeat(10));
    let error = refused(BodyFormat::NdJson, &late, Some(&table()));
    assert!(error.message().contains("row 11, column \"price\""), "{error}");
}

#[test]
fn hostile_text_is_refused_within_bounds() {
    let deep = format!("{{\"a\":{}1{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refused(BodyFormat::NdJson, &deep, None).message().contains("64 levels"));
    let deep_late = format!("{}{deep}", "{\"id\":1}\n".repeat(2000));
    assert!(refused(BodyFormat::NdJson, &deep_late, Some(&table())).message().contains("line 2001"));
    let endless: Box<dyn Read + Send> =
        Box::new(std::io::Cursor::new(b"{\"id\":\"".to_vec()).chain(std::io::repeat(b'x')));
    let error =
        Rows::read(BodyFormat::NdJson, endless, Some(&table())).and_then(|mut r| r.next().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let endless: Box<dyn Read + Send> =
        Box::new(std::io::Cursor::new(b"id,name\n1,\"".to_vec()).chain(std::io::repeat(b'x')));
    let error = Rows::read(BodyFormat::Csv, endless, Some(&table())).and_then(|mut r| r.next().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

fn batch() -> RecordBatch {
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(0..20_000)) as ArrayRef),
        ("name", Arc::new(StringArray::from_iter_values((0..20_000).map(|n| format!("n{}", n % 7))))),
    ])
    .unwrap()
}

fn arrow_body() -> Vec<u8> {
    let mut body = Vec::new();
    let mut writer = StreamWriter::try_new(&mut body, &batch().schema()).unwrap();
    writer.write(&batch().slice(0, 15_000)).unwrap();
    writer.write(&batch().slice(15_000, 5000)).unwrap();
    writer.finish().unwrap();
    body
}

fn parquet_body() -> Vec<u8> {
    let mut body = Vec::new();
    let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut body, batch().schema(), None).unwrap();
    writer.write(&batch()).unwrap();
    writer.close().unwrap();
    body
}

#[test]
fn arrow_and_parquet_come_back_equal() {
    for (format, body) in [(BodyFormat::ArrowStream, arrow_body()), (BodyFormat::Parquet, parquet_body())] {
        let read = rows(format, &body, None).unwrap();
        assert_eq!(::arrow::compute::concat_batches(&batch().schema(), &read).unwrap(), batch());
    }
}

#[test]
fn what_is_cut_off_is_refused() {
    for (format, body) in [(BodyFormat::ArrowStream, arrow_body()), (BodyFormat::Parquet, parquet_body())] {
        for len in (0..body.len() - 9).step_by(body.len() / 37) {
            let error = rows(format, &body[..len], None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{len} {error}");
        }
    }
}

#[test]
fn formats_by_name() {
    assert_eq!(BodyFormat::of_media_type("Text/CSV; charset=utf-8").unwrap(), BodyFormat::Csv);
    assert_eq!(BodyFormat::of_file_name("a/trips.PARQUET"), Some(BodyFormat::Parquet));
    assert_eq!(BodyFormat::of_file_name("trips"), None);
    let error = BodyFormat::of_media_type("application/xml").unwrap_err();
    assert!(error.hint().unwrap().contains("text/csv"));
    for format in BodyFormat::ALL {
        assert_eq!(BodyFormat::of_media_type(format.media_type()).unwrap(), format);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_bodies_are_refused_or_read(parquet in any::<bool>(), places in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8)) {
        let (format, mut body) = match parquet {
            true => (BodyFormat::Parquet, parquet_body()),
            false => (BodyFormat::ArrowStream, arrow_body()),
        };
        for (place, byte) in places {
            // Most of it is data; what matters stands at the ends.
            let len = body.len();
            let place = usize::from(place);
            let at = if place % 2 == 0 { place / 2 % len.min(600) } else { len - 1 - (place / 2) % len.min(1500) };
            body[at] = byte;
        }
        let _ = rows(format, &body, None);
    }

    #[test]
    fn any_text_is_refused_or_read(text in "(\\{|\\}|\\[|\\]|:|,|\"|\n|a|id|1|\\.|null|true| ){0,60}", csv in any::<bool>()) {
        let format = if csv { BodyFormat::Csv } else { BodyFormat::NdJson };
        let _ = rows(format, text.as_bytes(), Some(&table()));
        let _ = rows(format, text.as_bytes(), None);
    }
}
