//! Metadata that is made to take time or memory: each is read by a process of its own, whose memory is bounded and measured.

use crate::common::{Unpacked, repo, unpack};
use crate::metadata_writer::{Record, Synthetic};
use crate::mounted::hudifs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Address space of the process, bytes: threads reserve some hundred megabytes that they do not use.
const SPACE_MAX: u64 = 4 << 30;
/// Longest time: without optimization, and on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(90);

/// Lists a table; the peak of the memory that was in use, MiB, and what was said.
fn list(what: &str, base: &Path) -> (u64, String) {
    let mut command = hudifs();
    command.arg("files").arg(base).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: setrlimit is safe to call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: SPACE_MAX, rlim_max: SPACE_MAX };
            if libc::setrlimit(libc::RLIMIT_AS, &limit) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    let mut child = command.spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let end = Instant::now() + TIME_MAX;
    let pid = child.id();
    let peak = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:").map(str::to_owned));
        line.and_then(|l| l.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) / 1024
    };
    let mut most = 0;
    let status = loop {
        most = most.max(peak());
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: no answer within {TIME_MAX:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let said = said.join().unwrap();
    assert_eq!(status.signal(), None, "{what}: {said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
    assert!(status.success() || !said.trim().is_empty(), "{what}: {status} without a word");
    (most, said)
}

/// Lists it, within that much memory; and with an error if `refused`.
fn check(what: &str, base: &Path, mib_max: u64, refused: bool) {
    let (mib, said) = list(what, base);
    println!("{what}: {mib} MiB; {}", said.lines().next().unwrap_or_default());
    assert!(mib <= mib_max, "{what}: {mib} MiB, allowed are {mib_max}; {said}");
    assert!(!refused || !said.trim().is_empty(), "{what} passed without a word");
}

fn fixture(name: &str) -> Unpacked {
    unpack(&repo().join(format!("tests/fixtures/{name}.zip")), name)
}

fn put(base: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(base.join(path), bytes).unwrap();
}

const REPLACE: &str = ".hoodie/20990101000000000.replacecommit";

#[test]
fn large_and_deep_json_is_bounded() {
    let table = fixture("v6_cow_basic_hive");
    let base = table.base();
    let groups: Vec<String> = (0..1_000_000).map(|i| format!("\"{i:08}-group\"")).collect();
    put(&base, REPLACE, format!("{{\"partitionToReplaceFileIds\": {{\"p\": [{}]}}}}", groups.join(",")));
    check("a million replaced groups", &base, 600, false);
    let stats: Vec<String> =
        (0..500_000).map(|i| format!("\"p{i}\": [{{\"fileId\": \"f\", \"path\": \"x\"}}]")).collect();
    put(&base, REPLACE, format!("{{\"partitionToWriteStats\": {{{}}}}}", stats.join(",")));
    check("half a million partitions", &base, 800, false);
    for open in ["[", "{\"a\":"] {
        put(&base, REPLACE, format!("{{\"x\": {}", open.repeat(1_000_000)));
        check("deep JSON in a field that is passed over", &base, 200, true);
        put(&base, REPLACE, format!("{{\"partitionToReplaceFileIds\": {}", open.repeat(1_000_000)));
        check("deep JSON in a field that is read", &base, 200, true);
    }
    std::fs::remove_file(base.join(REPLACE)).unwrap();
    put(&base, ".hoodie/hoodie.properties", "x".repeat(60 << 20));
    check("settings of 60 MiB", &base, 200, true);
    let keys: Vec<String> = (0..500_000).map(|i| format!("{i}")).collect();
    put(&base, ".hoodie/hoodie.properties", keys.join("\n"));
    check("settings of half a million keys", &base, 400, true);
}

fn container(schema: &str, records: i64, block: &[u8]) -> Vec<u8> {
    let entry = |key: &str, value: &[u8]| {
        [zigzag(key.len() as i64), key.into(), zigzag(value.len() as i64), value.into()].concat()
    };
    let head = [b"Obj\x01".to_vec(), zigzag(1), entry("avro.schema", schema.as_bytes()), vec![0]].concat();
    let sync = [7; 16];
    [head, sync.to_vec(), zigzag(records), zigzag(block.len() as i64), block.to_vec(), sync.to_vec()].concat()
}

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

#[test]
fn avro_that_is_more_than_its_bytes_is_refused() {
    let table = fixture("v9_cow_basic_hive_mdt");
    let base = table.base();
    let file = ".hoodie/timeline/20990101000000000_20990101000000001.replacecommit";
    let record = |fields: &str| format!(r#"{{"type":"record","name":"R","fields":[{fields}]}}"#);
    let nulls = record(
        r#"{"name":"partitionToReplaceFileIds","type":{"type":"map","values":"null"}},{"name":"x","type":{"type":"array","items":"null"}}"#,
    );
    let deep = format!("{}\"null\"{}", r#"{"type":"array","items":"#.repeat(100_000), "}".repeat(100_000));
    // Each type has ten fields of the one before it, and none has a byte.
    let mut laughs = record(r#"{"name":"a","type":"null"}"#).replace("\"R\"", "\"L0\"");
    for level in 1..12 {
        let mut fields = vec![format!(r#"{{"name":"f","type":{laughs}}}"#)];
        fields.extend((0..9).map(|i| format!(r#"{{"name":"f{i}","type":"L{}"}}"#, level - 1)));
        laughs = format!(r#"{{"type":"record","name":"L{level}","fields":[{}]}}"#, fields.join(","));
    }
    let wide: Vec<String> = (0..200_000).map(|i| format!(r#"{{"name":"f{i}","type":"null"}}"#)).collect();
    let cases: [(&str, Vec<u8>); 8] = [
        ("an array of 2^62 nulls", container(&nulls, 1, &[vec![0], zigzag(1 << 62), vec![0]].concat())),
        ("2^62 records of no bytes", container(&record(""), 1 << 62, &[])),
        ("a schema 100,000 deep", container(&deep, 1, &[0])),
        ("a billion laughs", container(&laughs, 1, &[])),
        ("200,000 fields", container(&record(&wide.join(",")), 1 << 40, &[])),
        ("a record that holds itself", container(&record(r#"{"name":"a","type":"R"}"#), 1, &[])),
        (
            "a string of 2^62 bytes",
            container(r#"{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}"#, 1, &zigzag(1 << 62)),
        ),
        (
            "a fixed of 2^40 bytes",
            container(
                r#"{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1099511627776}}]}"#,
                1,
                &[0],
            ),
        ),
    ];
    for (what, bytes) in cases {
        put(&base, file, bytes);
        check(what, &base, 300, true);
    }
}

#[test]
fn logs_and_hfiles_that_claim_more_than_they_hold_are_bounded() {
    let time = "20260101000000001";
    let records: &[Record<'_>] = &[("__all_partitions__", &[("p", Some(0))]), ("p", &[])];
    let lengths = [i64::MAX, i64::MIN, -1, 1 << 40, i64::MAX - 5];
    for len in lengths {
        let table = Synthetic::new(6);
        table.commit(time, time);
        let whole = table.block(time, records);
        for at in [6, whole.len() - 8] {
            let mut block = whole.clone();
            block[at..at + 8].copy_from_slice(&len.to_be_bytes());
            table.log(time, 1, &[block]);
            check(&format!("a log block whose length at byte {at} is {len}"), &table.base_path(), 200, false);
        }
    }
    // A million magics: each may begin a block, and none is one.
    let table = Synthetic::new(6);
    table.commit(time, time);
    table.log(time, 1, &[b"#HUDI#".repeat(1_000_000)]);
    check("a million magics", &table.base_path(), 200, false);
    // An honest block of an enormous record.
    let table = Synthetic::new(6);
    table.commit(time, time);
    let long = "x".repeat(200 << 20);
    table.log(time, 1, &[table.block(time, &[("__all_partitions__", &[("p", Some(0))]), (&long, &[])])]);
    check("a bomb: 200 MiB in 200 KiB", &table.base_path(), 1200, false);
}

#[test]
fn a_hostile_archive_is_bounded() {
    let name = "v9_mor_archived_plain_mdt";
    let history = "timeline/history";
    for root in [".hoodie", ".hoodie/metadata/.hoodie"] {
        let table = fixture(name);
        let base = table.base();
        let folder = base.join(root).join(history);
        if !folder.join("_version_").exists() {
            continue;
        }
        let entry = |i: usize| format!(r#"{{"fileName": "../../../../../../etc/passwd{i}", "fileLen": 1}}"#);
        let all: Vec<String> = (0..300_000).map(entry).collect();
        put(&folder, "manifest_999", format!(r#"{{"files": [{}]}}"#, all.join(",")));
        put(&folder, "_version_", "999");
        check("a manifest of 300,000 files outside", &base, 400, false);
        let mut parquet = b"PAR1".to_vec();
        parquet.extend([0xff; 64]);
        for len in [u32::MAX, i32::MAX as u32, 60, 0] {
            let mut file = parquet.clone();
            file.extend(len.to_le_bytes());
            file.extend(b"PAR1");
            put(&folder, "x.parquet", file);
            put(&folder, "manifest_999", r#"{"files": [{"fileName": "x.parquet", "fileLen": 1}]}"#);
            check(&format!("a footer of {len} bytes"), &base, 300, false);
        }
    }
}
