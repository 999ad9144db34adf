//! Which files of a metadata table count, and which records in them, on tables made for each rule.

use crate::metadata_writer::{Record, Synthetic, delete_block, rollback_block};
use hudifs::ErrorKind;
use hudifs::metadata::MetadataLister;
use hudifs::storage::TablePath;
use hudifs::view::Lister;

const SOLO: &str = "00000000000000000";
/// Times of a day, all of 17 digits.
const T: [&str; 8] = [
    "20240101000000000",
    "20240101000001000",
    "20240101000002000",
    "20240101000003000",
    "20240101000004000",
    "20240101000005000",
    "20240101000006000",
    "20240101000007000",
];
const ALL_P: Record<'static> = ("__all_partitions__", &[("p", Some(0))]);

fn files_of(lister: &MetadataLister, partition: &str) -> Vec<(String, u64)> {
    let mut files: Vec<_> = lister.files(&TablePath::parse(partition).unwrap()).unwrap();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.into_iter().map(|f| (f.name, f.size.unwrap())).collect()
}

fn check(table: &Synthetic, expected: &[(&str, u64)]) {
    let lister = table.open().unwrap();
    let expected: Vec<_> = expected.iter().map(|(n, s)| (n.to_string(), *s)).collect();
    assert_eq!(files_of(&lister, "p"), expected);
}

fn versions() -> impl Iterator<Item = Synthetic> {
    [6, 8, 9].into_iter().map(Synthetic::new)
}

/// The name that a log of an instant has on top of a base: the base's up to version 6.
fn log_name<'a>(version_6: bool, base: &'a str, instant: &'a str) -> &'a str {
    if version_6 { base } else { instant }
}

#[test]
fn logs_are_merged_over_the_base() {
    for (i, table) in versions().enumerate() {
        let six = i == 0;
        table.commit(SOLO, "20240101000000001");
        table.commit(T[1], T[2]);
        table.commit(T[3], T[4]);
        table.base(
            SOLO,
            &[ALL_P, ("p", &[("grows", Some(5)), ("kept", Some(1)), ("removed", Some(2)), ("shrunk", Some(9))])],
        );
        let first = table.block(T[1], &[("p", &[("added", Some(3)), ("removed", None), ("grows", Some(7))])]);
        let second =
            table.block(T[3], &[("p", &[("back", Some(4)), ("brief", None), ("shrunk", Some(8)), ("unknown", None)])]);
        let brief = table.block(T[1], &[("p", &[("brief", Some(1)), ("back", None)])]);
        table.log(log_name(six, SOLO, T[1]), 1, &[first, brief]);
        table.log(log_name(six, SOLO, T[3]), 2, &[second]);
        check(&table, &[("added", 3), ("back", 4), ("grows", 7), ("kept", 1), ("shrunk", 9)]);
    }
}

#[test]
fn a_group_of_logs_alone_is_read() {
    for (i, table) in versions().enumerate() {
        table.commit(T[1], T[2]);
        table.commit(T[3], T[4]);
        let first = [delete_block(T[1], &[]), table.block(T[1], &[ALL_P, ("p", &[("a", Some(1)), ("b", Some(2))])])];
        table.log(T[1], 1, &first);
        table.log(log_name(i == 0, T[1], T[3]), 2, &[table.block(T[3], &[("p", &[("a", None)])])]);
        check(&table, &[("b", 2)]);
        let lister = table.open().unwrap();
        assert_eq!((lister.base_file(), lister.log_files()), (None, 2));
    }
}

#[test]
fn an_instant_that_is_still_running_on_the_data_table_is_not_seen() {
    for (i, table) in versions().enumerate() {
        let six = i == 0;
        table.commit(SOLO, "20240101000000001");
        table.commit(T[1], T[2]);
        table.commit(T[3], T[4]);
        std::fs::read_dir(table.base_path().join(if six { ".hoodie" } else { ".hoodie/timeline" })).unwrap().for_each(
            |e| {
                let path = e.unwrap().path();
                if path.to_str().unwrap().contains(&format!("/{}", T[3])) {
                    std::fs::remove_file(path).unwrap();
                }
            },
        );
        table.data(&format!("{}.commit.requested", T[3]));
        table.data(&format!("{}.inflight", T[3]));
        table.base(SOLO, &[ALL_P, ("p", &[("old", Some(1))])]);
        table.log(log_name(six, SOLO, T[1]), 1, &[table.block(T[1], &[("p", &[("new", Some(1))])])]);
        table.log(log_name(six, SOLO, T[3]), 2, &[table.block(T[3], &[("p", &[("old", None), ("newer", Some(1))])])]);
        check(&table, &[("new", 1), ("old", 1)]);
    }
}

