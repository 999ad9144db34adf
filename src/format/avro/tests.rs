use super::*;
use crate::error::ErrorKind;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn zigzag(value: i64) -> Vec<u8> {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    let mut out = Vec::new();
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
    out
}

fn string(text: &str) -> Vec<u8> {
    [zigzag(text.len() as i64), text.as_bytes().to_vec()].concat()
}

fn container(schema: &str, codec: Option<&str>, count: i64, body: &[u8]) -> Vec<u8> {
    let mut out = b"Obj\x01".to_vec();
    let entries = 1 + codec.is_some() as i64;
    out.extend(zigzag(entries));
    out.extend([string("avro.schema"), string(schema)].concat());
    if let Some(codec) = codec {
        out.extend([string("avro.codec"), string(codec)].concat());
    }
    out.push(0);
    out.extend([7; 16]);
    out.extend([zigzag(count), zigzag(body.len() as i64), body.to_vec()].concat());
    out.extend([7; 16]);
    out
}

const STATS: &str = r#"{"type": "record", "name": "Commit", "namespace": "a.b", "fields": [
    {"name": "stats", "type": ["null", {"type": "map", "values": {"type": "array", "items":
        {"type": "record", "name": "Stat", "fields": [
            {"name": "path", "type": ["null", {"type": "string", "avro.java.string": "String"}], "default": "null"},
            {"name": "size", "type": ["long", "null"]},
            {"name": "next", "type": ["null", "Stat"]}]}}}]},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
    {"name": "rate", "type": "double"},
    {"name": "ok", "type": "boolean"}]}"#;

fn stats_bytes() -> Vec<u8> {
    let inner = [vec![2], string("q"), vec![0], zigzag(-5), vec![0]].concat();
    let outer = [vec![2], string("p/a"), vec![0], zigzag(1 << 40), vec![2], inner].concat();
    let second = vec![0, 2, 0];
    // The array in two blocks, the second with its size in bytes.
    let array = [zigzag(1), outer, zigzag(-1), zigzag(second.len() as i64), second, vec![0]].concat();
    let map = [vec![2], zigzag(1), string("p"), array, vec![0]].concat();
    [map, zigzag(1), vec![0xab, 0xcd], 2.5f64.to_le_bytes().to_vec(), vec![1]].concat()
}

#[test]
fn a_cursor_picks_fields_by_name() {
    let schema = Schema::parse(STATS).unwrap();
    let bytes = stats_bytes();
    let mut found = Vec::new();
    let mut kind = None;
    let mut cursor = Cursor::new(&schema, &bytes);
    cursor
        .record(|name, c| {
            match name {
                "kind" => kind = c.symbol()?,
                "stats" => drop(c.map(|partition, c| {
                    c.array(|c| {
                        c.record(|name, c| {
                            if name == "path" {
                                found.push((partition.to_owned(), c.str()?.map(str::to_owned)));
                            }
                            Ok(())
                        })
                        .map(drop)
                    })
                    .map(drop)
                })?),
                _ => {}
            }
            Ok(())
        })
        .unwrap();
    cursor.finish().unwrap();
    assert_eq!(kind, Some("B"));
    assert_eq!(found, [("p".to_owned(), Some("p/a".to_owned())), ("p".to_owned(), None)]);
}

#[test]
fn a_tree_has_every_type() {
    let schema = Schema::parse(STATS).unwrap();
    let value = Cursor::new(&schema, &stats_bytes()).value().unwrap();
    let stats = value.get("stats").unwrap().get("p").unwrap().items();
    assert_eq!(stats[0].get("size").unwrap().as_long(), Some(1 << 40));
    assert_eq!(stats[0].get("next").unwrap().get("size").unwrap().as_long(), Some(-5));
    assert!(stats[1].get("size").unwrap().is_null());
    assert_eq!(value.get("hash"), Some(&Value::Bytes(vec![0xab, 0xcd])));
    assert_eq!(value.get("rate"), Some(&Value::Double(2.5)));
    assert_eq!(value.get("ok").unwrap().as_bool(), Some(true));
}

