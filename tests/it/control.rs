//! The control socket: a real server on a real socket over real tables.

pub mod http;
mod openapi;
pub mod write;

use crate::common::{golden, golden_answer, has_golden, skipped};
use http::{Reply, Served};
use hudifs::control::client::Client;
use hudifs::control::server::Limits;
use hudifs::control::sink::JsonSink;
use hudifs::control::types::{Files, FilesQuery, Tables};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Path and size of every file in a list.
fn paths(files: &Value) -> Vec<(String, u64)> {
    let mut paths: Vec<_> = files["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| {
            let (partition, name) = (f["partition"].as_str().unwrap(), f["name"].as_str().unwrap());
            let path = if partition.is_empty() { name.to_owned() } else { format!("{partition}/{name}") };
            (path, f["size_bytes"].as_u64().unwrap())
        })
        .collect();
    paths.sort();
    paths
}

fn expected(answer: &Value) -> Vec<(String, u64)> {
    let mut files: Vec<_> = answer["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["path"].as_str().unwrap().to_owned(), f["size"].as_u64().unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn files_are_those_of_the_read_optimized_view_now_and_then() {
    if !has_golden() {
        return;
    }
    for name in ["cow_v9_txns_simple_meta", "hudi_v6_table_mor", "cow_v6_nonpartitioned"] {
        let table = golden(name);
        let answer = golden_answer(name);
        let served = Served::table(&table.base());
        let reply = served.get(&format!("/v1/tables/{name}/files"));
        assert!(reply.whole);
        assert_eq!(paths(&reply.json()), expected(&answer["ro"]), "{name}");
        assert_eq!(reply.json()["instant"], answer["latest_instant"]);
        for (instant, then) in answer["time_travel"].as_object().unwrap() {
            let Some(files) = then["files"].as_array() else { continue };
            let reply = served.get(&format!("/v1/tables/{name}/files?as_of={instant}"));
            let mut names: Vec<String> = paths(&reply.json()).into_iter().map(|f| f.0).collect();
            names.sort();
            let mut wanted: Vec<String> =
                files.iter().map(|f| f["path"].as_str().or(f.as_str()).unwrap().to_owned()).collect();
            wanted.sort();
            assert_eq!(names, wanted, "{name} as of {instant}");
        }
    }
}

#[test]
fn the_timeline_is_the_tables() {
    if !has_golden() {
        return;
    }
    let name = "hudi_v6_table_mor";
    let table = golden(name);
    let answer = golden_answer(name);
    let served = Served::table(&table.base());
    let timeline = served.get(&format!("/v1/tables/{name}/timeline?counts=true")).json();
    assert_eq!(timeline["instant"], answer["latest_instant"]);
    for wanted in answer["completed_instants"].as_array().unwrap() {
        let instants = timeline["instants"].as_array().unwrap();
        let found = instants.iter().find(|i| i["requested"] == wanted["instant"] && i["action"] == wanted["action"]);
        let found = found.unwrap_or_else(|| panic!("{wanted} is missing"));
        assert_eq!(found["state"], "completed");
        assert_eq!(found["operation"], wanted["operation"], "{wanted}");
    }
}

#[test]
fn one_partition_and_wrong_questions() {
    if !has_golden() {
        return;
    }
    let name = "cow_v9_txns_simple_meta";
    let table = golden(name);
    let served = Served::table(&table.base());
    let files = format!("/v1/tables/{name}/files");
    let one = served.get(&format!("{files}?partition=region%3Dus")).json();
    assert_eq!(one["summary"]["partitions"], 1);
    assert!(!one["files"].as_array().unwrap().is_empty());
    assert!(one["files"].as_array().unwrap().iter().all(|f| f["partition"] == "region=us"));

    let problem = served.get(&format!("{files}?partition=region%3Dmars")).problem(404, "not_found");
    assert_eq!((problem["table"].as_str(), problem["partition"].as_str()), (Some(name), Some("region=mars")));
    assert!(problem["hint"].is_string());
    served.get(&format!("{files}?partition=..%2F..")).problem(400, "invalid");
    served.get(&format!("{files}?as_of=yesterday")).problem(400, "invalid");
    served.get(&format!("{files}?as_of=19700101000000000")).problem(404, "not_found");
    served.get(&format!("{files}?asof=1")).problem(400, "invalid");
    served.get(&format!("{files}?partition=a&partition=b")).problem(400, "invalid");
    let problem = served.get("/v1/tables/other").problem(404, "not_found");
    assert_eq!(problem["table"], "other");
    assert!(problem["hint"].as_str().unwrap().contains(name));
    served.get("/v1/tables/%FF").problem(400, "invalid");
    served.get("/v2/status").problem(404, "unknown_route");
    served.get("/").problem(404, "unknown_route");
    served.send("BREW", "/v1/status", &[], b"").problem(405, "method_not_allowed");
}

#[test]
fn what_needs_a_daemon_says_so() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v6_nonpartitioned");
    let served = Served::table(&table.base());
    let problem = served.post("/v1/pin", &json!({})).problem(501, "unsupported");
    assert!(problem["hint"].as_str().unwrap().contains("mount"));
    assert_eq!(served.get("/v1/pin").json(), json!({"pins": []}));
}