#[test]
fn an_instant_that_began_after_the_timeline_was_loaded_is_not_seen() {
    for (i, table) in versions().enumerate() {
        let six = i == 0;
        table.commit(SOLO, "20240101000000001");
        table.commit(T[1], T[2]);
        table.base(SOLO, &[ALL_P, ("p", &[("old", Some(1))])]);
        table.log(log_name(six, SOLO, T[1]), 1, &[table.block(T[1], &[("p", &[("new", Some(1))])])]);
        let before = table.timeline();
        table.commit(T[3], T[4]);
        table.log(log_name(six, SOLO, T[3]), 2, &[table.block(T[3], &[("p", &[("old", None), ("newer", Some(1))])])]);
        let lister = MetadataLister::open(&*table.storage(), &before).unwrap();
        assert_eq!(files_of(&lister, "p"), [("new".to_owned(), 1), ("old".to_owned(), 1)]);
        check(&table, &[("new", 1), ("newer", 1)]);
    }
}

#[test]
fn an_instant_that_the_metadata_table_has_not_completed_is_not_seen() {
    for (i, table) in versions().enumerate() {
        let six = i == 0;
        table.commit(SOLO, "20240101000000001");
        table.metadata(&format!("{}.deltacommit.requested", T[3]));
        table.metadata(&format!("{}.deltacommit.inflight", T[3]));
        table.base(SOLO, &[ALL_P, ("p", &[("old", Some(1))])]);
        table.log(log_name(six, SOLO, T[3]), 1, &[table.block(T[3], &[("p", &[("newer", Some(1))])])]);
        check(&table, &[("old", 1)]);
    }
}

/// The delta commit starts, compaction runs inside it, and then it writes its log: the log is on top of the compacted base
/// although its instant is older.
#[test]
fn a_log_that_completed_after_the_compaction_inside_it_is_on_top() {
    for version in [8, 9] {
        let table = Synthetic::new(version);
        table.commit(SOLO, "20240101000000001");
        table.commit(T[1], T[2]);
        table.commit(T[3], T[6]);
        table.metadata(&format!("{}_{}.commit", T[4], T[5]));
        table.base(SOLO, &[ALL_P, ("p", &[("old", Some(1))])]);
        table.log(T[1], 1, &[table.block(T[1], &[("p", &[("new", Some(1))])])]);
        table.log(T[3], 1, &[table.block(T[3], &[("p", &[("old", None), ("newer", Some(1))])])]);
        table.base(T[4], &[ALL_P, ("p", &[("new", Some(1)), ("old", Some(1))])]);
        check(&table, &[("new", 1), ("newer", 1)]);
        assert_eq!(table.open().unwrap().log_files(), 1, "the other log is in the base");
    }
}

/// Its bootstrap has an instant of zeros, which the metadata table's timeline then seems to begin with.
#[test]
fn an_index_that_was_created_late_does_not_hide_what_was_archived() {
    for version in [8, 9] {
        let table = Synthetic::new(version);
        table.data(&format!("{}_{}.commit", T[1], T[3]));
        table.data(&format!("{}_{}.commit", T[4], T[6]));
        table.metadata(&format!("{}_{}.deltacommit", T[4], T[5]));
        table.archive(&[(T[0], T[1]), (T[1], T[3]), (T[2], T[2])]);
        table.base(T[2], &[ALL_P, ("p", &[("base", Some(1)), ("compacted", Some(1))])]);
        table.log(T[0], 1, &[table.block(T[0], &[("p", &[("compacted", Some(2))])])]);
        table.log(T[1], 1, &[table.block(T[1], &[("p", &[("nested", Some(1))])])]);
        table.log(T[4], 1, &[table.block(T[4], &[("p", &[("new", Some(1))])])]);
        let expected = [("base", 1), ("compacted", 1), ("nested", 1), ("new", 1)];
        check(&table, &expected);
        table.metadata(&format!("{SOLO}_{}.deltacommit", T[7]));
        check(&table, &expected);
    }
}

