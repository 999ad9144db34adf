//! Which files the read-optimized view lists: one test a rule.

use super::built::{Built, replacing, time, wrote};
use hudifs::ErrorKind;
use hudifs::view::ViewContext;

#[test]
fn the_newest_committed_base_file_of_each_group() {
    let table = Built::new(6);
    table.instant("001.commit", "{}").instant("003.commit", "{}").instant("005.commit", "{}");
    table.instant("007.commit.requested", "").instant("007.inflight", "");
    let names = [
        "f-0_1-0-1_000.parquet",
        "f-0_1-0-1_001.parquet",
        "f-0_1-0-1_003.parquet",
        "f-0_1-0-1_007.parquet",
        "g-0_1-0-1_002.parquet",
        "g-0_1-0-1_001.parquet",
        "h-0_1-0-1_005.parquet",
        "i-0_1-0-1_009.parquet",
    ];
    table.data(&names);
    assert_eq!(table.listed(None), ["f-0_1-0-1_003.parquet", "g-0_1-0-1_001.parquet", "h-0_1-0-1_005.parquet"]);
    assert_eq!(table.listed(Some("004")), ["f-0_1-0-1_003.parquet", "g-0_1-0-1_001.parquet"]);
    assert_eq!(table.listed(Some("001")), ["f-0_1-0-1_001.parquet", "g-0_1-0-1_001.parquet"]);
    let (view, _) = table.view(None).unwrap();
    assert!(view.find("f-0_1-0-1_000.parquet").is_some_and(|f| !f.is_listed()), "older versions open by name");
    assert!(view.find("f-0_1-0-1_007.parquet").is_none() && view.find("g-0_1-0-1_002.parquet").is_none());
    assert_eq!(view.find("h-0_1-0-1_005.parquet").unwrap().size(), Some(21));
    assert_eq!(view.newest_instant(), Some(time("005")));
}

