//! `docs/observability.md` against the program: every metric, label value, event and problem code, both ways.

use crate::common::repo;
use hudifs::control::problem::CODES;
use hudifs::telemetry::event::EventCode;
use hudifs::telemetry::metric;
use hudifs::telemetry::{
    Cache, CacheResult, Errno, FuseOp, Notification, OpenMode, RefreshResult, RefusedPeer, StatusClass, StorageOp,
    TableState, WriteOperation, WriteResult,
};
use std::collections::{BTreeMap, BTreeSet};

/// The rows of the table whose heading begins with this cell.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(repo().join("docs/observability.md")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|c| c.trim().trim_matches('`').to_owned()).collect()
    };
    let rows: Vec<_> = text
        .lines()
        .skip_while(|l| !l.starts_with(heading))
        .take_while(|l| l.starts_with('|'))
        .skip(2)
        .map(cells)
        .collect();
    assert!(!rows.is_empty(), "no table {heading}");
    rows
}

#[test]
fn metrics_are_documented_as_they_are() {
    let documented = table("| metric |");
    let defined: Vec<Vec<String>> = metric::ALL
        .iter()
        .map(|m| m.def())
        .map(|d| vec![d.name.into(), d.kind.into(), d.unit.as_str().into(), d.labels.join(", "), d.help.into()])
        .collect();
    assert_eq!(documented, defined);
}

#[test]
fn label_values_are_documented_as_they_are() {
    // A label's name may stand for several sets of values.
    let mut documented: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in table("| label |") {
        let values = row[2].split(", ").map(|v| v.trim_matches('`').to_owned());
        documented.entry(row[0].clone()).or_default().extend(values);
    }
    let mut defined: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    macro_rules! define {
        ($($set:ident as $name:literal),+) => {
            $(defined.entry($name.to_owned()).or_default().extend($set::ALL.iter().map(|v| v.as_str().to_owned()));)+
        };
    }
    define!(
        FuseOp as "op", StorageOp as "op", Errno as "errno", OpenMode as "mode", Notification as "kind", Cache as "cache",
        CacheResult as "result", RefreshResult as "result", TableState as "state", RefusedPeer as "reason", StatusClass as "class",
        WriteOperation as "operation",
        WriteResult as "result"
    );
    assert_eq!(documented, defined);
    let used: BTreeSet<&str> = metric::ALL.iter().flat_map(|m| m.def().labels).copied().collect();
    let known: BTreeSet<&str> = defined.keys().map(String::as_str).chain(["code"]).collect();
    assert_eq!(used, known);
}

#[test]
fn codes_are_documented_as_they_are() {
    let events: Vec<String> = table("| code | what happened").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(events, EventCode::ALL.iter().map(|c| c.as_str().to_owned()).collect::<Vec<_>>());
    let problems: Vec<(String, String)> =
        table("| code | status").into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    assert_eq!(problems, CODES.map(|(code, status, _)| (code.to_owned(), status.to_string())));
}

/// A metric that nobody records, or an event that nobody raises, would be a promise that is not kept.
#[test]
fn everything_that_is_defined_is_used() {
    let mut text = String::new();
    let mut pending = vec![repo().join("src")];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if !path.ends_with("telemetry/event.rs") && !path.ends_with("telemetry/metric.rs") {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let defined = std::fs::read_to_string(repo().join("src/telemetry/metric.rs")).unwrap();
    // What the process itself is asked for at export is set beside its definition.
    let (table, rest) = defined.split_once("metrics! {").unwrap().1.split_once("\n}\n").unwrap();
    let statics: Vec<&str> =
        table.lines().filter_map(|l| l.trim().split_once(' ')?.1.split_once('<')).map(|(name, _)| name).collect();
    assert_eq!(statics.len(), metric::ALL.len());
    for name in statics {
        let used = text.contains(&format!("{name}.")) || rest.contains(&format!("{name}.set("));
        assert!(used || name == "EVENTS", "metric {name} is never recorded");
    }
    for code in EventCode::ALL {
        assert!(text.contains(&format!("EventCode::{code:?}")), "event {code:?} is never raised");
    }
}
