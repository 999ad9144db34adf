//! Properties of new tables against those that Hudi wrote.

use super::*;
use crate::error::ErrorKind;
use crate::storage::{self, StorageOptions};

fn spec(version: u32) -> TableSpec {
    TableSpec {
        version,
        record_key: vec!["id".into()],
        partition_fields: vec!["region".into()],
        ordering_fields: vec!["ts".into()],
        ..TableSpec::new("t1")
    }
}

fn get(spec: &TableSpec, key: &str) -> Option<String> {
    spec.properties().unwrap().get(key).map(str::to_owned)
}

#[test]
fn each_version_has_its_own_keys() {
    let (six, nine) = (spec(6), spec(9));
    for (key, of_six, of_nine) in [
        ("hoodie.table.version", Some("6"), Some("9")),
        ("hoodie.table.initial.version", None, Some("9")),
        ("hoodie.timeline.layout.version", Some("1"), Some("2")),
        ("hoodie.timeline.path", None, Some("timeline")),
        ("hoodie.table.format", None, Some("native")),
        ("hoodie.table.precombine.field", Some("ts"), None),
        ("hoodie.table.ordering.fields", None, Some("ts")),
        ("hoodie.table.keygenerator.class", Some("org.apache.hudi.keygen.SimpleKeyGenerator"), None),
        ("hoodie.table.keygenerator.type", None, Some("SIMPLE")),
        ("hoodie.compaction.payload.class", Some("org.apache.hudi.common.model.DefaultHoodieRecordPayload"), None),
        ("hoodie.record.merge.mode", None, Some("EVENT_TIME_ORDERING")),
        ("hoodie.record.merge.strategy.id", None, None),
        ("hoodie.table.timeline.timezone", Some("UTC"), Some("UTC")),
        ("hoodie.table.recordkey.fields", Some("id"), Some("id")),
        ("hoodie.table.partition.fields", Some("region"), Some("region")),
    ] {
        assert_eq!(get(&six, key).as_deref(), of_six, "{key}");
        assert_eq!(get(&nine, key).as_deref(), of_nine, "{key}");
    }
    // The checksum of a table that Hudi made with these names.
    let named = TableSpec { name: "v6_nonpartitioned_rollback".into(), ..spec(6) };
    assert_eq!(get(&named, "hoodie.table.checksum").as_deref(), Some("1120353670"));
}

#[test]
fn key_generators_follow_from_the_columns_or_are_given() {
    let class = |spec: TableSpec| get(&spec, "hoodie.table.keygenerator.class").unwrap();
    let kind = |spec: TableSpec| get(&spec, "hoodie.table.keygenerator.type").unwrap();
    let none = |version| TableSpec { partition_fields: Vec::new(), ..spec(version) };
    assert!(class(none(6)).ends_with(".NonpartitionedKeyGenerator"));
    assert_eq!(kind(none(9)), "NON_PARTITION");
    let two = |version| TableSpec { partition_fields: vec!["a".into(), "b".into()], ..spec(version) };
    assert!(class(two(6)).ends_with(".ComplexKeyGenerator"));
    for (word, expected) in [
        ("timestamp", "TIMESTAMP"),
        ("CUSTOM", "CUSTOM"),
        ("org.apache.hudi.keygen.ComplexKeyGenerator", "COMPLEX"),
        ("com.acme.Keys", "USER_PROVIDED"),
    ] {
        let given = TableSpec { key_generator: Some(word.into()), ..spec(9) };
        assert_eq!(kind(given.clone()), expected);
        assert_eq!(get(&given, "hoodie.table.keygenerator.class").is_some(), word.starts_with("com."));
    }
    let custom = |version| TableSpec {
        key_generator: Some("custom".into()),
        partition_fields: vec!["ts:timestamp".into(), "region:simple".into()],
        ..spec(version)
    };
    assert_eq!(get(&custom(9), "hoodie.table.partition.fields").as_deref(), Some("ts:timestamp,region:simple"));
    assert_eq!(get(&custom(6), "hoodie.table.partition.fields").as_deref(), Some("ts,region"));
}