#[test]
fn without_a_completed_write_nothing_is_listed() {
    let table = Built::new(6);
    table.data(&["f-0_1-0-1_001.parquet"]);
    assert_eq!(table.listed(None), Vec::<String>::new());
    table.instant("001.commit.requested", "").instant("001.inflight", "{}").instant("000.clean", "");
    assert_eq!(table.listed(None), Vec::<String>::new());
    assert_eq!(table.context(Some("009")).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn moments_before_the_first_commit_are_refused() {
    let table = Built::new(6);
    table.instant("20240102000000000.commit", "{}").instant("20240103000000000.commit", "{}").data(&[]);
    let error = table.context(Some("20240101235959999")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("20240102000000000"), "{error}");
    let as_of = |moment: &str| table.context(Some(moment)).unwrap().as_of().unwrap().to_string();
    assert_eq!(as_of("20240102120000000"), "20240102000000000");
    assert_eq!(as_of("20240103"), "20240102000000000");
    assert_eq!(as_of("20990101"), "20240103000000000");
}

/// A write that failed, or still runs, before the first one that completed: its files are no part of the table, though they
/// are older than the timeline's start.
#[test]
fn a_pending_write_older_than_every_completed_one_stays_hidden() {
    for version in [6, 9] {
        let table = Built::new(version);
        let completed = if version == 9 { "005_006.commit" } else { "005.commit" };
        table.instant("003.commit.requested", "").instant("003.inflight", "").instant(completed, "{}");
        table.data(&[
            "f-0_1-0-1_003.parquet",
            "f-0_1-0-1_002.parquet",
            "g-0_1-0-1_005.parquet",
            "h-0_1-0-1_003.parquet",
        ]);
        assert_eq!(table.listed(None), ["f-0_1-0-1_002.parquet", "g-0_1-0-1_005.parquet"], "version {version}");
    }
}

#[test]
fn times_without_milliseconds() {
    let table = Built::new(2);
    table.instant("20201015074529.commit", "{}").instant("20201015082021.commit", "{}");
    table.data(&[
        "f-0_0-22-22_20201015074529.parquet",
        "f-0_0-22-25_20201015082021.parquet",
        // A later release appends 999 to such a time.
        "g-0_0-22-25_20201015082021999.parquet",
        "h-0_0-22-25_20201015082021000.parquet",
    ]);
    assert_eq!(table.listed(Some("20201015082022")), ["f-0_0-22-25_20201015082021.parquet"]);
    table.instant("20201015090000.commit", "{}");
    assert_eq!(table.listed(None), ["f-0_0-22-25_20201015082021.parquet", "g-0_0-22-25_20201015082021999.parquet"]);
}

/// Archival may pass over savepointed commits and leave them behind. What was written between one of them and the commits
/// that are still active was committed.
#[test]
fn archival_beyond_a_savepoint() {
    let table = Built::new(6);
    table.instant("001.commit", "{}").instant("001.savepoint", "").instant("001.savepoint.inflight", "");
    table.instant("009.commit", "{}");
    table.data(&["f-0_1-0-1_001.parquet", "f-0_1-0-1_005.parquet", "g-0_1-0-1_009.parquet"]);
    assert_eq!(table.listed(None), ["f-0_1-0-1_005.parquet", "g-0_1-0-1_009.parquet"]);
    assert_eq!(table.listed(Some("001")), ["f-0_1-0-1_001.parquet"]);
    assert_eq!(table.timeline().savepoints().collect::<Vec<_>>(), [time("001")]);
}

#[test]
fn native_groups_are_replaced_for_good() {
    let table = Built::new(6);
    table.instant("001.commit", "{}").instant("006.commit", "{}");
    table.data(&["f-0_1-0-1_001.parquet", "f-0_1-0-1_006.parquet", "g-0_1-0-1_005.parquet"]);
    // The clustering was requested at 5, an update of the group ran from before its end, and it completed at last.
    table.instant("005.replacecommit.requested", "").instant("005.replacecommit.inflight", "");
    assert_eq!(table.listed(None), ["f-0_1-0-1_006.parquet"]);
    table.instant("005.replacecommit", &replacing(&["f-0"]));
    assert_eq!(table.listed(None), ["g-0_1-0-1_005.parquet"]);
    assert_eq!(table.listed(Some("001")), ["f-0_1-0-1_001.parquet"]);
    let (view, _) = table.view(None).unwrap();
    assert!(view.find("f-0_1-0-1_006.parquet").is_some(), "a scan may have listed it before");
}

#[test]
fn groups_of_other_engines_may_come_back() {
    let table = Built::new(6);
    table.instant("002.replacecommit", &replacing(&[])).instant("004.replacecommit", &replacing(&["part-0.parquet"]));
    table.instant("006.replacecommit", &replacing(&[]));
    let names = |files: &[&str], as_of| -> Vec<String> {
        table.on_record(files, as_of).unwrap().listed().map(|f| f.name().to_owned()).collect()
    };
    let first = "part-0.parquet_002_hudiext";
    let second = "part-0.parquet_006_hudiext";
    assert_eq!(names(&[first], Some("003")), ["part-0.parquet"]);
    assert_eq!(names(&[first], Some("004")), Vec::<String>::new());
    assert_eq!(names(&[first, second], None), ["part-0.parquet"]);
    assert_eq!(names(&[second, first], Some("005")), Vec::<String>::new());
    // One instant that takes away and brings: an overwrite with the same names.
    assert_eq!(names(&["part-0.parquet_004_hudiext"], None), ["part-0.parquet"]);
    let view = table.on_record(&[first, second], None).unwrap();
    let file = view.find("part-0.parquet").unwrap();
    assert_eq!(
        (view.len(), file.instant(), file.is_external(), file.stored_path()),
        (1, time("006"), true, "part-0.parquet")
    );
}

#[test]
fn files_in_folders_are_served_beside_the_others() {
    let table = Built::new(6);
    table.instant("002.replacecommit", &replacing(&[]));
    let names = [
        "d.parquet_002_fg%3Dbucket-0_hudiext",
        "d.parquet_002_fg%3Dx%2Fy_hudiext",
        "d.parquet_002_hudiext",
        // Flattened, these three are one name, and the first has it in truth.
        "a__b.parquet_002_hudiext",
        "b.parquet_002_fg%3Da_hudiext",
        "000000_0_002_hudiext",
    ];
    let view = table.on_record(&names, None).unwrap();
    let served: Vec<(&str, &str)> = view.listed().map(|f| (f.name(), f.stored_path())).collect();
    let tag = crc32fast::hash(b"a/b.parquet");
    let renamed = format!("a__b-{tag:08x}.parquet");
    assert_eq!(
        served,
        [
            ("000000_0", "000000_0"),
            (renamed.as_str(), "a/b.parquet"),
            ("a__b.parquet", "a__b.parquet"),
            ("bucket-0__d.parquet", "bucket-0/d.parquet"),
            ("d.parquet", "d.parquet"),
            ("x__y__d.parquet", "x/y/d.parquet"),
        ]
    );
    assert!(view.listed().all(|f| f.file_id() == f.stored_path() && f.size() == Some(7)));
}

#[test]
fn names_that_make_no_sense() {
    let table = Built::new(6);
    table.instant("001.commit", "{}");
    for name in [
        "part-0.parquet",
        "x_hudiext",
        "x_1_uv_hudiext",
        ".hidden",
        "../../etc_1-0-1_001.parquet",
        "a/b_1-0-1_001.parquet",
        "",
    ] {
        let error = table.on_record(&["f-0_1-0-1_001.parquet", name], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}");
        assert!(error.message().contains(&format!("{name:?}")) && error.message().contains("\"a\""), "{error}");
    }
    let native_log = "f-0_1-0-1_001_1.log.parquet";
    assert_eq!(table.on_record(&[native_log], None).unwrap_err().kind(), ErrorKind::Unsupported);
    table.data(&[
        "f-0_1-0-1_001.parquet",
        ".f-0_1-0-1_001.parquet.crc",
        ".f-0_001.log.1_1-0-1",
        "part-0.parquet",
        "file_1.parquet",
        "f-0_1-0-1_001.orc",
        "f-0_1-0-1_001.parquet.tmp",
        "_SUCCESS",
        "notes.txt",
    ]);
    let (view, warnings) = table.view(None).unwrap();
    assert_eq!(view.listed().map(|f| f.name()).collect::<Vec<_>>(), ["f-0_1-0-1_001.parquet"]);
    let warned = |name: &str| warnings.iter().any(|w| w.contains(name));
    assert!(warned("part-0.parquet") && warned("file_1.parquet") && warned("001.orc"), "{warnings:?}");
    assert!(!warned("notes.txt") && !warned("_SUCCESS") && !warned(".crc"), "{warnings:?}");
    table.data(&[native_log]);
    assert_eq!(table.error(None).kind(), ErrorKind::Unsupported);
}

#[test]
fn a_listing_of_folders_is_no_record_of_registered_files() {
    let table = Built::new(6);
    let registering = r#"{"partitionToWriteStats":{"a":[{"fileId":"x.parquet","path":"a/x.parquet_002_hudiext"}]},
        "partitionToReplaceFileIds":{}}"#;
    table.instant("001.commit", "{}").instant("002.replacecommit", registering).data(&["f-0_1-0-1_001.parquet"]);
    let error = table.error(None);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("metadata table"), "{error}");
    assert_eq!(table.listed(Some("001")), ["f-0_1-0-1_001.parquet"]);
}

