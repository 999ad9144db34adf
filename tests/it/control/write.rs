//! Writing through the socket: every operation and form, what is refused and that it leaves nothing behind, jobs, transactions.

use super::http::{Reply, Served};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use hudifs::control::server::Limits;
use hudifs::control::types::CreateRequest;
use hudifs::daemon::Service;
use hudifs::daemon::service::ServiceOptions;
use hudifs::daemon::writing::create_table;
use hudifs::storage::StorageOptions;
use hudifs::table::{Table, TableOptions};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const ARROW: &str = "application/vnd.apache.arrow.stream";
pub const PARQUET: &str = "application/vnd.apache.parquet";
pub const NDJSON: &str = "application/x-ndjson";
pub const CSV: &str = "text/csv";

/// A table of trips, on a disk of its own.
pub struct Trips {
    dir: tempfile::TempDir,
}

/// One trip: key, city, fare, time.
pub type Trip = (&'static str, &'static str, f64, i64);

pub const FIRST: [Trip; 3] = [("a", "oslo", 1.5, 1), ("b", "rome", 2.5, 1), ("c", "oslo", 3.5, 1)];

impl Trips {
    /// Created, and without a commit.
    pub fn empty() -> Trips {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut CreateRequest)) -> Trips {
        let trips = Trips { dir: tempfile::tempdir().unwrap() };
        let mut request = CreateRequest {
            name: "trips".into(),
            record_key: vec!["id".into()],
            partition_by: vec!["city".into()],
            ordering: vec!["ts".into()],
            ..CreateRequest::default()
        };
        change(&mut request);
        let base = trips.base();
        create_table(&request, || hudifs::storage::open_new(base.to_str().unwrap(), &StorageOptions::default()))
            .unwrap();
        trips
    }

    /// With the first three trips.
    pub fn new() -> Trips {
        let trips = Self::empty();
        let served = trips.serve();
        committed(&served.records("/v1/tables/trips/upsert", NDJSON, &ndjson(&FIRST)));
        trips
    }

    pub fn base(&self) -> PathBuf {
        self.dir.path().join("trips")
    }

    pub fn serve(&self) -> Served {
        Served::table(&self.base())
    }

    /// The rows of the read-optimized view: city, fare and time by key.
    pub fn rows(&self) -> BTreeMap<String, Value> {
        rows(&self.base())
    }

    /// Path and content of every file of the table, but for leases and the like, which no reader of the table looks at.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut pending = vec![self.base()];
        while let Some(dir) = pending.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.ends_with(".aux/.leases") {
                    continue;
                }
                match path.is_dir() {
                    true => pending.push(path),
                    false => drop(files.insert(path.clone(), std::fs::read(path).unwrap())),
                }
            }
        }
        files
    }
}

/// The rows of the read-optimized view of a table, by record key.
pub fn rows(base: &Path) -> BTreeMap<String, Value> {
    let storage = hudifs::storage::open(base.to_str().unwrap(), &StorageOptions::default()).unwrap();
    let snapshot = Table::open(storage, TableOptions::default()).unwrap().snapshot();
    let mut rows = BTreeMap::new();
    for partition in snapshot.partitions().unwrap().iter() {
        for file in snapshot.partition(partition).unwrap().listed() {
            let path = base.join(partition.as_str()).join(file.name());
            for row in parquet_rows(&path) {
                let key = row["_hoodie_record_key"].as_str().unwrap().to_owned();
                assert!(rows.insert(key.clone(), row).is_none(), "{key} twice");
            }
        }
    }
    rows
}