#[test]
fn refresh_shows_a_new_commit_and_keeps_the_old_view_when_it_fails() {
    if !has_golden() {
        return;
    }
    let name = "cow_v9_txns_simple_meta";
    let table = golden(name);
    let timeline = table.base().join(".hoodie/timeline");
    // The newest commit is taken away and given back.
    let completed = std::fs::read_dir(&timeline).unwrap().map(|e| e.unwrap().path());
    let newest = completed.filter(|p| p.to_str().unwrap().ends_with(".commit")).max().unwrap();
    let aside = table.base().join("aside");
    std::fs::rename(&newest, &aside).unwrap();
    let served = Served::table(&table.base());
    let instant = |served: &Served| served.get(&format!("/v1/tables/{name}")).json()["instant"].clone();
    let before = instant(&served);
    assert_ne!(before, golden_answer(name)["latest_instant"]);
    let unchanged = served.post("/v1/refresh", &json!({"table": name})).json();
    assert_eq!(unchanged["tables"][0]["result"], "unchanged");

    let properties = table.base().join(".hoodie/hoodie.properties");
    let backup = table.base().join(".hoodie/hoodie.properties.backup");
    let text = std::fs::read(&properties).unwrap();
    let had_backup = std::fs::read(&backup).ok();
    std::fs::rename(&aside, &newest).unwrap();
    std::fs::write(&properties, "hoodie.table.version=99\nhoodie.table.name=x\n").unwrap();
    let _ = std::fs::remove_file(&backup);
    let failed = served.post("/v1/refresh", &json!({})).json();
    assert_eq!(failed["tables"][0]["result"], "failed");
    assert!(failed["tables"][0]["error"]["code"].is_string());
    assert_eq!(instant(&served), before, "the old view stays");
    let status = served.get("/v1/status").json();
    assert_eq!((status["state"].as_str(), status["tables"][0]["state"].as_str()), (Some("degraded"), Some("stale")));
    let events = status["events"].as_array().unwrap();
    assert!(events.iter().any(|e| e["code"] == "REFRESH_FAILED" && e["table"] == name));

    std::fs::write(&properties, text).unwrap();
    if let Some(text) = had_backup {
        std::fs::write(&backup, text).unwrap();
    }
    let published = served.send("POST", "/v1/refresh", &[], b"").json();
    assert_eq!(published["tables"][0]["result"], "published");
    assert_eq!(instant(&served), golden_answer(name)["latest_instant"]);
    assert_eq!(served.get("/v1/status").json()["state"], "serving");
    served.post("/v1/refresh", &json!({"table": "other"})).problem(404, "not_found");
}

