//! The OpenAPI document against the server: every path, method, status and field, both ways.

use super::http::{Reply, Served};
use crate::common::{golden, has_golden};
use hudifs::control::problem::CODES;
use hudifs::control::server::ROUTES;
use hudifs::control::types::*;
use hudifs::control::{OPENAPI, Problem};
use hudifs::telemetry::event::{Event, EventCode};
use hudifs::write::{CommitReport, FileReport, ServiceReport};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// Follows `$ref`.
fn resolve<'a>(doc: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(pointer) => doc.pointer(pointer.trim_start_matches('#')).unwrap_or_else(|| panic!("no {pointer}")),
        None => schema,
    }
}

/// Why `value` does not follow `schema`; the subset of JSON Schema that the document uses.
fn mismatch(doc: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let schema = resolve(doc, schema);
    if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
        let fitting = choices.iter().filter(|c| mismatch(doc, c, value, at).is_none()).count();
        return (fitting != 1).then(|| format!("{at}: fits {fitting} of the choices: {value}"));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let wanted = schema.get("type").unwrap_or_else(|| panic!("{at}: a schema without a type"));
    let fits = wanted == kind || wanted.as_array().is_some_and(|kinds| kinds.iter().any(|k| k == kind));
    if !fits {
        return Some(format!("{at}: {kind}, not {wanted}"));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array)
        && !values.contains(value)
    {
        return Some(format!("{at}: {value} is not one of the values"));
    }
    match value {
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(n, item)| mismatch(doc, &schema["items"], item, &format!("{at}[{n}]")))
        }
        Value::Object(fields) if schema.get("properties").is_some() => {
            let missing = schema["required"].as_array().unwrap().iter().map(|r| r.as_str().unwrap());
            if let Some(name) = missing.into_iter().find(|r| !fields.contains_key(*r)) {
                return Some(format!("{at}: {name} is missing"));
            }
            fields.iter().find_map(|(name, value)| match schema["properties"].get(name) {
                Some(schema) => mismatch(doc, schema, value, &format!("{at}.{name}")),
                None => Some(format!("{at}: {name} is not described")),
            })
        }
        _ => None,
    }
}

#[test]
fn the_document_and_the_router_have_the_same_paths() {
    if !has_golden() {
        return;
    }
    let doc = document();
    let described: BTreeSet<(String, String)> = doc["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |m| (m.to_ascii_uppercase(), path.clone()))
        })
        .collect();
    let routed: BTreeSet<(String, String)> = ROUTES.iter().map(|(m, p)| ((*m).to_owned(), (*p).to_owned())).collect();
    assert_eq!(described, routed);

    // The router really has them, and none with another method.
    let table = golden("cow_v6_nonpartitioned");
    let served = Served::table(&table.base());
    let paths: BTreeSet<&str> = ROUTES.iter().map(|r| r.1).collect();
    for path in paths {
        let real = path.replace("{table}", "cow_v6_nonpartitioned").replace("{id}", "1");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let reply = served.send(method, &real, &[], b"");
            let known = routed.contains(&(method.to_owned(), path.to_owned()));
            let code = serde_json::from_slice::<Value>(&reply.body).ok().map(|b| b["code"].clone());
            let refused = code.as_ref().is_some_and(|c| c == "method_not_allowed" || c == "unknown_route");
            assert_eq!(refused, !known, "{method} {path}: {}", reply.status);
            if !known {
                assert!(reply.header("allow").is_some(), "{method} {path} does not say what is allowed");
            }
        }
    }
}

/// The schema of a response, as the document has it for the status that was sent.
fn check(doc: &Value, method: &str, path: &str, reply: &Reply) {
    let operation = &doc["paths"][path][method.to_ascii_lowercase()];
    let responses = &operation["responses"];
    let status = reply.status.to_string();
    let described = responses.get(&status).unwrap_or(&responses["default"]);
    let response = resolve(doc, described);
    let Some(content) = response.get("content") else {
        assert!(reply.body.is_empty(), "{method} {path}: a body where none is described");
        return;
    };
    let media_type = reply.header("content-type").unwrap().split(';').next().unwrap();
    let schema = &content.get(media_type).unwrap_or_else(|| panic!("{method} {path}: {media_type}"))["schema"];
    if media_type == "text/plain" {
        return;
    }
    let values: Vec<Value> = match media_type {
        "application/x-ndjson" => {
            let text = std::str::from_utf8(&reply.body).unwrap();
            text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
        }
        _ => vec![reply.json()],
    };
    for value in values {
        let wrong = mismatch(doc, schema, &value, "$");
        assert!(wrong.is_none(), "{method} {path} {status}: {}", wrong.unwrap());
    }
}

