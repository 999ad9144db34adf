//! Merged rows of golden tables: equal to what two other readers found.

use super::canonical;
use crate::common::{golden, golden_answer, golden_names, has_golden};
use crate::golden::open;
use hudifs::slice::read;
use hudifs::table::{Listing, Snapshot};
use serde_json::Value;
use std::sync::Mutex;

/// The user's columns of an answer.
fn columns(answer: &Value) -> Vec<String> {
    answer["columns"].as_array().unwrap().iter().map(|c| c.as_str().unwrap().to_owned()).collect()
}

pub fn all_rows(snapshot: &Snapshot, columns: &[String]) -> hudifs::Result<Vec<String>> {
    let rows = Mutex::new(Vec::new());
    read::for_each_batch(snapshot, 2, 1 << 20, |_, batch| {
        rows.lock().unwrap().extend(canonical::rows(&batch, columns));
        Ok(())
    })?;
    Ok(rows.into_inner().unwrap())
}

/// Tables that are refused, and by which word.
const REFUSED: [(&str, &str); 6] = [
    ("bootstrap_data", "METADATA_ONLY"),
    ("cow_v9_lance_txns_simple", "Lance"),
    ("mor_v9_lance_nonhivestyle", "Lance"),
    ("variant_cow", "variant"),
    ("variant_mor_avro", "variant"),
    ("vector_mor", "vector"),
];

/// Tables whose answers tell times as the files call them; Hudi, and we, read milliseconds that were written under a wrong name as
/// milliseconds. Their rows are only counted.
const REPAIRED: [&str; 2] =
    ["trips_logical_types_json_mor_read_v6_parquet_log", "trips_logical_types_json_mor_read_v8"];

#[test]
fn merged_rows_of_every_golden_table() {
    if !has_golden() {
        return;
    }
    let (mut equal, mut failed) = (0, Vec::new());
    for name in golden_names() {
        let table = golden(&name);
        let answer = golden_answer(&name);
        let snapshot = match open(&table.base(), Listing::Auto) {
            Ok(table) => table.snapshot(),
            Err(e) => {
                failed.push(format!("{name}: {e}"));
                continue;
            }
        };
        let refusal = REFUSED.iter().find(|(n, _)| *n == name).map(|(_, word)| *word);
        let columns = if answer["columns"].is_array() { columns(&answer) } else { Vec::new() };
        match (all_rows(&snapshot, &columns), refusal) {
            (Err(e), Some(word)) if e.to_string().contains(word) => {}
            (Ok(_), Some(word)) => failed.push(format!("{name} is not refused by {word:?}")),
            (Err(e), _) => failed.push(format!("{name}: {e}")),
            (Ok(rows), None) => {
                let count = answer["snapshot"]["rows"].as_u64().unwrap();
                let hash = answer["snapshot"]["sha256"].as_str().filter(|_| !REPAIRED.contains(&name.as_str()));
                if rows.len() as u64 != count {
                    failed.push(format!("{name}: {} rows, expected {count}", rows.len()));
                } else if hash.is_some_and(|h| h != canonical::hash(rows.clone())) {
                    failed.push(format!("{name}: other rows: {:?}", rows.first()));
                } else {
                    equal += usize::from(hash.is_some());
                }
            }
        }
    }
    assert!(failed.is_empty(), "{equal} are equal; {} are not:\n{}", failed.len(), failed.join("\n"));
    assert!(equal >= 53, "only {equal} tables compared");
}
