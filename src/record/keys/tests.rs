use super::*;
use crate::ErrorKind;
use arrow::array::*;
use arrow::datatypes::Fields;

fn config(more: &str) -> TableConfig {
    let version =
        if more.contains("layout.version") { "" } else { "hoodie.table.version=6\nhoodie.timeline.layout.version=1\n" };
    TableConfig::parse(format!("hoodie.table.name=t\n{version}{more}").as_bytes()).unwrap()
}

fn generator(more: &str) -> KeyGenerator {
    KeyGenerator::new(&config(more), &BTreeMap::new(), None).unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns.into_iter().map(|(n, a)| (n, a, true)).map(|(n, a, _)| (n, a))).unwrap()
}

fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn texts(array: &StringArray) -> Vec<&str> {
    array.iter().map(|v| v.unwrap()).collect()
}

#[test]
fn simple_keys_and_paths() {
    let rows = batch(vec![
        ("id", Arc::new(Int64Array::from(vec![0, -7, i64::MIN, i64::MAX]))),
        ("p", strings(&[Some("us"), None, Some(""), Some("a b")])),
    ]);
    let plain = "hoodie.table.recordkey.fields=id\nhoodie.table.partition.fields=p\n";
    let keys = generator(plain).keys(&rows, 0).unwrap();
    assert_eq!(texts(&keys), ["0", "-7", "-9223372036854775808", "9223372036854775807"]);
    let default = "__HIVE_DEFAULT_PARTITION__";
    assert_eq!(texts(&generator(plain).partitions(&rows, 0).unwrap()), ["us", default, default, "a b"]);
    let hive = generator(&format!("{plain}hoodie.datasource.write.hive_style_partitioning=true\n"));
    assert_eq!(
        texts(&hive.partitions(&rows, 0).unwrap()),
        ["p=us", "p=__HIVE_DEFAULT_PARTITION__", "p=__HIVE_DEFAULT_PARTITION__", "p=a b"]
    );
}