#[test]
fn every_answer_is_as_described() {
    if !has_golden() {
        return;
    }
    let doc = document();
    for name in ["cow_v9_txns_simple_meta", "hudi_v6_table_mor", "cow_v8_empty", "derived_v8_mor_pending_compaction"] {
        let table = golden(name);
        let served = Served::table(&table.base());
        for (method, path) in ROUTES {
            let real = path.replace("{table}", name).replace("{id}", "1");
            check(&doc, method, path, &served.send(method, &real, &[], b""));
            let wrong = path.replace("{table}", "no%2Fsuch").replace("{id}", "x");
            check(&doc, method, path, &served.send(method, &wrong, &[], b""));
            check(&doc, method, path, &served.send(method, &format!("{real}?as_of=soon&nonsense=1"), &[], b"[]"));
        }
        let files = "/v1/tables/{table}/files";
        let real = files.replace("{table}", name);
        let lines = served.send("GET", &real, &[("Accept", "application/x-ndjson")], b"");
        assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
        check(&doc, "GET", files, &lines);
        let timeline = served.get(&format!("/v1/tables/{name}/timeline?counts=true"));
        check(&doc, "GET", "/v1/tables/{table}/timeline", &timeline);
    }
}

/// A value with every field set must fit its schema and use all of it: so neither has a field that the other lacks.
#[track_caller]
fn same_fields(doc: &Value, name: &str, value: Value) {
    let schema = &doc["components"]["schemas"][name];
    let wrong = mismatch(doc, schema, &value, name);
    assert!(wrong.is_none(), "{}", wrong.unwrap());
    let described: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let present: BTreeSet<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(described, present, "{name}");
}

fn full_problem() -> Problem {
    Problem {
        hint: Some("h".into()),
        table: Some("t".into()),
        partition: Some("p".into()),
        file: Some("f".into()),
        instant: Some("1".into()),
        row: Some(1),
        column: Some("c".into()),
        ..Problem::new("corrupt", "d")
    }
}

fn full_table() -> TableStatus {
    TableStatus {
        name: "t".into(),
        uri: "u".into(),
        state: "stale".into(),
        hudi_name: Some("n".into()),
        table_type: Some("MERGE_ON_READ".into()),
        table_version: Some(9),
        instant: Some("1".into()),
        generation: Some(1),
        pinned: true,
        lister: Some("storage".into()),
        watch: "poll".into(),
        refreshed_ms: Some(1),
        error: Some(full_problem()),
        totals: Some(ViewTotals { files: 1, size_bytes: 1, log_only_groups: 1, complete: true }),
        lease: Some(LeaseStatus {
            state: "held".into(),
            expires_ms: Some(1),
            instants: 1,
            files: 1,
            reason: Some("r".into()),
        }),
        warnings: vec!["w".into()],
    }
}

/// The documents of writing, with every field set.
fn full_writes() -> Vec<(&'static str, Value)> {
    let text = || Some("x".to_owned());
    let settings = BTreeMap::from([("hoodie.a".to_owned(), "b".to_owned())]);
    let service = ServiceReport { service: "clean".into(), instant: text(), items: 1, detail: "d".into() };
    let commit = CommitReport { instant: text(), files: vec![FileReport::default()], ..CommitReport::default() };
    let commit = CommitReport { services: vec![service.clone()], warnings: vec!["w".into()], ..commit };
    let job = JobStatus {
        state: "failed".into(),
        ended_ms: Some(1),
        commit: Some(commit.clone()),
        services: Some(vec![service.clone()]),
        error: Some(full_problem()),
        ..JobStatus::default()
    };
    let transaction = Transaction { state: "open".into(), ..Transaction::default() };
    let create = CreateRequest {
        name: "t".into(),
        hudi_name: text(),
        table_type: Some("MERGE_ON_READ".into()),
        table_version: Some(9),
        record_key: vec!["k".into()],
        partition_by: vec!["p".into()],
        ordering: vec!["o".into()],
        key_generator: text(),
        hive_style: true,
        url_encode: true,
        index: Some("BUCKET".into()),
        schema: Some(json!({"type": "record"})),
        metadata: Some(vec!["files".into()]),
        properties: settings.clone(),
    };
    let begin = BeginRequest {
        table: text(),
        operation: Some("upsert".into()),
        ttl_seconds: Some(1),
        index: Some("BLOOM".into()),
        settings,
        services: Some(false),
        drop_unsupported_index: true,
    };
    vec![
        ("CreateRequest", json!(create)),
        ("PartitionsRequest", json!(PartitionsRequest { partitions: vec!["p".into()] })),
        ("RollbackRequest", json!(RollbackRequest { instant: text() })),
        ("CommitReport", json!(commit)),
        ("FileReport", json!(FileReport::default())),
        ("ServiceReport", json!(service)),
        ("Services", json!(Services { services: vec![service] })),
        ("JobStatus", json!(job)),
        ("Jobs", json!(Jobs { jobs: vec![job] })),
        ("BeginRequest", json!(begin)),
        ("Transaction", json!(transaction)),
        ("Transactions", json!(Transactions { transactions: vec![transaction] })),
    ]
}