/// The rows of a Parquet file.
pub fn parquet_rows(path: &Path) -> Vec<Value> {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let mut writer = arrow::json::LineDelimitedWriter::new(Vec::new());
    for batch in reader {
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let text = String::from_utf8(writer.into_inner()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn ndjson(trips: &[Trip]) -> Vec<u8> {
    let line = |t: &Trip| format!("{}\n", json!({"id": t.0, "city": t.1, "fare": t.2, "ts": t.3}));
    trips.iter().map(line).collect::<String>().into_bytes()
}

pub fn csv(trips: &[Trip]) -> Vec<u8> {
    let line = |t: &Trip| format!("{},{},{},{}\n", t.0, t.1, t.2, t.3);
    format!("id,city,fare,ts\n{}", trips.iter().map(line).collect::<String>()).into_bytes()
}

pub fn batch(trips: &[Trip]) -> RecordBatch {
    let text =
        |get: fn(&Trip) -> &'static str| Arc::new(StringArray::from_iter_values(trips.iter().map(get))) as ArrayRef;
    RecordBatch::try_from_iter([
        ("id", text(|t| t.0)),
        ("city", text(|t| t.1)),
        ("fare", Arc::new(Float64Array::from_iter_values(trips.iter().map(|t| t.2))) as ArrayRef),
        ("ts", Arc::new(Int64Array::from_iter_values(trips.iter().map(|t| t.3))) as ArrayRef),
    ])
    .unwrap()
}

pub fn arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

pub fn parquet_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

pub fn body(form: &str, trips: &[Trip]) -> Vec<u8> {
    match form {
        ARROW => arrow_stream(&batch(trips)),
        PARQUET => parquet_file(&batch(trips)),
        NDJSON => ndjson(trips),
        CSV => csv(trips),
        _ => unreachable!(),
    }
}

impl Served {
    pub fn records(&self, path: &str, form: &str, body: &[u8]) -> Reply {
        self.send("POST", path, &[("Content-Type", form)], body)
    }
}

/// The report of a commit.
#[track_caller]
pub fn committed(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    let report = reply.json();
    assert!(report["instant"].is_string() || report["dry_run"] == true, "{report}");
    assert_eq!(report["warnings"], json!([]), "{report}");
    report
}

fn counts(report: &Value) -> [u64; 4] {
    ["rows", "inserted", "updated", "deleted"].map(|field| report[field].as_u64().unwrap())
}

/// Key, city, fare and time of rows.
fn trips(rows: &BTreeMap<String, Value>) -> Vec<(String, String, f64, i64)> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    rows.values()
        .map(|r| (text(r, "id"), text(r, "city"), r["fare"].as_f64().unwrap(), r["ts"].as_i64().unwrap()))
        .collect()
}

fn wanted(trips: &[Trip]) -> Vec<(String, String, f64, i64)> {
    trips.iter().map(|t| (t.0.to_owned(), t.1.to_owned(), t.2, t.3)).collect()
}

#[test]
fn every_form_of_records_is_taken() {
    for form in [ARROW, PARQUET, NDJSON, CSV] {
        let table = Trips::empty();
        let served = table.serve();
        let first = committed(&served.records("/v1/tables/trips/upsert", form, &body(form, &FIRST)));
        assert_eq!(counts(&first), [3, 3, 0, 0], "{form}");
        assert_eq!((first["operation"].as_str(), first["action"].as_str()), (Some("UPSERT"), Some("commit")));
        assert_eq!(first["files"].as_array().unwrap().len(), 2, "{form}: {first}");
        assert_eq!(trips(&table.rows()), wanted(&FIRST), "{form}");
        let change = [("b", "rome", 20.0, 2), ("d", "oslo", 4.5, 2)];
        let second = committed(&served.records("/v1/tables/trips/upsert", form, &body(form, &change)));
        assert_eq!(counts(&second), [2, 1, 1, 0], "{form}");
        assert_eq!(trips(&table.rows()), wanted(&[FIRST[0], change[0], FIRST[2], change[1]]), "{form}");
        // Shown by the same socket at once.
        let files = served.get("/v1/tables/trips/files").json();
        assert_eq!(files["instant"], second["instant"]);
    }
}

#[test]
fn every_operation_does_what_its_name_says() {
    let table = Trips::new();
    let served = table.serve();
    let send = |operation: &str, rows: &[Trip]| {
        committed(&served.records(&format!("/v1/tables/trips/{operation}"), NDJSON, &ndjson(rows)))
    };
    let inserted = send("insert", &[("d", "rome", 4.0, 1)]);
    assert_eq!(counts(&inserted), [1, 1, 0, 0]);
    let bulk = send("bulk_insert", &[("e", "bern", 5.0, 1), ("f", "bern", 6.0, 1)]);
    assert_eq!((bulk["operation"].as_str(), bulk["inserted"].as_u64()), (Some("BULK_INSERT"), Some(2)));
    assert_eq!(table.rows().len(), 6);

    // Keys and their partitions are enough to delete.
    let keys = served.records("/v1/tables/trips/delete", CSV, b"id,city\na,oslo\nnobody,oslo\n").json();
    assert_eq!((keys["deleted"].as_u64(), keys["warnings"].as_array().map(Vec::len)), (Some(1), Some(1)), "{keys}");
    assert_eq!(table.rows().keys().map(String::as_str).collect::<Vec<_>>(), ["b", "c", "d", "e", "f"]);

    let replaced = send("insert_overwrite", &[("g", "bern", 7.0, 1)]);
    assert_eq!((replaced["action"].as_str(), replaced["replaced"].as_u64()), (Some("replacecommit"), Some(1)));
    assert_eq!(table.rows().keys().map(String::as_str).collect::<Vec<_>>(), ["b", "c", "d", "g"]);

    let dropped = served.send("POST", "/v1/tables/trips/delete_partition?partition=rome", &[], b"");
    committed(&dropped);
    let dropped = served.post("/v1/tables/trips/delete_partition", &json!({"partitions": ["bern"]}));
    committed(&dropped);
    assert_eq!(table.rows().keys().map(String::as_str).collect::<Vec<_>>(), ["c"]);

    send("insert_overwrite_table", &[("z", "rome", 9.0, 1)]);
    assert_eq!(trips(&table.rows()), wanted(&[("z", "rome", 9.0, 1)]));
}

#[test]
fn the_greater_ordering_value_wins_and_settings_reach_the_writer() {
    let table = Trips::new();
    let served = table.serve();
    let stale = [("a", "oslo", 99.0, 0)];
    committed(&served.records("/v1/tables/trips/upsert?index=bloom", NDJSON, &ndjson(&stale)));
    assert_eq!(trips(&table.rows()), wanted(&FIRST), "an older row must not win");
    let other = served.records("/v1/tables/trips/upsert?index=simple", NDJSON, &ndjson(&stale)).problem(400, "invalid");
    assert!(other["detail"].as_str().unwrap().contains("BLOOM"), "{other}");
    let path = "/v1/tables/trips/bulk_insert?set=hoodie.parquet.max.file.size%3Dlots";
    let problem = served.records(path, NDJSON, &ndjson(&stale)).problem(400, "invalid");
    assert!(problem["detail"].as_str().unwrap().contains("hoodie.parquet.max.file.size"), "{problem}");
}

#[test]
fn a_dry_run_tells_and_writes_nothing() {
    let table = Trips::new();
    let served = table.serve();
    let before = table.files();
    let change = [("a", "oslo", 10.0, 2), ("x", "bern", 1.0, 2)];
    for operation in ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"] {
        let reply = served.records(&format!("/v1/tables/trips/{operation}?dry_run=true"), CSV, &csv(&change));
        let report = committed(&reply);
        assert_eq!((&report["dry_run"], &report["instant"], &report["rows"]), (&json!(true), &Value::Null, &json!(2)));
        assert_eq!(table.files(), before, "{operation}");
    }
    let reply = served.send("POST", "/v1/tables/trips/delete_partition?dry_run=true&partition=oslo", &[], b"");
    assert_eq!(committed(&reply)["replaced"], 1);
    assert_eq!(table.files(), before);
    let report = committed(&served.records("/v1/tables/trips/upsert?dry_run=true", CSV, &csv(&change)));
    assert_eq!(counts(&report), [2, 1, 1, 0]);
    // A misspelt dry run must not write.
    served.records("/v1/tables/trips/upsert?dryrun=true", CSV, &csv(&change)).problem(400, "invalid");
    assert_eq!(table.files(), before);
}

#[test]
fn a_retry_with_the_same_key_gets_the_first_result() {
    let table = Trips::new();
    let headers = [("Content-Type", NDJSON), ("Idempotency-Key", "order-66")];
    let change = ndjson(&[("n", "oslo", 1.0, 1)]);
    let first = table.serve().send("POST", "/v1/tables/trips/insert", &headers, &change);
    let first = committed(&first);
    assert_eq!(first["replayed"], false);
    // Another daemon knows it from the commit.
    let served = table.serve();
    let again = committed(&served.send("POST", "/v1/tables/trips/insert", &headers, &change));
    assert_eq!((&again["replayed"], &again["instant"]), (&json!(true), &first["instant"]));
    assert_eq!(table.rows().len(), 4);
    let other = [headers[0], ("Idempotency-Key", "order-67")];
    let other = committed(&served.send("POST", "/v1/tables/trips/upsert", &other, &change));
    assert_ne!(other["instant"], first["instant"]);
}

/// Retries at the same moment are one commit as well.
#[test]
fn retries_at_the_same_moment_are_one_commit() {
    let table = Trips::new();
    let served = table.serve();
    let replies: Vec<Value> = std::thread::scope(|scope| {
        let send = || {
            let headers = [("Content-Type", NDJSON), ("Idempotency-Key", "k")];
            committed(&served.send("POST", "/v1/tables/trips/insert", &headers, &ndjson(&[("n", "oslo", 1.0, 1)])))
        };
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(replies.iter().filter(|r| r["replayed"] == false).count(), 1);
    assert!(replies.iter().all(|r| r["instant"] == replies[0]["instant"]));
    assert_eq!(table.rows().len(), 4);
}

#[test]
fn writes_to_one_table_take_turns() {
    let table = Trips::new();
    let served = table.serve();
    let keys: Vec<String> = (0..12).map(|n| format!("k{n:02}")).collect();
    std::thread::scope(|scope| {
        for key in &keys {
            let served = &served;
            scope.spawn(move || {
                let row = format!("{}\n", json!({"id": key, "city": "oslo", "fare": 1.0, "ts": 1}));
                committed(&served.records("/v1/tables/trips/upsert", NDJSON, row.as_bytes()));
            });
        }
    });
    let rows = table.rows();
    assert_eq!(rows.len(), 3 + keys.len());
    assert!(keys.iter().all(|key| rows.contains_key(key)));
    let jobs = served.get("/v1/jobs").json();
    let states: Vec<&str> = jobs["jobs"].as_array().unwrap().iter().map(|j| j["state"].as_str().unwrap()).collect();
    assert_eq!(states, vec!["done"; keys.len()]);
}

#[test]
fn a_client_that_does_not_wait_gets_a_job() {
    let table = Trips::new();
    let served = table.serve();
    let send = |prefer: &str, body: &[u8]| {
        let headers = [("Content-Type", NDJSON), ("Prefer", prefer)];
        served.send("POST", "/v1/tables/trips/upsert", &headers, body)
    };
    let ended = |path: &str| served.send("GET", path, &[("Prefer", "wait=20")], b"").json();
    let reply = send("respond-async", &ndjson(&[("n", "oslo", 1.0, 1)]));
    assert_eq!((reply.status, reply.header("preference-applied")), (202, Some("respond-async")));
    let place = reply.header("location").unwrap().to_owned();
    assert_eq!(place, format!("/v1/jobs/{}", reply.json()["id"].as_str().unwrap()));
    let job = ended(&place);
    assert_eq!((job["state"].as_str(), job["phase"].as_str()), (Some("done"), Some("done")), "{job}");
    assert_eq!((&job["commit"]["inserted"], &job["rows"]), (&json!(1), &json!(1)));
    assert!(job["ended_ms"].as_i64() >= job["started_ms"].as_i64());
    assert_eq!(served.get("/v1/tables/trips").json()["instant"], job["commit"]["instant"]);

    let failed = ended(send("respond-async", b"{\"id\": 7").header("location").unwrap());
    assert_eq!((failed["state"].as_str(), failed["error"]["code"].as_str()), (Some("failed"), Some("invalid")));
    assert_eq!(failed["error"]["table"], "trips");
    // Done within the time that the client would wait.
    committed(&send("respond-async, wait=20", &ndjson(&[("m", "oslo", 1.0, 1)])));
    served.get("/v1/jobs/no-such").problem(404, "not_found");
}

#[test]
fn a_transaction_is_one_commit_of_several_requests() {
    let table = Trips::new();
    let served = table.serve();
    let before = table.files();
    let begun = served.post("/v1/transactions", &json!({"operation": "upsert", "ttl_seconds": 60}));
    assert_eq!(begun.status, 201, "{:?}", begun.json());
    let place = begun.header("location").unwrap().to_owned();
    for (form, rows) in
        [(CSV, [("a", "oslo", 10.0, 2)]), (PARQUET, [("p", "bern", 1.0, 2)]), (ARROW, [("q", "bern", 2.0, 2)])]
    {
        let reply = served.records(&format!("{place}/records"), form, &body(form, &rows));
        assert_eq!(reply.status, 200, "{form}: {:?}", reply.json());
    }
    // A bad request is refused by itself, and the transaction goes on.
    served.records(&format!("{place}/records"), NDJSON, b"{\"id\": \"x\", \"ci").problem(400, "invalid");
    let open = served.get(&place).json();
    assert_eq!((&open["requests"], &open["rows"], &open["state"]), (&json!(3), &json!(3), &json!("open")));
    assert_eq!(served.get("/v1/transactions").json()["transactions"], json!([open]));
    assert_eq!(table.files(), before, "nothing is written before the commit");

    let dry = committed(&served.send("POST", &format!("{place}/commit?dry_run=true"), &[], b""));
    assert_eq!(counts(&dry), [3, 2, 1, 0]);
    assert_eq!(table.files(), before);
    let report = committed(&served.send("POST", &format!("{place}/commit"), &[("Idempotency-Key", "t1")], b""));
    assert_eq!(counts(&report), [3, 2, 1, 0]);
    served.get(&place).problem(404, "not_found");
    let timeline = served.get("/v1/tables/trips/timeline").json();
    assert_eq!(timeline["instants"].as_array().unwrap().len(), 2, "one commit each: {timeline}");
    let rows = [("a", "oslo", 10.0, 2), FIRST[1], FIRST[2], ("p", "bern", 1.0, 2), ("q", "bern", 2.0, 2)];
    assert_eq!(trips(&table.rows()), wanted(&rows));
}

#[test]
fn a_transaction_that_is_aborted_or_forgotten_leaves_nothing() {
    let table = Trips::new();
    let served = table.serve();
    let before = table.files();
    let begin = |ttl: u64| {
        let begun = served.post("/v1/transactions", &json!({"table": "trips", "ttl_seconds": ttl}));
        let place = begun.header("location").unwrap().to_owned();
        let sent = served.records(&format!("{place}/records"), CSV, &csv(&[("x", "oslo", 1.0, 1)]));
        assert_eq!(sent.status, 200);
        place
    };
    let [by_delete, by_post, forgotten] = [begin(60), begin(60), begin(1)];
    assert_eq!(served.send("DELETE", &by_delete, &[], b"").status, 204);
    assert_eq!(served.send("POST", &format!("{by_post}/abort"), &[], b"").status, 204);
    let end = Instant::now() + Duration::from_secs(20);
    while served.get(&forgotten).status != 404 {
        assert!(Instant::now() < end, "never timed out");
        std::thread::sleep(Duration::from_millis(50));
    }
    for place in [by_delete, by_post, forgotten] {
        served.send("POST", &format!("{place}/commit"), &[], b"").problem(404, "not_found");
        served.records(&format!("{place}/records"), CSV, b"id\n1\n").problem(404, "not_found");
    }
    assert_eq!(table.files(), before);
}

#[test]
fn a_transaction_whose_commit_fails_stays_open() {
    let table = Trips::new();
    let served = table.serve();
    let begun = served.post("/v1/transactions", &json!({"operation": "upsert"}));
    let place = begun.header("location").unwrap().to_owned();
    // Rows that can be read, but whose key is null: found when the commit works out the keys.
    let bad = "{\"id\": null, \"city\": \"oslo\", \"fare\": 1.0, \"ts\": 1}\n";
    assert_eq!(served.records(&format!("{place}/records"), NDJSON, bad.as_bytes()).status, 200);
    let before = table.files();
    for _ in 0..2 {
        served.send("POST", &format!("{place}/commit"), &[], b"").problem(400, "invalid");
        assert_eq!(served.get(&place).json()["state"], "open");
    }
    assert_eq!(table.files(), before);
    assert_eq!(served.send("DELETE", &place, &[], b"").status, 204);
}

/// What is refused, with the status, the code, and words or the column that must be named.
struct Refused<'a> {
    what: &'a str,
    form: &'a str,
    body: Vec<u8>,
    status: u16,
    code: &'a str,
    names: &'a str,
}

fn hostile_bodies() -> Vec<Refused<'static>> {
    let refused = |what, form, body: Vec<u8>, names| Refused { what, form, body, status: 400, code: "invalid", names };
    let row = |change: Value| {
        let mut row: Map<String, Value> =
            json!({"id": "x", "city": "oslo", "fare": 1.0, "ts": 9}).as_object().unwrap().clone();
        row.extend(change.as_object().unwrap().clone());
        format!("{}\n", Value::Object(row)).into_bytes()
    };
    let good = ndjson(&FIRST);
    let cut = |bytes: Vec<u8>, keep: usize| bytes[..keep].to_vec();
    let (arrow, parquet) = (body(ARROW, &FIRST), body(PARQUET, &FIRST));
    let (arrow_len, parquet_len) = (arrow.len(), parquet.len());
    let deep =
        format!("{{\"id\": \"x\", \"city\": \"oslo\", \"fare\": {}1.0{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    let mut half_bad = good.clone();
    half_bad.extend(row(json!({"fare": "lots"})));
    vec![
        refused("JSON cut in the middle", NDJSON, cut(good.clone(), good.len() - 9), ""),
        refused("an Arrow stream cut in the middle", ARROW, cut(arrow.clone(), arrow_len - 40), ""),
        refused("an Arrow stream cut in its schema", ARROW, cut(arrow, 30), ""),
        refused("a Parquet file cut at its end", PARQUET, cut(parquet.clone(), parquet_len - 1), ""),
        refused("a Parquet file cut at its start", PARQUET, parquet[8..].to_vec(), ""),
        refused("CSV in the coat of Parquet", PARQUET, csv(&FIRST), ""),
        refused("Parquet in the coat of CSV", CSV, body(PARQUET, &FIRST), ""),
        refused("JSON that is an array", NDJSON, b"[1, 2, 3]\n".to_vec(), ""),
        refused("bytes that are no text", NDJSON, vec![0xff; 100], ""),
        refused("deep nesting", NDJSON, deep.into_bytes(), ""),
        refused("a text in the place of a number", NDJSON, row(json!({"fare": "lots"})), "fare"),
        refused("the same behind good rows", NDJSON, half_bad, "fare"),
        refused("an object in the place of a number", NDJSON, row(json!({"fare": {"a": 1}})), "fare"),
        refused("a text in the place of a number, as CSV", CSV, b"id,city,fare,ts\nx,oslo,lots,1\n".to_vec(), "fare"),
        refused("a line with too many values", CSV, b"id,city,fare,ts\nx,oslo,1,1,1,1\n".to_vec(), ""),
        refused("a column of another type", ARROW, arrow_stream(&other_type()), "fare"),
        refused("a fraction in the place of a whole number", NDJSON, row(json!({"ts": 1.5})), "ts"),
        refused("a whole number that is too large", NDJSON, row(json!({"ts": 1e30})), "ts"),
        refused("a null key", NDJSON, row(json!({"id": null})), "id"),
        refused("an empty key", NDJSON, row(json!({"id": ""})), "id"),
        refused("no key at all", CSV, b"city,fare,ts\noslo,1.5,1\n".to_vec(), "id"),
        refused("no partition column", CSV, b"id,fare,ts\nx,1.5,1\n".to_vec(), "city"),
        refused("a partition that leads out", NDJSON, row(json!({"city": ".."})), "city"),
        refused("a partition that leads out further in", NDJSON, row(json!({"city": "a/../../b"})), "city"),
        refused("a partition that is absolute", NDJSON, row(json!({"city": "/etc"})), "city"),
        refused("a partition with Hudi's own folder", NDJSON, row(json!({"city": ".hoodie"})), "city"),
        refused("a partition with a NUL", NDJSON, row(json!({"city": "a\u{0}b"})), "city"),
        refused("a column that is called twice", CSV, b"id,city,fare,fare,ts\nx,oslo,1,2,1\n".to_vec(), "fare"),
        refused("a name that Avro has not", NDJSON, row(json!({"no good": 1})), "no good"),
        Refused {
            status: 415,
            code: "unsupported_media_type",
            ..refused("a media type that is none", "application/json", good.clone(), "application/json")
        },
    ]
}

/// The trips with a list for the fare.
fn other_type() -> RecordBatch {
    use arrow::array::{ListBuilder, StringBuilder};
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("a")]);
    RecordBatch::try_from_iter([
        ("id", Arc::new(StringArray::from_iter_values(["x"])) as ArrayRef),
        ("city", Arc::new(StringArray::from_iter_values(["oslo"])) as ArrayRef),
        ("fare", Arc::new(lists.finish()) as ArrayRef),
        ("ts", Arc::new(Int64Array::from_iter_values([1])) as ArrayRef),
    ])
    .unwrap()
}

