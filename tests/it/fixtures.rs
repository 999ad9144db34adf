//! The fixture tables under `tests/fixtures`, held against what Spark with Hudi answered when it wrote them.
//!
//! Every answer is checked twice, by the metadata table (where there is one) and by listing storage, for the latest state and as
//! of each completed instant.

use crate::common::{Unpacked, repo, unpack};
use crate::golden::{listed, open};
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
        let newest = Moment { as_of: None, files: files_of(&self.answer["ro"]), complete: true };
        let past = self.answer["time_travel"].as_object().unwrap().iter().map(|(instant, point)| Moment {
            as_of: Some(instant.clone()),
            files: files_of(point.get(trust).unwrap_or(&point["at_commit"])),
            complete: point["complete"].as_bool().unwrap(),
        });
        std::iter::once(newest).chain(past).collect()
    }
}

fn files_of(answer: &Value) -> Files {
    let files = answer["files"].as_array().unwrap();
    files.iter().map(|f| (f["path"].as_str().unwrap().to_owned(), f["size"].as_u64().unwrap())).collect()
}

#[test]
fn every_moment_shows_the_files_that_spark_scanned() {
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
fn the_metadata_table_is_used_where_hudi_keeps_one() {
    for fixture in Fixture::all() {
        let table = open(&fixture.table.base(), Listing::Auto).unwrap();
        let lister = if fixture.has_metadata_table() { "metadata_table" } else { "storage" };
        assert_eq!(table.snapshot().lister_name(), lister, "{}", fixture.name);
    }
}

#[test]
fn the_files_hold_as_many_rows_as_spark_counted() {
    for fixture in Fixture::all() {
        let table = open(&fixture.table.base(), Listing::Auto).unwrap();
        let files = listed(&table.snapshot());
        let rows: i64 = files
            .keys()
            .map(|path| {
                let file = std::fs::File::open(fixture.table.base().join(path)).unwrap();
                SerializedFileReader::new(file).unwrap().metadata().file_metadata().num_rows()
            })
            .sum();
        assert_eq!(rows, fixture.answer["ro"]["rows"].as_i64().unwrap(), "{}", fixture.name);
    }
}

#[test]
fn the_timeline_has_the_instants_that_hudi_wrote() {
    let parse = |text: &str| InstantTime::parse(text).unwrap();
    for fixture in Fixture::all() {
        let snapshot = open(&fixture.table.base(), Listing::Auto).unwrap().snapshot();
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