#[test]
fn values_have_javas_text() {
    let one = |array: ArrayRef| {
        let rows = batch(vec![("k", array)]);
        generator("hoodie.table.recordkey.fields=k").keys(&rows, 0).map(|k| k.value(0).to_owned())
    };
    let decimal = |v: i128, s: i8| Arc::new(Decimal128Array::from(vec![v]).with_precision_and_scale(20, s).unwrap());
    let cases: Vec<(ArrayRef, &str)> = vec![
        (Arc::new(BooleanArray::from(vec![true])), "true"),
        (Arc::new(Date32Array::from(vec![19737])), "2024-01-15"),
        (Arc::new(Date32Array::from(vec![-719_529])), "-0001-12-31"),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1_700_000_000_123_456]).with_timezone("UTC")),
            "1700000000123456",
        ),
        (decimal(1234, 2), "12.34"),
        (decimal(-5, 3), "-0.005"),
        (decimal(0, 2), "0.00"),
        (decimal(1, 7), "1E-7"),
        (decimal(123, 9), "1.23E-7"),
        (decimal(100, 0), "100"),
        (Arc::new(Float64Array::from(vec![1.0])), "1.0"),
        (Arc::new(Float64Array::from(vec![1234567.0])), "1234567.0"),
        (Arc::new(Float64Array::from(vec![1.25e7])), "1.25E7"),
        (Arc::new(Float64Array::from(vec![0.001])), "0.001"),
        (Arc::new(Float64Array::from(vec![0.00012])), "1.2E-4"),
        (Arc::new(Float64Array::from(vec![-0.5])), "-0.5"),
        (Arc::new(Float64Array::from(vec![0.0])), "0.0"),
        (Arc::new(Float64Array::from(vec![f64::NAN])), "NaN"),
        (Arc::new(Float32Array::from(vec![0.1])), "0.1"),
        (Arc::new(Float32Array::from(vec![16777216.0])), "1.6777216E7"),
    ];
    for (array, text) in cases {
        assert_eq!(one(array).unwrap(), text);
    }
    assert_eq!(one(Arc::new(BinaryArray::from(vec![&b"a"[..]]))).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn composite_keys() {
    let rows = batch(vec![
        ("id", Arc::new(Int32Array::from(vec![Some(2), None]))),
        ("name", strings(&[Some("Bob"), Some("")])),
        ("x", strings(&[Some("u:1"), Some("v,w")])),
    ]);
    let keys =
        generator("hoodie.table.recordkey.fields=id,name,x\nhoodie.table.partition.fields=x").keys(&rows, 0).unwrap();
    assert_eq!(texts(&keys), ["id:2,name:Bob,x:u:1", "id:__null__,name:__empty__,x:v,w"]);
    let error = generator("hoodie.table.recordkey.fields=id,name").keys(&rows, 10).unwrap_err();
    assert!(error.message().contains("row 12"), "{error}");
}

#[test]
fn complex_with_one_field_follows_the_table() {
    let rows = batch(vec![("id", strings(&[Some("1")])), ("p", strings(&[Some("a")])), ("q", strings(&[Some("b")]))]);
    let text = "hoodie.table.recordkey.fields=id\nhoodie.table.partition.fields=p,q\n\
                hoodie.table.keygenerator.class=org.apache.hudi.keygen.ComplexKeyGenerator\n";
    let key = |config: &TableConfig, settings: &BTreeMap<String, String>, existing| {
        let generator = KeyGenerator::new(config, settings, existing).unwrap();
        assert_eq!(texts(&generator.partitions(&rows, 0).unwrap()), ["a/b"]);
        generator.keys(&rows, 0).unwrap().value(0).to_owned()
    };
    let table = config(text);
    assert!(KeyGenerator::follows_existing(&table));
    assert_eq!(key(&table, &BTreeMap::new(), None), "id:1");
    assert_eq!(key(&table, &BTreeMap::new(), Some("7")), "7".replace('7', "1"));
    assert_eq!(key(&table, &BTreeMap::new(), Some("id:7")), "id:1");
    let new = BTreeMap::from([("hoodie.write.complex.keygen.new.encoding".to_owned(), "true".to_owned())]);
    assert_eq!(key(&table, &new, None), "1");
    assert_eq!(key(&table, &new, Some("id:7")), "id:1");
    let nine = "hoodie.table.version=9\nhoodie.timeline.layout.version=2\nhoodie.table.keygenerator.type=COMPLEX_AVRO\n\
                hoodie.table.recordkey.fields=id\nhoodie.table.partition.fields=p,q\n";
    assert!(!KeyGenerator::follows_existing(&config(nine)));
    assert_eq!(key(&config(nine), &new, None), "id:1");
}

#[test]
fn paths_that_leave_or_hide_are_refused() {
    let table = "hoodie.table.recordkey.fields=p\nhoodie.table.partition.fields=p\n";
    for bad in ["..", "a/../b", "/a", "a/", "a//b", ".hoodie", "a/.b", "\0", &"x".repeat(300)] {
        let rows = batch(vec![("p", strings(&[Some("fine"), Some(bad)]))]);
        let error = generator(table).partitions(&rows, 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("row 7") && error.message().contains('p'), "{error}");
    }
    let rows = batch(vec![("p", strings(&[Some("a/b"), Some("2024-01-02"), Some("x=1:%")]))]);
    assert_eq!(texts(&generator(table).partitions(&rows, 0).unwrap()), ["a/b", "2024-01-02", "x=1:%"]);
    let encoded = generator(&format!("{table}hoodie.datasource.write.partitionpath.urlencode=true"));
    assert_eq!(texts(&encoded.partitions(&rows, 0).unwrap()), ["a%2Fb", "2024-01-02", "x%3D1%3A%25"]);
    let slashes = generator(&format!("{table}hoodie.datasource.write.slash.separated.date.partitioning=true"));
    assert_eq!(texts(&slashes.partitions(&rows, 0).unwrap())[1], "2024/01/02");
}

#[test]
fn null_and_empty_keys_are_refused() {
    let generator = generator("hoodie.table.recordkey.fields=k");
    for (values, what) in [(strings(&[Some("a"), None]), "null"), (strings(&[Some("a"), Some("")]), "empty")] {
        let error = generator.keys(&batch(vec![("k", values)]), 100).unwrap_err();
        assert!(error.message().contains("row 102") && error.message().contains(what), "{error}");
    }
    assert!(generator.keys(&batch(vec![("other", strings(&[None]))]), 0).unwrap_err().message().contains("\"k\""));
}

#[test]
fn nested_fields_make_keys() {
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let fields: Fields = vec![Field::new("b", DataType::Int32, true)].into();
    let valid = arrow::buffer::NullBuffer::from(vec![true, false]);
    let outer: ArrayRef = Arc::new(StructArray::new(fields, vec![inner], Some(valid)));
    let generator = generator("hoodie.table.recordkey.fields=a.b");
    let error = generator.keys(&batch(vec![("a", outer.clone())]), 0).unwrap_err();
    assert!(error.message().contains("row 2"), "{error}");
    assert_eq!(texts(&generator.keys(&batch(vec![("a", outer.slice(0, 1))]), 0).unwrap()), ["1"]);
}

const TIMED: &str =
    "hoodie.table.recordkey.fields=id\nhoodie.table.partition.fields=t\nhoodie.table.keygenerator.type=TIMESTAMP\n";

#[test]
fn timestamps_make_paths() {
    let key = "hoodie.keygen.timebased";
    let long = |v: Option<i64>| Arc::new(Int64Array::from(vec![v])) as ArrayRef;
    let text = |v: &str| strings(&[Some(v)]);
    for (settings, value, path) in [
        (format!("{key}.timestamp.type=EPOCHMILLISECONDS\n{key}.output.dateformat=yyyy-MM-dd hh\n{key}.timezone=UTC"), long(Some(1_717_238_400_000)), "2024-06-01 10".to_owned()),
        (format!("{key}.timestamp.type=UNIX_TIMESTAMP\n{key}.output.dateformat=yyyy/MM/dd\n{key}.timezone=GMT+8:00"), long(Some(1_717_257_600)), "2024/06/02".to_owned()),
        (format!("{key}.timestamp.type=SCALAR\n{key}.timestamp.scalar.time.unit=days\n{key}.output.dateformat=D-yy MMM EEE\n{key}.timezone=UTC").replace(" EEE", ""), long(Some(19_875)), "153-24 Jun".to_owned()),
        (format!("{key}.timestamp.type=EPOCHMICROSECONDS\n{key}.output.dateformat=yyyy-MM-dd HH:mm:ss.SSS a\n{key}.timezone=UTC"), long(Some(-1_500_000)), "1969-12-31 23:59:58.500 PM".to_owned()),
        (format!("{key}.timestamp.type=DATE_STRING\n{key}.input.dateformat=yyyy-MM-dd'T'HH\\:mm\\:ss.SSSZ\n{key}.output.dateformat=yyyy/MM/dd/HH"), text("2024-01-17T14:30:00.000Z"), "2024/01/17/14".to_owned()),
        (format!("{key}.timestamp.type=DATE_STRING\n{key}.input.dateformat=yyyyMMdd,yyyy-MM-dd HH:mm:ssZ\n{key}.output.dateformat=yyyy-MM-dd HH ZZ\n{key}.output.timezone=UTC\n{key}.input.timezone=GMT-3"), text("2024-01-17 23:30:00-0300"), "2024-01-18 02 +00:00".to_owned()),
        (format!("{key}.timestamp.type=MIXED\n{key}.input.dateformat=yyyyMMdd\n{key}.output.dateformat=yyyy'y'MM"), text("20240117"), "2024y01".to_owned()),
        (format!("{key}.timestamp.type=UNIX_TIMESTAMP\n{key}.output.dateformat=yyyy-MM-dd\n{key}.timezone=UTC"), long(None), "1970-01-01".to_owned()),
    ] {
        let rows = batch(vec![("t", value)]);
        let paths = generator(&format!("{TIMED}{settings}")).partitions(&rows, 0).unwrap();
        assert_eq!(texts(&paths), [path], "{settings}");
    }
    let bad = format!(
        "{TIMED}{key}.timestamp.type=DATE_STRING\n{key}.input.dateformat=yyyy-MM-dd\n{key}.output.dateformat=yyyy"
    );
    for value in ["2024-13-01", "2024-02-30", "x", "2024-01-01x", "é"] {
        let error = generator(&bad).partitions(&batch(vec![("t", text(value))]), 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{value}");
    }
    for refused in [
        format!("{key}.timestamp.type=UNIX_TIMESTAMP\n{key}.output.dateformat=yyyy-'W'ww"),
        format!("{key}.timestamp.type=UNIX_TIMESTAMP\n{key}.output.dateformat=yyyy\n{key}.timezone=Europe/Paris"),
    ] {
        let error = KeyGenerator::new(&config(&format!("{TIMED}{refused}")), &BTreeMap::new(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn custom_paths() {
    let text = "hoodie.table.recordkey.fields=id\nhoodie.table.partition.fields=c:SIMPLE,t:TIMESTAMP\n\
                hoodie.table.keygenerator.type=CUSTOM\nhoodie.keygen.timebased.timestamp.type=EPOCHMILLISECONDS\n\
                hoodie.keygen.timebased.output.dateformat=yyyy-MM-dd\nhoodie.keygen.timebased.timezone=UTC\n\
                hoodie.datasource.write.hive_style_partitioning=true\n";
    let rows = batch(vec![
        ("id", strings(&[Some("1")])),
        ("c", strings(&[Some("MY")])),
        ("t", Arc::new(Int64Array::from(vec![1_749_284_360_000]))),
    ]);
    assert_eq!(texts(&generator(text).partitions(&rows, 0).unwrap()), ["c=MY/t=2025-06-07"]);
    assert_eq!(texts(&generator(text).keys(&rows, 0).unwrap()), ["1"]);
    let bare = text.replace(":SIMPLE", "").replace(":TIMESTAMP", "");
    let error = KeyGenerator::new(&config(&bare), &BTreeMap::new(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn other_generators_are_refused_by_name() {
    let text = "hoodie.table.recordkey.fields=id\nhoodie.table.keygenerator.class=com.acme.MyGenerator\n";
    let error = KeyGenerator::new(&config(text), &BTreeMap::new(), None).unwrap_err();
    assert!(error.message().contains("com.acme.MyGenerator"));
    let error = KeyGenerator::new(&config(""), &BTreeMap::new(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