#[test]
fn of_several_attempts_the_committed_one() {
    let table = Built::new(6);
    let names = ["f-0_1-0-1_001.parquet", "f-0_1-0-9_001.parquet", "f-0_1-0-7_001.parquet"];
    table.instant("001.commit", &wrote("f-0", names[2])).data(&names);
    assert_eq!(table.listed(None), [names[2]]);
    let (view, warnings) = table.view(None).unwrap();
    assert_eq!((view.len(), warnings.len()), (1, 0), "the others are not committed versions");
    // The commit can no longer say: it is archived, or was cut off.
    for content in [None, Some(""), Some("{\"partitionToWriteStats\":")] {
        match content {
            Some(content) => table.instant("001.commit", content),
            None => table.remove_instant("001.commit").instant("002.commit", "{}"),
        };
        let (view, warnings) = table.view(None).unwrap();
        assert_eq!(view.listed().map(|f| f.name()).collect::<Vec<_>>(), [names[1]]);
        assert!(warnings.iter().any(|w| w.contains("attempts")), "{warnings:?}");
    }
}

#[test]
fn damaged_commits_do_not_matter_and_damaged_replacements_do() {
    let table = Built::new(6);
    table.instant("001.commit", "").instant("002.commit", "{\"partitionToWr").instant("003.commit", "\u{0}\u{0}");
    table.data(&["f-0_1-0-1_001.parquet", "g-0_1-0-1_002.parquet", "h-0_1-0-1_003.parquet"]);
    assert_eq!(table.listed(None).len(), 3);
    for content in ["", "{\"partitionToReplace", "\u{0}\u{0}"] {
        table.instant("004.replacecommit", content);
        let error = table.error(None);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{content:?}");
        assert!(error.message().contains("004.replacecommit"), "{error}");
        assert_eq!(table.listed(Some("003")).len(), 3, "an older view does not need it");
    }
}