#[test]
fn a_warehouse_serves_its_tables_by_path_and_a_broken_one_by_name() {
    if !has_golden() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, path) in [("cow_v6_nonpartitioned", "db/plain"), ("mor_v8_trips_8i3u1d", "trips")] {
        let table = golden(name);
        std::fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
        std::fs::rename(table.base(), dir.path().join(path)).unwrap();
    }
    std::fs::create_dir_all(dir.path().join("db/broken/.hoodie")).unwrap();
    std::fs::write(dir.path().join("db/broken/.hoodie/hoodie.properties"), "junk").unwrap();
    let served = Served::warehouse(dir.path());
    let names = |served: &Served| -> Vec<(String, String)> {
        let tables: Tables = serde_json::from_slice(&served.get("/v1/tables").body).unwrap();
        tables.tables.into_iter().map(|t| (t.name, t.state)).collect()
    };
    let state = |name: &str, state: &str| (name.to_owned(), state.to_owned());
    assert_eq!(names(&served), [state("db/broken", "failed"), state("db/plain", "serving"), state("trips", "serving")]);
    assert_eq!(served.get("/v1/tables/db%2Fplain/files").json()["summary"]["files"], 1);
    served.get("/v1/tables/db/plain/files").problem(404, "unknown_route");
    assert!(served.get("/v1/tables/db%2Fbroken/files").status >= 400);

    // A table that appears is found, one that goes is dropped, a broken one works once it is repaired.
    let added = golden("cow_v8_nonpartitioned");
    std::fs::rename(added.base(), dir.path().join("new")).unwrap();
    std::fs::remove_dir_all(dir.path().join("trips")).unwrap();
    let repaired = golden("cow_v6_empty");
    std::fs::remove_dir_all(dir.path().join("db/broken")).unwrap();
    std::fs::rename(repaired.base(), dir.path().join("db/broken")).unwrap();
    served.send("POST", "/v1/refresh", &[], b"");
    assert_eq!(names(&served), [state("db/broken", "serving"), state("db/plain", "serving"), state("new", "serving")]);
}

#[test]
fn a_broken_partition_does_not_hide_the_others() {
    if !has_golden() {
        return;
    }
    let name = "cow_v9_txns_complex_nometa";
    let table = golden(name);
    let served = Served::table(&table.base());
    let whole = served.get(&format!("/v1/tables/{name}/files")).json();
    let first = whole["files"][0].clone();
    // The base file's name becomes a directory: its size cannot be told any more.
    let path = table.base().join(first["partition"].as_str().unwrap()).join(first["name"].as_str().unwrap());
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    let served = Served::table(&table.base());
    let reply = served.get(&format!("/v1/tables/{name}/files"));
    let damaged = reply.json();
    assert!(reply.whole);
    let failed = damaged["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{damaged}");
    assert_eq!(failed[0]["partition"], first["partition"]);
    let others = |files: &Value| {
        let mut kept = paths(files);
        kept.retain(|(path, _)| !path.starts_with(first["partition"].as_str().unwrap()));
        kept
    };
    assert_eq!(others(&damaged), others(&whole));
    assert_eq!(paths(&damaged), others(&damaged), "nothing of the broken one");
}

#[test]
fn the_client_reads_what_the_server_streams() {
    if !has_golden() {
        return;
    }
    let name = "cow_v9_txns_simple_meta";
    let table = golden(name);
    let served = Served::table(&table.base());
    let client = Client::new(&served.socket);
    let mut out = Vec::new();
    client.files(name, &FilesQuery::default(), &mut JsonSink::new(&mut out)).unwrap();
    let through: Files = serde_json::from_slice(&out).unwrap();
    let direct: Files = serde_json::from_slice(&served.get(&format!("/v1/tables/{name}/files")).body).unwrap();
    assert_eq!(through, direct);
    let query = FilesQuery { partition: Some("nowhere".to_owned()), as_of: None };
    let failure = client.files(name, &query, &mut JsonSink::new(Vec::new())).unwrap_err();
    assert_eq!(failure.0.code, "not_found");
    let error = client.get::<Value>("/v1/nothing").unwrap_err();
    assert_eq!(error.kind(), hudifs::ErrorKind::NotFound);
    assert!(client.text("/metrics").unwrap().contains("\nhudifs_control_requests_total{class=\"2xx\"} "));
}