#[test]
fn hostile_bodies_write_nothing_and_are_told_what_is_wrong() {
    let table = Trips::new();
    let served = table.serve();
    let before = table.files();
    for hostile in hostile_bodies() {
        for operation in ["upsert", "bulk_insert", "insert_overwrite_table"] {
            let Refused { what, form, body, status, code, names } = &hostile;
            let reply = served.records(&format!("/v1/tables/trips/{operation}"), form, body);
            assert_eq!(reply.status, *status, "{what}, {operation}: {}", String::from_utf8_lossy(&reply.body));
            let problem = reply.problem(*status, code);
            let text = format!("{} {}", problem["detail"], problem["column"]);
            assert!(text.contains(names), "{what}, {operation}: {problem} does not name {names}");
            assert_eq!(table.files(), before, "{what}, {operation}: something was written");
        }
    }
    // It still works, and the same table shows it.
    committed(&served.records("/v1/tables/trips/upsert", NDJSON, &ndjson(&[("d", "bern", 1.0, 1)])));
    assert_eq!(table.rows().len(), 4);
}

/// Keys may be any text: what is special elsewhere is not here.
#[test]
fn keys_may_hold_anything() {
    let table = Trips::new();
    let served = table.serve();
    let keys =
        ["a:b", "a,b", "../../etc/passwd", "/", "..", "ü\u{10FFFF}", "id:a", "\"quoted\"", "new\nline", " ", "%2F"];
    let lines: String =
        keys.iter().map(|k| format!("{}\n", json!({"id": k, "city": "oslo", "fare": 1.0, "ts": 1}))).collect();
    let report = committed(&served.records("/v1/tables/trips/upsert", NDJSON, lines.as_bytes()));
    assert_eq!(counts(&report), [keys.len() as u64, keys.len() as u64, 0, 0]);
    // Found again, each of them.
    let report = committed(&served.records("/v1/tables/trips/upsert", NDJSON, lines.as_bytes()));
    assert_eq!(counts(&report), [keys.len() as u64, 0, keys.len() as u64, 0]);
    let rows = table.rows();
    assert!(keys.iter().all(|key| rows.contains_key(*key)), "{:?}", rows.keys());
    // The last one of a key that comes twice wins where the ordering values are equal.
    let twice = [("dup", "oslo", 1.0, 5), ("dup", "oslo", 2.0, 5), ("dup", "oslo", 3.0, 4)];
    committed(&served.records("/v1/tables/trips/upsert", NDJSON, &ndjson(&twice)));
    assert_eq!(table.rows()["dup"]["fare"], 2.0);
}