/// Archived between the listing of the timeline and the read: what it replaced had been cleaned before.
#[test]
fn a_replacement_that_is_archived_meanwhile() {
    let table = Built::new(6);
    table.instant("001.replacecommit", &replacing(&["f-0"])).instant("002.commit", "{}");
    table.data(&["g-0_1-0-1_002.parquet"]);
    let timeline = table.timeline();
    table.remove_instant("001.replacecommit");
    let context = ViewContext::load(&*table.storage(), &timeline, timeline.config(), None).unwrap();
    assert_eq!(context.replaced().count(), 0);
    assert!(timeline.warnings().iter().any(|w| w.contains("001")), "{:?}", timeline.warnings());
}

#[test]
fn groups_of_logs_only_are_counted() {
    let table = Built::new(9);
    table.property("hoodie.table.type=MERGE_ON_READ");
    table.instant("001_002.deltacommit", "").instant("005.deltacommit.requested", "");
    table.data(&[
        ".l-0_001.log.1_1-0-1",
        ".l-0_001.log.2_1-0-1",
        ".m-0_005.log.1_1-0-1",
        ".n-0_001.log.1_1-0-1.cdc",
        ".f-0_001.log.1_1-0-1",
        "f-0_1-0-1_001.parquet",
        ".o-0_001.log.1_1-0-1",
        "o-0_1-0-1_005.parquet",
    ]);
    let (view, _) = table.view(None).unwrap();
    assert_eq!(view.listed().map(|f| f.name()).collect::<Vec<_>>(), ["f-0_1-0-1_001.parquet"]);
    assert_eq!(view.log_only_groups(), 2, "l, and o whose base file is not committed");
}

#[test]
fn skeletons_of_a_bootstrap() {
    let skeleton = "f-0_1-0-1_00000000000001.parquet";
    let table = Built::new(6);
    table.instant("00000000000001.commit", "{}").instant("20240101000000000.commit", "{}").data(&[skeleton]);
    // Without a source it is a file like any other.
    assert_eq!(table.listed(None), [skeleton]);
    table.file(".hoodie/.aux/.bootstrap/.fileids/x_1-0-1_00000000000001.hfile", b"");
    assert_eq!(table.error(None).kind(), ErrorKind::Unsupported);
    table.remove(".hoodie/.aux/.bootstrap/.fileids/x_1-0-1_00000000000001.hfile");
    table.property("hoodie.bootstrap.base.path=/data/old");
    let error = table.error(None);
    assert!(error.message().contains("/data/old") && error.message().contains(skeleton), "{error}");
    // Written anew since: whole, and the skeleton is not served under its name either.
    table.data(&["f-0_1-0-1_20240101000000000.parquet"]);
    assert_eq!(table.listed(None), ["f-0_1-0-1_20240101000000000.parquet"]);
    assert!(table.view(None).unwrap().0.find(skeleton).is_none());
    assert_eq!(table.error(Some("00000000000001")).kind(), ErrorKind::Unsupported);
    // A full-record bootstrap writes whole files.
    let table = Built::new(6);
    table.property("hoodie.bootstrap.base.path=/data/old").instant("00000000000002.commit", "{}");
    table.data(&["f-0_1-0-1_00000000000002.parquet"]);
    assert_eq!(table.listed(None), ["f-0_1-0-1_00000000000002.parquet"]);
}