#[test]
fn types_and_schemas_have_the_same_fields() {
    let doc = document();
    let text = || Some("x".to_owned());
    let pin = Pin {
        id: "1".into(),
        table: "t".into(),
        instant: "1".into(),
        path: "p".into(),
        expires_ms: 1,
        label: text(),
        leased: Some(true),
    };
    let event = Event::new(EventCode::ReadFailed, "m").table("t").partition("p").file("f").hint("h");
    let status = Status {
        version: "1".into(),
        pid: 1,
        started_ms: 1,
        mount_point: text(),
        socket: text(),
        log: text(),
        state: "serving".into(),
        passthrough: Some(Passthrough { active: false, reason: text() }),
        memory: Memory { resident_bytes: Some(1), target_bytes: Some(1) },
        tables: vec![full_table()],
        pins: vec![pin.clone()],
        events: vec![event.clone()],
    };
    let instant = TimelineInstant {
        requested: "1".into(),
        completed: text(),
        action: "commit".into(),
        state: "completed".into(),
        operation: text(),
        counts: Some(CommitCounts::default()),
        archived: true,
    };
    let file = FileEntry {
        partition: "p".into(),
        name: "n".into(),
        size_bytes: Some(1),
        file_id: "f".into(),
        instant: "1".into(),
    };
    let refreshed =
        RefreshedTable { table: "t".into(), result: "failed".into(), instant: text(), error: Some(full_problem()) };
    let all: Vec<(&str, Value)> = vec![
        ("Status", json!(status)),
        ("Passthrough", json!(status.passthrough)),
        ("Memory", json!(status.memory)),
        ("TableStatus", json!(full_table())),
        ("LeaseStatus", json!(full_table().lease)),
        ("ViewTotals", json!(full_table().totals)),
        ("Tables", json!(Tables { tables: vec![full_table()] })),
        ("Timeline", json!(Timeline { table: "t".into(), instant: text(), instants: vec![instant.clone()] })),
        ("TimelineInstant", json!(instant)),
        ("CommitCounts", json!(CommitCounts::default())),
        ("FileEntry", json!(file)),
        ("FilesSummary", json!(FilesSummary::default())),
        ("Files", json!(Files { files: vec![file], failed: vec![full_problem()], ..Files::default() })),
        ("RefreshRequest", json!(RefreshRequest { table: text() })),
        ("Refreshed", json!(Refreshed { tables: vec![refreshed.clone()] })),
        ("RefreshedTable", json!(refreshed)),
        ("PinRequest", json!(PinRequest { table: text(), instant: text(), ttl_seconds: Some(1), label: text() })),
        ("ExtendRequest", json!(ExtendRequest { ttl_seconds: Some(1) })),
        ("Pin", json!(pin)),
        ("Pins", json!(Pins { pins: vec![pin.clone()] })),
        ("Event", json!(event)),
        ("Problem", json!(full_problem())),
    ];
    let all: Vec<(&str, Value)> = all.into_iter().chain(full_writes()).collect();
    let checked: BTreeSet<&str> = all.iter().map(|(name, _)| *name).chain(["FilesLine"]).collect();
    for (name, value) in all {
        same_fields(&doc, name, value);
    }
    let described: BTreeSet<&str> =
        doc["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(checked, described);
}

#[test]
fn codes_are_listed_completely() {
    let doc = document();
    let listed = |schema: &str| -> Vec<String> {
        let values = &doc["components"]["schemas"][schema]["properties"]["code"]["enum"];
        values.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed("Problem"), CODES.map(|c| c.0.to_owned()));
    assert_eq!(listed("Event"), EventCode::ALL.iter().map(|c| c.as_str().to_owned()).collect::<Vec<_>>());
}