#[test]
fn a_body_that_breaks_off_writes_nothing() {
    let table = Trips::new();
    let served = table.serve();
    let before = table.files();
    let rows = ndjson(&[("x", "oslo", 1.0, 1), ("y", "oslo", 1.0, 1)]);
    // Announced longer than it is, and without the last chunk; cut after whole rows, so that only HTTP tells.
    let head = "POST /v1/tables/trips/upsert HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-ndjson\r\n";
    let long = format!("{head}Content-Length: {}\r\n\r\n", rows.len() + 1);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", rows.len());
    for (head, tail) in [(long, ""), (chunked, "\r\n")] {
        let mut stream = served.connect();
        stream.write_all(&[head.as_bytes(), &rows, tail.as_bytes()].concat()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let reply = Reply::read(stream);
        assert!(reply.status == 0 || reply.status == 400, "{reply:?}");
    }
    assert_eq!(served.get("/v1/jobs").json()["jobs"], json!([]), "no writer ever saw them");
    assert_eq!(table.files(), before);
}

fn bounded(table: &Trips, limits: Limits) -> Served {
    let service = Service::table(table.base().to_str().unwrap(), ServiceOptions::default()).unwrap();
    Served::service(Arc::new(service), limits)
}

#[test]
fn bodies_are_bounded_in_size_and_time() {
    let table = Trips::new();
    let limits = Limits {
        record_bytes: 200_000,
        record_memory_bytes: 10_000,
        stall_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let served = bounded(&table, limits);
    let before = table.files();
    // Said to be too large: refused before it is sent.
    let head = "POST /v1/tables/trips/upsert HTTP/1.1\r\nHost: h\r\nContent-Type: text/csv\r\n";
    served.raw(format!("{head}Content-Length: 200001\r\n\r\n").as_bytes()).problem(413, "body_too_large");
    // Endless, in chunks.
    let mut stream = served.connect();
    stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let mut sent = 0;
    while sent < 50_000_000 && stream.write_all(chunk.as_bytes()).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 5_000_000, "the server took {sent} bytes");
    let reply = Reply::read(stream);
    assert!(reply.status == 0 || reply.problem(413, "body_too_large")["hint"].is_string());
    // One that stalls.
    let mut stream = served.connect();
    stream.write_all(format!("{head}Content-Length: 1000\r\n\r\nid,city\n").as_bytes()).unwrap();
    Reply::read(stream).problem(408, "timeout");
    assert_eq!(table.files(), before);
    // One that fits, and goes by the disk.
    let lines: String = (0..5000).map(|n| format!("k{n},oslo,{n},1\n")).collect();
    let report =
        committed(&served.records("/v1/tables/trips/upsert", CSV, format!("id,city,fare,ts\n{lines}").as_bytes()));
    assert_eq!(counts(&report), [5000, 5000, 0, 0]);
}

#[test]
fn requests_that_make_no_sense_are_refused_before_their_bodies_are_read() {
    let table = Trips::new();
    let served = table.serve();
    let before = table.files();
    let announced = |path: &str, more: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\n{more}Content-Length: 1000000000\r\n\r\n");
        served.raw(head.as_bytes())
    };
    let csv = "Content-Type: text/csv\r\n";
    let upsert = "/v1/tables/trips/upsert";
    announced("/v1/tables/nothing/upsert", csv).problem(404, "not_found");
    announced(&format!("{upsert}?index=btree"), csv).problem(400, "invalid");
    announced(&format!("{upsert}?set=spark.x%3D1"), csv).problem(400, "invalid");
    announced(upsert, "").problem(415, "unsupported_media_type");
    announced(upsert, &format!("{csv}Content-Encoding: gzip\r\n")).problem(415, "unsupported_media_type");
    announced(upsert, &format!("{csv}Idempotency-Key: \r\n")).problem(400, "invalid");
    announced("/v1/transactions/none/records", csv).problem(404, "not_found");
    served.records(upsert, CSV, b"").problem(400, "invalid");
    served.send("POST", "/v1/tables/trips/delete_partition", &[], b"").problem(400, "invalid");
    for partition in ["..", "/etc", "a/../b", ".hoodie", "no-such"] {
        let path = format!("/v1/tables/trips/delete_partition?partition={partition}");
        let reply = served.send("POST", &path, &[], b"");
        assert!(matches!(reply.status, 400 | 404), "{partition}: {reply:?}");
    }
    assert_eq!(table.files(), before);
}