#[test]
fn what_is_not_taken_is_passed_over() {
    let schema = Schema::parse(STATS).unwrap();
    Cursor::new(&schema, &stats_bytes()).finish().unwrap();
    let mut longer = stats_bytes();
    longer.push(0);
    assert!(Cursor::new(&schema, &longer).finish().unwrap_err().message().contains("1 bytes after"));
}

#[test]
fn containers_of_both_codecs_give_their_records() {
    let body: Vec<u8> = (0..100).flat_map(zigzag).collect();
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut deflate, &body).unwrap();
    let deflated = deflate.finish().unwrap();
    for (codec, body) in [(None, &body), (Some("null"), &body), (Some("deflate"), &deflated)] {
        let file = container("\"long\"", codec, 100, body);
        let mut sum = 0;
        let container = Container::open(&file).unwrap();
        container.records(|c| c.long().map(|n| sum += n.unwrap())).unwrap();
        assert_eq!(sum, 4950);
        assert_eq!(container.first_value().unwrap(), Some(Value::Long(0)));
    }
    let refused = Container::open(&container("\"long\"", Some("snappy"), 0, &[])).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("snappy"));
}

#[test]
fn a_wrong_sync_marker_is_corrupt() {
    let mut file = container("\"long\"", None, 1, &[2]);
    *file.last_mut().unwrap() = 8;
    assert_eq!(Container::open(&file).unwrap().records(|_| Ok(())).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn schemas_that_strict_parsers_refuse_are_read() {
    for text in [
        r#"{"type": "record", "name": "a-b", "fields": [{"name": "x", "type": ["null", "string"], "default": "null"}]}"#,
        r#"{"type": {"type": "string", "avro.java.string": "String"}}"#,
        r#"["null", ["int", "long"]]"#,
        r#"{"type": "bytes", "logicalType": "nonsense", "precision": -1}"#,
    ] {
        Schema::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

#[test]
fn references_resolve_within_their_namespace() {
    let text = r#"{"type": "record", "name": "A", "namespace": "n", "fields": [
        {"name": "b", "type": {"type": "record", "name": "m.B", "fields": [
            {"name": "c", "type": {"type": "fixed", "name": "C", "size": 3}}]}},
        {"name": "again", "type": "m.B"}, {"name": "c", "type": ["null", "m.C"]}, {"name": "self", "type": ["null", "A"]}]}"#;
    let schema = Schema::parse(text).unwrap();
    Cursor::new(&schema, &[1, 2, 3, 4, 5, 6, 2, 7, 8, 9, 0]).finish().unwrap();
    assert_eq!(schema.field_names().collect::<Vec<_>>(), ["b", "again", "c", "self"]);
    assert!(Schema::parse(r#"["null", "m.Missing"]"#).unwrap_err().message().contains("m.Missing"));
}

#[test]
fn a_record_without_end_is_refused() {
    let text = r#"{"type": "record", "name": "A", "fields": [{"name": "b", "type":
        {"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}}]}"#;
    assert!(Schema::parse(text).unwrap_err().message().contains("contains itself"));
}

/// Twenty-eight records, each with two of the one before: 2^28 values in no bytes at all.
fn doubling() -> Schema {
    let mut text = r#"{"type": "record", "name": "R0", "fields": []}"#.to_owned();
    for i in 1..28 {
        let last = i - 1;
        text = format!(
            r#"{{"type": "record", "name": "R{i}", "fields": [{{"name": "a", "type": {text}}}, {{"name": "b", "type": "R{last}"}}]}}"#
        );
    }
    Schema::parse(&text).unwrap()
}

#[test]
fn values_without_bytes_cost_a_bounded_time() {
    let start = Instant::now();
    let billions = [zigzag(i64::MAX), vec![0]].concat();
    for text in [
        r#"{"type": "array", "items": "null"}"#,
        r#"{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}"#,
    ] {
        let schema = Schema::parse(text).unwrap();
        assert!(Cursor::new(&schema, &billions).value().is_err());
        assert!(Cursor::new(&schema, &billions).skip().is_err());
    }
    let negative = [zigzag(i64::MIN), zigzag(0), vec![0]].concat();
    assert!(Cursor::new(&Schema::parse(r#"{"type": "array", "items": "null"}"#).unwrap(), &negative).value().is_err());
    assert!(Cursor::new(&doubling(), &[]).value().is_err());
    assert!(Cursor::new(&doubling(), &[]).skip().is_err());
    let file = container("\"null\"", None, i64::MAX, &[]);
    assert!(Container::open(&file).unwrap().records(|_| Ok(())).is_err());
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn nesting_is_bounded() {
    let schema =
        Schema::parse(r#"{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}"#);
    let schema = schema.unwrap();
    let deep = vec![2; 1 << 20];
    assert!(Cursor::new(&schema, &deep).value().unwrap_err().message().contains("nested"));
    assert!(Cursor::new(&schema, &deep).skip().unwrap_err().message().contains("nested"));
    let deep_schema = format!("{}\"int\"{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Schema::parse(&deep_schema).is_err());
}

#[test]
fn lengths_beyond_the_input_are_refused() {
    for (text, prefix) in [("\"string\"", 0), ("\"bytes\"", 0), (r#"{"type": "map", "values": "int"}"#, 1)] {
        let schema = Schema::parse(text).unwrap();
        for len in [1i64 << 30, i64::MAX, i64::MIN, -1] {
            let bytes = [vec![2; prefix], zigzag(len), vec![0; 8]].concat();
            assert!(Cursor::new(&schema, &bytes).value().is_err(), "{text} {len}");
            assert!(Cursor::new(&schema, &bytes).skip().is_err(), "{text} {len}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let schema = Schema::parse(STATS).unwrap();
        let value = Cursor::new(&schema, &bytes).value().is_ok();
        let skip = Cursor::new(&schema, &bytes).skip().is_ok();
        // Skipping checks less: it jumps over sized blocks and does not look at text.
        prop_assert!(skip || !value);
        let _ = Container::open(&bytes);
        let mut file = b"Obj\x01".to_vec();
        file.extend(&bytes);
        let _ = Container::open(&file);
        let body = container(STATS, None, 1, &bytes);
        let _ = Container::open(&body).unwrap().first_value();
        let body = container(STATS, Some("deflate"), 1, &bytes);
        let _ = Container::open(&body).unwrap().first_value();
    }

    #[test]
    fn any_text_parses_or_fails(text in "[\\[\\]{}\":,a-z ]{0,80}") {
        let _ = Schema::parse(&text);
    }

    #[test]
    fn longs_round_trip(value in any::<i64>()) {
        let schema = Schema::parse("\"long\"").unwrap();
        prop_assert_eq!(Cursor::new(&schema, &zigzag(value)).long().unwrap(), Some(value));
    }
}

mod written {
    use super::*;
    use crate::format::avro::Definition;
    use crate::format::avro::{Container, Encoder, Model, Writer, container_file};
    use std::sync::Arc;

    const SCHEMA: &str = r#"{"type": "record", "name": "R", "fields": [
        {"name": "text", "type": ["null", "string"]},
        {"name": "number", "type": ["int", "null"]},
        {"name": "big", "type": "long"},
        {"name": "ratio", "type": ["null", "double", "string"]},
        {"name": "flag", "type": "boolean"},
        {"name": "raw", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "list", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "map", "type": ["null", {"type": "map", "values": "long"}]},
        {"name": "inner", "type": ["null", {"type": "record", "name": "I", "fields": [{"name": "x", "type": "bytes"}]}]}
    ]}"#;

    fn record(fields: Vec<(&str, Value)>) -> Value {
        Value::Record(fields.into_iter().map(|(name, value)| (Arc::from(name), value)).collect())
    }

    fn value() -> Value {
        record(vec![
            ("text", Value::String("é".into())),
            ("number", Value::Null),
            ("big", Value::Long(i64::MIN)),
            ("ratio", Value::Double(-0.5)),
            ("flag", Value::Boolean(true)),
            ("raw", Value::Bytes(vec![1, 2])),
            ("kind", Value::String("B".into())),
            ("list", Value::Array(vec![Value::Null, Value::String("s".into())])),
            ("map", Value::Map(vec![("k".into(), Value::Long(300))])),
            ("inner", record(vec![("x", Value::Bytes(vec![9]))])),
        ])
    }

    #[test]
    fn a_tree_is_read_as_it_was_written() {
        let schema = Schema::parse(SCHEMA).unwrap();
        let bytes = value().encode(&schema).unwrap();
        assert_eq!(Cursor::new(&schema, &bytes).value().unwrap(), value());
        let file = container_file(SCHEMA, &[bytes.clone(), bytes]);
        let container = Container::open(&file).unwrap();
        assert_eq!(container.schema_text(), SCHEMA);
        let mut count = 0;
        container
            .records(|cursor| {
                count += 1;
                assert_eq!(cursor.value()?, value());
                Ok(())
            })
            .unwrap();
        assert_eq!(count, 2);
        assert!(Container::open(&container_file(SCHEMA, &[])).unwrap().first_value().unwrap().is_none());
    }

    #[test]
    fn what_does_not_fit_its_schema_is_our_mistake() {
        let schema = Schema::parse(SCHEMA).unwrap();
        let with = |name: &str, new: Value| match value() {
            Value::Record(fields) => Value::Record(
                fields.into_iter().map(|(n, v)| if &*n == name { (n, new.clone()) } else { (n, v) }).collect(),
            ),
            other => other,
        };
        for (name, wrong) in [
            ("text", Value::Long(1)),
            ("number", Value::Long(1 << 40)),
            ("big", Value::Null),
            ("raw", Value::Bytes(vec![1])),
            ("kind", Value::String("C".into())),
            ("inner", record(vec![("y", Value::Null)])),
        ] {
            let error = with(name, wrong).encode(&schema).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Internal, "{name}");
        }
        let mut out = Encoder::new();
        let mut writer = Writer::new(&schema, &mut out);
        assert!(writer.record(|_, _| Ok(())).is_err(), "a field that cannot be null");
    }

    /// A record of another version of the schema: what is gone is left out, what is new is empty.
    #[test]
    fn records_of_other_versions_are_copied() {
        let newer = Schema::parse(
            r#"{"type": "record", "name": "R", "fields": [
                {"name": "big", "type": "long"}, {"name": "new", "type": "string"}, {"name": "opt", "type": ["null", "int"]},
                {"name": "list", "type": {"type": "array", "items": ["string", "null"]}},
                {"name": "maps", "type": {"type": "map", "values": "int"}}]}"#,
        )
        .unwrap();
        let mut out = Encoder::new();
        Writer::new(&newer, &mut out).copy(&value()).unwrap();
        let copied = Cursor::new(&newer, out.as_bytes()).value().unwrap();
        assert_eq!(copied.get("big"), value().get("big"));
        assert_eq!(copied.get("list"), value().get("list"));
        assert_eq!(copied.get("new").unwrap().as_str(), Some(""));
        assert!(copied.get("opt").unwrap().is_null() && copied.get("maps").unwrap().entries().is_empty());
    }

    #[test]
    fn the_short_notation_expands_to_a_schema() {
        let definitions = [
            Definition { name: "Inner", fields: "x: long?\n y: string" },
            Definition { name: "Outer", fields: "a: {[Inner]}?\n b: Inner?\n c: int|null = 1" },
        ];
        let model = Model::new("Outer", &definitions).unwrap();
        let inner = r#"{"type":"record","name":"Inner","fields":[{"name":"x","type":["null","long"],"default":null},{"name":"y","type":{"type":"string","avro.java.string":"String"}}]}"#;
        let expected = format!(
            r#"{{"type":"record","name":"Outer","namespace":"org.apache.hudi.avro.model","fields":[{{"name":"a","type":["null",{{"type":"map","values":{{"type":"array","items":{inner}}},"avro.java.string":"String"}}],"default":null}},{{"name":"b","type":["null","Inner"],"default":null}},{{"name":"c","type":["int","null"],"default":1}}]}}"#
        );
        assert_eq!(model.text(), expected);
        assert!(Model::new("Nowhere", &definitions).is_err());
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(number in any::<i64>(), text in ".*") {
            let schema = Schema::parse(r#"{"type": "record", "name": "R", "fields": [
                {"name": "n", "type": "long"}, {"name": "t", "type": "string"}]}"#).unwrap();
            let mut out = Encoder::new();
            out.long(number);
            out.str(&text);
            let expected = record(vec![("n", Value::Long(number)), ("t", Value::String(text))]);
            prop_assert_eq!(Cursor::new(&schema, out.as_bytes()).value().unwrap(), expected);
        }
    }
}