#[test]
fn hostile_requests_are_refused_and_harm_nobody() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v6_nonpartitioned");
    let served = Served::table(&table.base());
    let json_type = [("Content-Type", "application/json")];
    for body in
        ["{", "[]", "nul", "{\"ttl_seconds\":-1}", "{\"ttl_seconds\":1e400}", "{\"surprise\":1}", "\"\\ud800\"", "\0"]
    {
        served.send("POST", "/v1/pin", &json_type, body.as_bytes()).problem(400, "invalid");
    }
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    served.send("POST", "/v1/pin", &json_type, deep.as_bytes()).problem(400, "invalid");
    served.send("POST", "/v1/pin", &json_type, &vec![b' '; 65 * 1024]).problem(413, "body_too_large");
    served.send("POST", "/v1/pin", &[("Content-Type", "text/csv")], b"a,b").problem(415, "unsupported_media_type");
    served
        .send("POST", "/v1/pin", &[("Content-Type", "application/x-www-form-urlencoded")], b"{}")
        .problem(415, "unsupported_media_type");

    // A length that is never sent is not allocated, and not waited for by others.
    let mut liar = served.connect();
    let head =
        "POST /v1/pin HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 99999999999999\r\n\r\n";
    liar.write_all(head.as_bytes()).unwrap();
    assert!(resident() < 1 << 30);
    for bytes in [
        b"\xff\xfe\x00\x01".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET /v1/status HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_vec(),
        [b"GET /".as_slice(), &vec![b'a'; 100_000], b" HTTP/1.1\r\n\r\n"].concat(),
        [b"GET / HTTP/1.1\r\nX: ".as_slice(), &vec![b'a'; 100_000], b"\r\n\r\n"].concat(),
        [b"GET / HTTP/1.1\r\n".as_slice(), &b"A: b\r\n".repeat(2000), b"\r\n"].concat(),
    ] {
        let reply = served.raw(&bytes);
        assert!(reply.status == 0 || (400..500).contains(&reply.status), "{}", reply.status);
    }
    assert_eq!(served.get("/v1/status").status, 200, "the server still serves");
}

fn resident() -> u64 {
    hudifs::telemetry::metric::resident_bytes().unwrap()
}

fn quick() -> Limits {
    Limits {
        connections: 3,
        head_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        stall_time: Duration::from_millis(300),
        ..Limits::default()
    }
}

#[test]
fn connections_are_bounded_in_number_and_idle_time() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v6_nonpartitioned");
    let served = Served::table_with(&table.base(), quick());
    let mut idle: Vec<_> = (0..3).map(|_| served.connect()).collect();
    // One of them has sent half a head, another a whole request and now nothing.
    idle[0].write_all(b"GET /v1/status HTTP/1.1\r\nHost").unwrap();
    idle[1].write_all(b"GET /v1/tables HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let full = retry_until(Duration::from_secs(2), || {
        let reply = served.get("/v1/status");
        (reply.status == 503).then_some(reply)
    });
    full.problem(503, "too_many_connections");
    let start = Instant::now();
    for stream in &mut idle {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "idle connections were closed after {:?}", start.elapsed());
    retry_until(Duration::from_secs(2), || (served.get("/v1/status").status == 200).then_some(()));
}

#[test]
fn a_body_that_never_comes_times_out() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v6_nonpartitioned");
    let served = Served::table_with(&table.base(), quick());
    let mut stream = served.connect();
    let head = "POST /v1/pin HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    Reply::read(stream).problem(408, "timeout");
}