#[test]
fn a_mount_of_the_past_and_a_read_only_one_take_no_writes() {
    let table = Trips::new();
    let now = table.serve().get("/v1/tables/trips").json()["instant"].as_str().unwrap().to_owned();
    for options in [
        ServiceOptions { read_only: true, ..ServiceOptions::default() },
        ServiceOptions { as_of: Some(now), ..ServiceOptions::default() },
    ] {
        let service = Service::table(table.base().to_str().unwrap(), options).unwrap();
        let served = Served::service(Arc::new(service), Limits::default());
        let before = table.files();
        let refused = |reply: Reply| assert!(reply.problem(403, "read_only")["hint"].is_string());
        refused(served.records("/v1/tables/trips/upsert", CSV, &csv(&FIRST)));
        refused(served.send("POST", "/v1/tables/trips/clean", &[], b""));
        refused(served.post("/v1/transactions", &json!({})));
        assert_eq!(table.files(), before);
    }
}

#[test]
fn a_table_is_created_in_a_warehouse_and_written_to_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::warehouse(dir.path());
    let request = json!({"name": "db/trips", "record_key": ["id"], "partition_by": ["city"], "ordering": ["ts"], "hive_style": true});
    let created = served.post("/v1/tables", &request);
    assert_eq!(created.status, 201, "{}", created.json());
    let status = created.json();
    assert_eq!((status["name"].as_str(), status["hudi_name"].as_str()), (Some("db/trips"), Some("trips")));
    assert_eq!((&status["table_version"], &status["table_type"]), (&json!(6), &json!("COPY_ON_WRITE")));
    let report = committed(&served.records("/v1/tables/db%2Ftrips/upsert", NDJSON, &ndjson(&FIRST)));
    assert_eq!(report["inserted"], 3);
    let partitions: Vec<&str> =
        report["files"].as_array().unwrap().iter().map(|f| f["partition"].as_str().unwrap()).collect();
    assert_eq!(partitions, ["city=oslo", "city=rome"]);
    assert_eq!(rows(&dir.path().join("db/trips")).len(), 3);

    served.post("/v1/tables", &request).problem(409, "already_exists");
    for (change, column) in [
        (json!({"name": ""}), "name"),
        (json!({"name": "../out"}), ""),
        (json!({"name": "db/trips/inner"}), "name"),
        (json!({"name": "db"}), "name"),
        (json!({"name": "t", "table_type": "HUGE"}), "table_type"),
        (json!({"name": "t", "table_version": 7}), "table_version"),
        (json!({"name": "t", "key_generator": "random"}), ""),
        (json!({"name": "t", "schema": {"type": "record"}}), ""),
        (json!({"name": "t", "metadata": ["everything"]}), "metadata"),
        (json!({"name": "t", "properties": {"spark.x": "1"}}), "spark.x"),
    ] {
        let mut wrong = request.as_object().unwrap().clone();
        wrong.extend(change.as_object().unwrap().clone());
        let reply = served.post("/v1/tables", &Value::Object(wrong));
        assert!(matches!(reply.status, 400 | 501), "{change}: {} {}", reply.status, reply.json());
        if !column.is_empty() {
            assert_eq!(reply.json()["column"], column, "{change}: {}", reply.json());
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left of what was refused");
    assert_eq!(served.get("/v1/tables").json()["tables"].as_array().unwrap().len(), 1);
    // A mount of one table has no place for another.
    Served::table(&dir.path().join("db/trips")).post("/v1/tables", &request).problem(501, "unsupported");
}

#[test]
fn the_end_of_the_daemon_breaks_off_nothing_that_was_taken() {
    let table = Trips::new();
    let service = Arc::new(Service::table(table.base().to_str().unwrap(), ServiceOptions::default()).unwrap());
    let writing = hudifs::daemon::Writing::new(service.clone());
    use hudifs::control::Writes;
    use hudifs::control::body::{Body, RecordBody};
    use hudifs::control::writes::{CallOptions, WriteCall};
    let call = |key: usize| WriteCall {
        operation: hudifs::write::Operation::Upsert,
        bodies: vec![RecordBody {
            format: hudifs::record::decode::BodyFormat::NdJson,
            body: Body::Memory(
                format!("{{\"id\": \"k{key}\", \"city\": \"oslo\", \"fare\": 1.0, \"ts\": 1}}\n").into(),
            ),
        }],
        partitions: Vec::new(),
        dry_run: false,
        idempotency_key: None,
        options: CallOptions::default(),
    };
    let jobs: Vec<_> = (0..8).map(|key| writing.write("trips", call(key)).unwrap()).collect();
    jobs[0].wait(Duration::from_secs(20)).unwrap().unwrap();
    assert!(writing.end(Duration::from_secs(60)), "every job has ended");
    assert_eq!(writing.write("trips", call(9)).unwrap_err().0.code, "unavailable");
    let rows = table.rows();
    for (key, job) in jobs.iter().enumerate() {
        let done = match job.result().unwrap() {
            Ok(_) => true,
            Err(failure) => {
                assert_eq!(failure.0.code, "unavailable");
                false
            }
        };
        assert_eq!(rows.contains_key(&format!("k{key}")), done, "a write is done and there, or refused and not there");
    }
}
