//! Damaged base and log files: an answer or an error, never a panic, and never a long wait.

use super::golden::all_rows;
use crate::common::{repo, unpack};
use crate::golden::open;
use hudifs::slice::read::{deleted_by_logs, slices_of};
use hudifs::table::Listing;
use std::time::{Duration, Instant};

/// Damages of one byte or a few, at places that a seed chooses.
fn damage(bytes: &mut [u8], seed: &mut u64) {
    let mut next = || {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 33) as usize
    };
    for _ in 0..1 + next() % 4 {
        let (at, value) = (next() % bytes.len(), next());
        bytes[at] = match value % 3 {
            0 => 0xff,
            1 => 0,
            _ => value as u8,
        };
    }
}

#[test]
fn damaged_files_are_answers_or_errors() {
    let (mut answers, mut errors) = (0, 0);
    for name in ["v6_mor_null_hive", "v8_mor_basic_plain", "v9_mor_basic_nested"] {
        let table = unpack(&repo().join("tests/fixtures").join(format!("{name}.zip")), name);
        let snapshot = open(&table.base(), Listing::Storage).unwrap().snapshot();
        let slices = slices_of(&snapshot).unwrap();
        let slice = slices.iter().find(|s| !s.log_files.is_empty() && s.base_file.is_some()).unwrap();
        let files = slice.log_files.iter().chain(&slice.base_file);
        for file in files {
            let path = table.base().join(&slice.partition).join(&file.name);
            let whole = std::fs::read(&path).unwrap();
            let mut seed = 7;
            for _ in 0..60 {
                let mut bytes = whole.clone();
                damage(&mut bytes, &mut seed);
                std::fs::write(&path, bytes).unwrap();
                let began = Instant::now();
                match all_rows(&snapshot, &["id".to_owned(), "name".to_owned()]) {
                    Ok(_) => answers += 1,
                    Err(_) => errors += 1,
                }
                let _ = deleted_by_logs(&snapshot, slice);
                assert!(began.elapsed() < Duration::from_secs(10), "{name} {}", file.name);
            }
            std::fs::write(&path, &whole).unwrap();
        }
    }
    assert!(answers > 20 && errors > 20, "{answers} answers, {errors} errors");
}