/// Waits for something that must happen soon.
fn retry_until<T>(limit: Duration, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < end, "it did not happen within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn another_user_is_refused_and_recorded() {
    if !has_golden() {
        return;
    }
    if unsafe { libc::geteuid() } != 0 {
        return skipped("only root can become another user");
    }
    let table = golden("cow_v6_nonpartitioned");
    let served = Served::table(&table.base());
    let mode = std::fs::metadata(&served.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The mode alone would refuse: open it by hand, so that the check of the peer is what is tested.
    let dir = served.socket.parent().unwrap();
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&served.socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let binary = dir.join("hudifs");
    std::fs::copy(env!("CARGO_BIN_EXE_hudifs"), &binary).unwrap();
    let nobody = 65534;
    let output = Command::new(&binary)
        .args(["status", "--json"])
        .arg(&served.socket)
        .current_dir("/")
        .gid(nobody)
        .uid(nobody)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("user 65534 may not use the control socket"), "{said}");
    assert!(said.contains("hint:"), "{said}");
    let events = served.get("/v1/status").json()["events"].clone();
    let refused = events.as_array().unwrap().iter().find(|e| e["code"] == "PEER_REFUSED");
    assert!(refused.is_some_and(|e| e["message"].as_str().unwrap().contains("65534")), "{events}");
}

#[test]
fn a_reader_that_stops_reading_is_dropped() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v6_nonpartitioned");
    let served = Served::handler(std::sync::Arc::new(endless::Endless), quick());
    drop(table);
    let mut stream = served.connect();
    stream.write_all(b"GET /v1/tables/t/files HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut first = [0; 1024];
    stream.read_exact(&mut first).unwrap();
    retry_until(Duration::from_secs(10), || endless::ENDED.load(std::sync::atomic::Ordering::SeqCst).then_some(()));
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let reply = Reply::parse(&[first.to_vec(), rest].concat());
    assert!(!reply.whole, "a list that was cut must not look complete");
}

/// A handler whose list of files never ends, and whose other answers panic.
mod endless {
    use hudifs::control::problem::Failure;
    use hudifs::control::sink::FileSink;
    use hudifs::control::{Handler, types::*};
    use std::sync::atomic::{AtomicBool, Ordering};

    pub static ENDED: AtomicBool = AtomicBool::new(false);

    pub struct Endless;

    impl Handler for Endless {
        fn status(&self) -> Status {
            panic!("a mistake on purpose")
        }
        fn metrics(&self) -> String {
            panic!("a mistake on purpose")
        }
        fn tables(&self) -> Tables {
            Tables { tables: Vec::new() }
        }
        fn table(&self, _: &str) -> Result<TableStatus, Failure> {
            panic!("a mistake on purpose")
        }
        fn timeline(&self, _: &str, _: TimelineQuery) -> Result<Timeline, Failure> {
            panic!("a mistake on purpose")
        }
        fn files(&self, table: &str, _: &FilesQuery, sink: &mut dyn FileSink) -> Result<(), Failure> {
            let failed = |e| Failure::from(hudifs::Error::io("list", e));
            sink.begin(table, None).map_err(failed)?;
            let file = FileEntry {
                partition: "p".repeat(200),
                name: "n".repeat(200),
                size_bytes: None,
                file_id: "f".to_owned(),
                instant: "1".to_owned(),
            };
            loop {
                if let Err(error) = sink.file(&file) {
                    ENDED.store(true, Ordering::SeqCst);
                    return Err(failed(error));
                }
            }
        }
        fn refresh(&self, _: &RefreshRequest) -> Result<Refreshed, Failure> {
            panic!("a mistake on purpose")
        }
        fn pin(&self, _: &PinRequest) -> Result<Pin, Failure> {
            panic!("a mistake on purpose")
        }
        fn pins(&self) -> Pins {
            Pins { pins: Vec::new() }
        }
        fn extend(&self, _: &str, _: &ExtendRequest) -> Result<Pin, Failure> {
            panic!("a mistake on purpose")
        }
        fn unpin(&self, _: &str) -> Result<(), Failure> {
            panic!("a mistake on purpose")
        }
    }
}

#[test]
fn a_panic_in_one_request_is_that_requests_failure_alone() {
    let served = Served::handler(std::sync::Arc::new(endless::Endless), Limits::default());
    for _ in 0..3 {
        served.get("/v1/status").problem(500, "internal");
        assert_eq!(served.get("/v1/tables").status, 200);
    }
}