#[test]
fn logs_of_a_slice_whose_compaction_is_pending_are_on_top_of_the_base_before() {
    for (i, table) in versions().enumerate() {
        let six = i == 0;
        table.commit(SOLO, "20240101000000001");
        table.commit(T[1], T[2]);
        table.commit(T[5], T[6]);
        table.metadata(&format!("{}.compaction.requested", T[3]));
        table.base(SOLO, &[ALL_P, ("p", &[("old", Some(1))])]);
        table.base(T[3], &[ALL_P]);
        table.log(log_name(six, SOLO, T[1]), 1, &[table.block(T[1], &[("p", &[("new", Some(1))])])]);
        table.log(log_name(six, T[3], T[5]), 1, &[table.block(T[5], &[("p", &[("newer", Some(1))])])]);
        check(&table, &[("new", 1), ("newer", 1), ("old", 1)]);
    }
}

#[test]
fn services_of_version_6_append_digits_to_instants() {
    let table = Synthetic::new(6);
    table.commit(T[1], T[1]);
    table.commit(T[5], T[5]);
    let compaction = format!("{}001", T[1]);
    table.metadata(&format!("{compaction}.commit"));
    table.base(&compaction, &[ALL_P, ("p", &[("a", Some(1))])]);
    table.log(T[1], 1, &[table.block(T[1], &[("p", &[("gone", Some(1))])])]);
    table.log(&compaction, 1, &[table.block(T[5], &[("p", &[("b", Some(1))])])]);
    // An instant of the metadata table's own, named after one that the data table knows.
    let service = format!("{}006", T[5]);
    table.metadata(&format!("{service}.deltacommit"));
    table.log(&compaction, 2, &[table.block(&service, &[("p", &[("c", Some(1))])])]);
    check(&table, &[("a", 1), ("b", 1), ("c", 1)]);
}

#[test]
fn rollbacks_deletes_and_log_compactions_in_the_logs() {
    let table = Synthetic::new(6);
    let commit = |times: &[&str]| times.iter().for_each(|time| table.commit(time, time));
    commit(&[SOLO, T[1], T[2], T[3]]);
    table.base(SOLO, &[ALL_P, ("p", &[("base", Some(1))]), ("q", &[("q", Some(1))])]);
    let put = |instant, name| table.block(instant, &[("p", &[(name, Some(1))])]);
    table.log(SOLO, 1, &[put(T[1], "one"), put(T[2], "two")]);
    table.log(SOLO, 2, &[rollback_block(T[3], T[2]), put(T[3], "three")]);
    check(&table, &[("base", 1), ("one", 1), ("three", 1)]);
    commit(&[T[4], T[5]]);
    // Replaces 1 and 3, and is itself whole.
    let merged = table.compacted_block(T[4], &format!("{},{}", T[1], T[3]), &[("p", &[("merged", Some(1))])]);
    table.log(SOLO, 3, &[merged, put(T[5], "five")]);
    check(&table, &[("base", 1), ("five", 1), ("merged", 1)]);
    commit(&[T[6]]);
    table.log(SOLO, 4, &[delete_block(T[6], &["p"]), table.block(T[6], &[("p", &[("six", Some(1))])])]);
    check(&table, &[("six", 1)]);
    let lister = table.open().unwrap();
    assert_eq!(files_of(&lister, "q"), [("q".to_owned(), 1)]);
}

#[test]
fn partitions_are_named_as_stored() {
    let table = Synthetic::new(8);
    table.commit(SOLO, "20240101000000001");
    table.commit(T[1], T[2]);
    let names = [("b/c=2024%2F01%20", Some(0)), ("a", Some(0)), ("gone", Some(0)), ("ä=ö", Some(0))];
    table.base(SOLO, &[("__all_partitions__", &names), ("b/c=2024%2F01%20", &[("x", Some(1))])]);
    table.log(T[1], 1, &[table.block(T[1], &[("__all_partitions__", &[("gone", None)])])]);
    let lister = table.open().unwrap();
    let partitions: Vec<_> = lister.partitions().unwrap().iter().map(|p| p.as_str().to_owned()).collect();
    assert_eq!(partitions, ["a", "b/c=2024%2F01%20", "ä=ö"]);
    assert_eq!(files_of(&lister, "b/c=2024%2F01%20"), [("x".to_owned(), 1)]);
    assert_eq!(files_of(&lister, "a"), [], "a partition without a record has no files");
}