#[test]
fn merging_is_said_in_the_version_s_own_words() {
    let payload = "hoodie.compaction.payload.class";
    let with = |version, class: &str| TableSpec {
        properties: [(payload.to_owned(), format!("org.apache.hudi.common.model.{class}"))].into(),
        ..spec(version)
    };
    let mode = |spec: &TableSpec| get(spec, "hoodie.record.merge.mode");
    let unordered = TableSpec { ordering_fields: Vec::new(), ..spec(9) };
    assert_eq!(mode(&unordered).as_deref(), Some("COMMIT_TIME_ORDERING"));
    let latest = with(9, "OverwriteWithLatestAvroPayload");
    assert_eq!((mode(&latest).as_deref(), get(&latest, payload)), (Some("COMMIT_TIME_ORDERING"), None));
    let custom = with(9, "PartialUpdateAvroPayload");
    assert_eq!(mode(&custom).as_deref(), Some("CUSTOM"));
    assert!(get(&custom, payload).is_some() && get(&custom, "hoodie.record.merge.strategy.id").is_some());
    assert!(
        get(&with(6, "OverwriteWithLatestAvroPayload"), payload).unwrap().ends_with("OverwriteWithLatestAvroPayload")
    );
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"id","type":"string"},{"name":"ts","type":"long"}]}"#;
    let bad = [
        TableSpec { name: String::new(), ..spec(6) },
        TableSpec { name: "a/b".into(), ..spec(6) },
        TableSpec { record_key: vec!["a,b".into()], ..spec(6) },
        TableSpec { record_key: vec!["a".into(), "a".into()], ..spec(6) },
        TableSpec { schema: Some("{".into()), ..spec(6) },
        TableSpec { schema: Some(schema.into()), ..spec(6) },
        TableSpec { properties: [("hoodie.table.version".to_owned(), "8".to_owned())].into(), ..spec(6) },
        TableSpec { properties: [("hoodie.record.merge.mode".to_owned(), "CUSTOM".to_owned())].into(), ..spec(6) },
    ];
    for spec in bad {
        assert_eq!(spec.properties().unwrap_err().kind(), ErrorKind::Invalid, "{spec:?}");
    }
    for spec in [spec(8), spec(7), TableSpec { ordering_fields: vec!["a".into(), "b".into()], ..spec(6) }] {
        assert_eq!(spec.properties().unwrap_err().kind(), ErrorKind::Unsupported, "{spec:?}");
    }
    let fits = TableSpec { partition_fields: Vec::new(), schema: Some(schema.into()), ..spec(6) };
    assert_eq!(get(&fits, "hoodie.table.create.schema").as_deref(), Some(schema));
}

#[test]
fn a_table_is_made_once_with_the_folders_that_hudi_makes() {
    for (version, folders) in [(6, ".hoodie/archived"), (9, ".hoodie/timeline/history")] {
        let dir = tempfile::tempdir().unwrap();
        let storage = storage::open(dir.path().to_str().unwrap(), &StorageOptions::default()).unwrap();
        let config = create(&*storage, &spec(version)).unwrap();
        assert_eq!((config.name(), u32::from(config.version().code())), ("t1", version));
        for folder in FOLDERS.into_iter().chain([folders]) {
            assert!(dir.path().join(folder).is_dir(), "{folder}");
        }
        let text = std::fs::read_to_string(dir.path().join(PROPERTIES)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("#Properties saved on 20") && lines[0].ends_with('Z'), "{}", lines[0]);
        assert_eq!(lines[1].split(' ').count(), 6, "{}", lines[1]);
        assert!(lines.last().unwrap().starts_with("hoodie.table.checksum="), "last, so that a torn file lacks it");
        let again = create(&*storage, &spec(version)).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    }
}