#[test]
fn other_base_formats() {
    let table = Built::new(9);
    table.property("hoodie.table.base.file.format=LANCE").instant("001_002.commit", "");
    table.data(&["f-0_1-0-1_001.lance", "f-0_1-0-1_001.parquet"]);
    assert_eq!(table.listed(None), ["f-0_1-0-1_001.lance"]);
    table.property("hoodie.table.multiple.base.file.formats.enable=true").data(&["g-0_1-0-1_001.orc"]);
    table.remove("a/f-0_1-0-1_001.parquet");
    assert_eq!(table.listed(None), ["f-0_1-0-1_001.lance", "g-0_1-0-1_001.orc"]);
}

/// Clean metadata in Avro that removed files from partition `a`.
fn clean_of(names: &[&str]) -> Vec<u8> {
    let schema = r#"{"type":"record","name":"HoodieCleanMetadata","fields":[
        {"name":"earliestCommitToRetain","type":"string"},
        {"name":"partitionMetadata","type":{"type":"map","values":{"type":"record","name":"P","fields":[
            {"name":"deletePathPatterns","type":{"type":"array","items":"string"}},
            {"name":"successDeleteFiles","type":{"type":"array","items":"string"}}]}}}]}"#;
    let string = |text: &str| [&long(text.len() as i64)[..], text.as_bytes()].concat();
    let list = |names: &[&str]| -> Vec<u8> {
        let mut bytes = if names.is_empty() { Vec::new() } else { long(names.len() as i64) };
        names.iter().for_each(|n| bytes.extend(string(n)));
        bytes.push(0);
        bytes
    };
    let record = [string("005"), long(1), string("a"), list(names), list(&[]), vec![0]].concat();
    let sync = [7u8; 16];
    [
        b"Obj\x01".to_vec(),
        long(1),
        string("avro.schema"),
        string(schema),
        vec![0],
        sync.to_vec(),
        long(1),
        long(record.len() as i64),
        record,
        sync.to_vec(),
    ]
    .concat()
}