#[test]
fn a_table_without_partitions_has_its_base() {
    let table = Synthetic::new(9);
    table.commit(SOLO, "20240101000000001");
    table.base(SOLO, &[("__all_partitions__", &[(".", Some(0))]), (".", &[("x", Some(1))])]);
    let lister = table.open().unwrap();
    assert_eq!(lister.partitions().unwrap(), [TablePath::root()]);
    assert_eq!(files_of(&lister, ""), [("x".to_owned(), 1)]);
}

#[test]
fn partitions_that_lead_out_of_the_table_are_refused() {
    for hostile in ["../other", "/etc", "a//b", "a/../../b"] {
        let table = Synthetic::new(8);
        table.commit(SOLO, "20240101000000001");
        table.base(SOLO, &[("__all_partitions__", &[("a", Some(0)), (hostile, Some(0))])]);
        let error = table.open().unwrap().partitions().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains(hostile), "{error}");
    }
}

#[test]
fn a_metadata_table_that_is_not_in_use_is_not_found() {
    let table = Synthetic::new(8);
    table.commit(SOLO, "20240101000000001");
    table.base(SOLO, &[ALL_P]);
    table.open().unwrap();
    for lists in
        ["", "hoodie.table.metadata.partitions=column_stats\nhoodie.table.metadata.partitions.inflight=files\n"]
    {
        table.properties("", lists);
        assert!(!MetadataLister::is_available(&table.timeline()));
        assert_eq!(table.open().unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn a_metadata_table_that_missed_a_write_is_not_trusted() {
    for (i, table) in versions().enumerate() {
        table.commit(SOLO, "20240101000000001");
        table.commit(T[1], T[2]);
        table.base(SOLO, &[ALL_P]);
        // The records of a write that both tables have completed must be somewhere.
        let error = table.open().unwrap_err();
        assert!(error.message().contains(&format!("no log file holds the records of completed deltacommit {}", T[1])));
        table.log(log_name(i == 0, SOLO, T[1]), 1, &[table.block(T[1], &[ALL_P])]);
        table.open().unwrap();
        for missed in ["commit", "replacecommit", "clean"] {
            let file = format!("{}{}.{missed}", T[3], if i == 0 { String::new() } else { format!("_{}", T[4]) });
            table.data(&file);
            let error = table.open().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.message().contains(&format!("does not know {missed} {}", T[3])), "{error}");
            assert!(error.hint().is_some());
            let folder = if i == 0 { ".hoodie" } else { ".hoodie/timeline" };
            std::fs::remove_file(table.base_path().join(folder).join(file)).unwrap();
        }
    }
}

#[test]
fn a_metadata_table_that_was_made_later_knows_what_was_there() {
    let table = Synthetic::new(8);
    table.data(&format!("{}_{}.commit", T[1], T[2]));
    table.metadata(&format!("{SOLO}_{}.deltacommit", T[3]));
    table.base(SOLO, &[ALL_P, ("p", &[("a", Some(1))])]);
    check(&table, &[("a", 1)]);
    let table = Synthetic::new(6);
    table.data(&format!("{}.commit", T[1]));
    let start = format!("{}010", T[1]);
    table.metadata(&format!("{start}.deltacommit"));
    table.base(&start, &[ALL_P, ("p", &[("a", Some(1))])]);
    check(&table, &[("a", 1)]);
}

#[test]
fn what_is_missing_or_more_than_it_should_be_is_refused() {
    let table = Synthetic::new(8);
    table.commit(SOLO, "20240101000000001");
    let message = |table: &Synthetic| {
        let error = table.open().unwrap_err();
        assert_ne!(error.kind(), ErrorKind::NotFound, "that would say that there is no metadata table: {error}");
        error.message().to_owned()
    };
    assert!(message(&table).contains("no committed file"));
    table.base(SOLO, &[("p", &[("a", Some(1))])]);
    assert!(message(&table).contains("__all_partitions__"));
    table.base(SOLO, &[ALL_P]);
    table.open().unwrap();
    let files = table.base_path().join(".hoodie/metadata/files");
    let second = files.join(format!("files-0001-0_0-1-2_{SOLO}.hfile"));
    std::fs::copy(files.join(format!("files-0000-0_0-1-2_{SOLO}.hfile")), &second).unwrap();
    assert!(message(&table).contains("more than one file group"));
    std::fs::remove_file(second).unwrap();
    std::fs::remove_dir_all(&files).unwrap();
    assert!(message(&table).contains("does not exist"));
    std::fs::remove_dir_all(table.base_path().join(".hoodie/metadata")).unwrap();
    assert!(message(&table).contains(".hoodie/metadata"));
}
