//! The fixture tables under `tests/fixtures`, held against what Spark with Hudi answered when it wrote them.
//!
//! Every answer is checked twice, by the metadata table (where there is one) and by listing storage, for the latest state and as
//! of each completed instant.

use crate::common::{Unpacked, repo, unpack};
use crate::golden::{listed, open};
use hudifs::error::ErrorKind;
use hudifs::format::instant::InstantTime;
use hudifs::table::Listing;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;
use std::collections::BTreeMap;

/// Path of a file within its table, and size.
type Files = BTreeMap<String, u64>;

struct Fixture {
    name: String,
    table: Unpacked,
    answer: Value,
}

/// A moment that Spark was asked about.
struct Moment {
    /// The instant; `None`: the table as it was left.
    as_of: Option<String>,
    files: Files,
    rows: i64,
    /// False where some of the files have been cleaned since.
    complete: bool,
}

impl Fixture {
    fn open(name: &str) -> Fixture {
        let dir = repo().join("tests/fixtures");
        let answer = serde_json::from_slice(&std::fs::read(dir.join(format!("{name}.json"))).unwrap()).unwrap();
        Fixture { name: name.to_owned(), table: unpack(&dir.join(format!("{name}.zip")), name), answer }
    }

    fn all() -> impl Iterator<Item = Fixture> {
        let dir = repo().join("tests/fixtures");
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .filter_map(|e| Some(e.unwrap().file_name().to_str()?.strip_suffix(".zip")?.to_owned()))
            .collect();
        names.sort();
        assert!(names.len() >= 56, "only {} fixture tables", names.len());
        names.into_iter().map(|name| Fixture::open(&name))
    }

    fn has_metadata_table(&self) -> bool {
        self.answer["metadata_table"].as_bool().unwrap()
    }

    /// The ways to list it, each of which must give the same.
    fn listings(&self) -> &'static [Listing] {
        match self.has_metadata_table() {
            true => &[Listing::MetadataTable, Listing::Storage],
            false => &[Listing::Storage],
        }
    }

    fn moments(&self) -> Vec<Moment> {
        // Asked right after the commit, and again at the end: where the answers differ, the fixture says which one is right.
        let trust = self.answer["trust"].as_str().unwrap();
        let moment = |as_of: Option<String>, answer: &Value, complete: bool| Moment {
            as_of,
            files: files_of(answer),
            rows: answer["rows"].as_i64().unwrap(),
            complete,
        };
        let newest = moment(None, &self.answer["ro"], true);
        let past = self.answer["time_travel"].as_object().unwrap().iter().map(|(instant, point)| {
            let answer = point.get(trust).unwrap_or(&point["at_commit"]);
            moment(Some(instant.clone()), answer, point["complete"].as_bool().unwrap())
        });
        std::iter::once(newest).chain(past).collect()
    }
}

fn files_of(answer: &Value) -> Files {
    let files = answer["files"].as_array().unwrap();
    files.iter().map(|f| (f["path"].as_str().unwrap().to_owned(), f["size"].as_u64().unwrap())).collect()
}

#[test]
fn every_moment_shows_the_files_and_rows_that_spark_scanned() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for fixture in Fixture::all() {
        for listing in fixture.listings() {
            let table = open(&fixture.table.base(), *listing).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
            for moment in fixture.moments().into_iter().filter(|m| m.complete) {
                compared += 1;
                let what = format!("{} by {listing:?} as of {:?}", fixture.name, moment.as_of);
                match table.as_of(moment.as_of.as_deref().unwrap_or("latest")) {
                    Ok(snapshot) => {
                        let found = listed(&snapshot);
                        if found != moment.files {
                            wrong.push(format!("{what}:\n   found {found:?}\n   Spark {:?}", moment.files));
                        } else {
                            assert_eq!(rows_of(&fixture, &found), moment.rows, "{what}: rows");
                        }
                    }
                    Err(e) => wrong.push(format!("{what}: {e}")),
                }
            }
            let warnings = table.snapshot().warnings();
            assert!(warnings.is_empty(), "{}: {warnings:?}", fixture.name);
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 500, "only {compared} moments");
    println!("{compared} moments agree with Spark");
}

#[test]
fn a_moment_whose_files_are_cleaned_is_refused_and_not_shown_in_part() {
    let mut refused = 0;
    for fixture in Fixture::all() {
        let cleaned: Vec<Moment> = fixture.moments().into_iter().filter(|m| !m.complete).collect();
        for listing in fixture.listings().iter().filter(|_| !cleaned.is_empty()) {
            let table = open(&fixture.table.base(), *listing).unwrap();
            for moment in &cleaned {
                let snapshot = table.as_of(moment.as_of.as_deref().unwrap()).unwrap();
                let mut found = Files::new();
                let mut missed = Vec::new();
                for partition in snapshot.partitions().unwrap().iter() {
                    match snapshot.partition(partition) {
                        Ok(view) => found.extend(view.listed().map(|f| {
                            let path = snapshot.stored_path(partition, &f).unwrap();
                            (path.to_string(), f.size().unwrap())
                        })),
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::Stale, "{}: {e}", fixture.name);
                            missed.push(format!("{partition}/"));
                        }
                    }
                }
                // What is not refused is whole.
                let mut whole = moment.files.clone();
                whole.retain(|path, _| !missed.iter().any(|p| path.starts_with(p.as_str())));
                assert_eq!(found, whole, "{} by {listing:?} as of {:?}", fixture.name, moment.as_of);
                assert!(!missed.is_empty(), "{} as of {:?}: nothing is refused", fixture.name, moment.as_of);
                refused += 1;
            }
        }
    }
    assert!(refused >= 8, "only {refused} moments");
}

/// Rows that the footers of these files tell.
fn rows_of(fixture: &Fixture, files: &Files) -> i64 {
    let rows = |path: &String| {
        let file = std::fs::File::open(fixture.table.base().join(path)).unwrap();
        SerializedFileReader::new(file).unwrap().metadata().file_metadata().num_rows()
    };
    files.keys().map(rows).sum()
}

#[test]
fn the_timeline_and_the_lister_are_those_that_hudi_wrote() {
    let parse = |text: &str| InstantTime::parse(text).unwrap();
    for fixture in Fixture::all() {
        let snapshot = open(&fixture.table.base(), Listing::Auto).unwrap().snapshot();
        let lister = if fixture.has_metadata_table() { "metadata_table" } else { "storage" };
        assert_eq!(snapshot.lister_name(), lister, "{}", fixture.name);

        let points = fixture.answer["time_travel"].as_object().unwrap();
        let expected: Vec<InstantTime> = points.keys().map(|t| parse(t)).collect();
        let mut found: Vec<InstantTime> = snapshot.timeline().writes().map(|i| i.requested).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{}: completed writes", fixture.name);
        assert_eq!(
            snapshot.instant(),
            fixture.answer["latest_instant"].as_str().map(parse),
            "{}: latest",
            fixture.name
        );

        let pending = fixture.answer["pending_instants"].as_array().unwrap();
        let mut expected: Vec<InstantTime> = pending.iter().map(|p| parse(p["instant"].as_str().unwrap())).collect();
        let mut found: Vec<InstantTime> = snapshot.timeline().pending().map(|i| i.requested).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{}: pending instants", fixture.name);
    }
}