/// Avro's variable-length form.
fn long(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

#[test]
fn views_of_the_past_that_a_cleaner_has_taken_files_from() {
    let table = Built::new(6);
    for t in ["001", "003", "005"] {
        table.instant(&format!("{t}.commit"), "{}");
    }
    table.instant("006.replacecommit", &replacing(&["r-0"]));
    // Of `f` the version of 1 will be gone; `o` was replaced by an instant that is archived; `r` is replaced at 6.
    table.data(&["f-0_1-0-1_003.parquet", "f-0_1-0-1_005.parquet", "g-0_1-0-1_001.parquet"]);
    assert_eq!(table.listed(Some("001")), ["g-0_1-0-1_001.parquet"]);
    table.file(".hoodie/007.clean", &clean_of(&["f-0_1-0-1_001.parquet", "o-0_1-0-1_000.parquet"]));
    let error = table.error(Some("001"));
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert!(error.message().contains("f-0") && error.message().contains("007"), "{error}");
    assert_eq!(table.listed(Some("003")), ["f-0_1-0-1_003.parquet", "g-0_1-0-1_001.parquet"]);
    assert_eq!(table.listed(None), ["f-0_1-0-1_005.parquet", "g-0_1-0-1_001.parquet"]);
    table.file(".hoodie/008.clean", &clean_of(&["r-0_1-0-1_003.parquet"]));
    assert_eq!(table.error(Some("005")).kind(), ErrorKind::Stale);
    assert_eq!(table.listed(Some("006")), ["f-0_1-0-1_005.parquet", "g-0_1-0-1_001.parquet"]);
}

/// A snapshot that was made before a commit and a clean, and looks at a partition after them.
#[test]
fn a_view_that_has_become_past_before_its_partition_was_looked_at() {
    use hudifs::storage::TablePath;
    use hudifs::view::{StorageLister, load_partition};
    let table = Built::new(6);
    table.instant("001.commit", "{}").data(&["f-0_1-0-1_001.parquet", "g-0_1-0-1_001.parquet"]);
    let lister =
        |table: &Built| StorageLister::new(table.storage(), TablePath::root(), table.context(None).unwrap().config());
    let context = table.context(None).unwrap();
    let look = || load_partition(&*table.storage(), &context, &lister(&table), &TablePath::parse("a").unwrap());
    table.instant("003.commit", "{}").data(&["f-0_1-0-1_003.parquet"]);
    assert_eq!(look().unwrap().listed_len(), 2, "later commits do not matter");
    table.remove("a/f-0_1-0-1_001.parquet");
    table.file(".hoodie/004.clean", &clean_of(&["f-0_1-0-1_001.parquet"]));
    assert_eq!(look().unwrap_err().kind(), ErrorKind::Stale);
    // A look at the past, at a group that had gone on before, cleaned after a commit elsewhere.
    let table = Built::new(6);
    table.instant("001.commit", "{}").instant("002.commit", "{}");
    table.data(&["f-0_1-0-1_001.parquet", "f-0_1-0-1_002.parquet", "g-0_1-0-1_001.parquet"]);
    let context = table.context(Some("001")).unwrap();
    let look = || load_partition(&*table.storage(), &context, &lister(&table), &TablePath::parse("a").unwrap());
    assert_eq!(look().unwrap().listed_len(), 2);
    table.instant("003.commit", "{}").remove("a/f-0_1-0-1_001.parquet");
    table.file(".hoodie/004.clean", &clean_of(&["f-0_1-0-1_001.parquet"]));
    assert_eq!(look().unwrap_err().kind(), ErrorKind::Stale, "the clean is newer than the view's own timeline");
    // Then the commit and the cleans leave the timeline: nothing tells any more what was removed.
    table.remove_instant("001.commit").remove_instant("004.clean");
    let error = look().unwrap_err();
    assert!(error.kind() == ErrorKind::Stale && error.message().contains("left the timeline"), "{error}");
    // A compaction that was pending when the view was made has completed, and what it compacted was cleaned.
    let table = Built::new(6);
    table.instant("001.commit", "{}").instant("002.compaction.requested", "").instant("003.deltacommit", "{}");
    table.data(&["f-0_1-0-1_001.parquet", "g-0_1-0-1_001.parquet"]);
    let context = table.context(None).unwrap();
    let look = || load_partition(&*table.storage(), &context, &lister(&table), &TablePath::parse("a").unwrap());
    table.data(&["f-0_1-0-1_002.parquet"]);
    assert_eq!(look().unwrap().listed_len(), 2, "a compaction that runs does not matter");
    table.instant("002.commit", "{}").remove("a/f-0_1-0-1_001.parquet");
    table.file(".hoodie/004.clean", &clean_of(&["f-0_1-0-1_001.parquet"]));
    assert_eq!(look().unwrap_err().kind(), ErrorKind::Stale);
    // Restored to before: the commit is no more.
    let table = Built::new(6);
    table.instant("001.commit", "{}").instant("002.commit", "{}").data(&["f-0_1-0-1_002.parquet"]);
    let context = table.context(None).unwrap();
    let lister = lister(&table);
    table.remove_instant("002.commit").remove("a/f-0_1-0-1_002.parquet");
    let error = load_partition(&*table.storage(), &context, &lister, &TablePath::parse("a").unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert!(error.message().contains("undone"), "{error}");
}
