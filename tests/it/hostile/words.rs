//! Names that lead out, or that no file can have, wherever metadata can hold a name.

use super::judge::{Look, SECRET, look};
use crate::common::{repo, unpack};
use crate::metadata_writer::{Record, Synthetic};
use hudifs::table::Listing;

/// Names that must never become a path as they stand.
fn words() -> Vec<String> {
    let mut words: Vec<String> =
        ["..", ".", "../..", "a/../../b", "/", "/etc/passwd", "//", "a//b", "a\0b", "\0", "\n"]
            .into_iter()
            .map(str::to_owned)
            .collect();
    words.extend(["%2e%2e", "%2e%2e%2fsecret", "..%2F..", "a/./b", "\u{202e}gpj"].map(str::to_owned));
    words.extend(["x".repeat(256), "x".repeat(5000), "x/".repeat(3000), "\u{1f4a3}".repeat(64)]);
    words
}

/// Nothing that was shown or read may lie outside; [`look`] has read every file.
fn shown_inside(look: &Look) {
    let Look::Shown { partitions, .. } = look else { return };
    for (partition, files) in partitions {
        let names = files.iter().flat_map(|f| f.keys()).map(String::as_str);
        let parts = partition.split('/').filter(|_| !partition.is_empty()).chain(names.flat_map(|n| n.split('/')));
        for part in parts {
            assert!(!matches!(part, "" | "." | ".."), "{partition:?} {files:?}");
            assert!(part.len() <= 255 && !part.contains('\0'), "{partition:?} {files:?}");
        }
    }
}

#[test]
fn words_in_commits_change_nothing_else() {
    let name = "v6_cow_basic_hive";
    let table = unpack(&repo().join(format!("tests/fixtures/{name}.zip")), name);
    let base = table.base();
    std::fs::write(base.parent().unwrap().join("secret.parquet"), SECRET).unwrap();
    let whole = format!("{:?}", look(&base, Listing::Auto, true).unwrap());
    for word in words() {
        let json = serde_json::json!({
            "partitionToWriteStats": { word.clone(): [{"fileId": word, "path": word, "prevCommit": word}] },
            "partitionToReplaceFileIds": { word.clone(): [word], "": [word], "..": [word] },
            "operationType": "INSERT_OVERWRITE", "compacted": false, "extraMetadata": { "schema": word },
        });
        let file = base.join(".hoodie/20990101000000000.replacecommit");
        std::fs::write(&file, json.to_string()).unwrap();
        let shown = look(&base, Listing::Auto, true).unwrap();
        shown_inside(&shown);
        assert!(matches!(shown, Look::Refused(_)) || format!("{shown:?}") == whole, "{word:?}: {shown:?}");
        std::fs::remove_file(file).unwrap();
    }
}

const TIME: &str = "20260101000000001";
const COMPLETED: &str = "20260101000000002";
const FILE: &str = "f1-0_0-1-2_20260101000000001.parquet";

/// A table of one partition `p`, whose metadata table also says what `records` say.
fn told(version: u8, records: &[Record<'_>]) -> (Synthetic, Look, Look) {
    let table = Synthetic::new(version);
    table.commit(TIME, COMPLETED);
    table.base(TIME, records);
    let base = table.base_path();
    std::fs::create_dir_all(base.join("p")).unwrap();
    std::fs::write(base.join("p/.hoodie_partition_metadata"), "partitionDepth=1\n").unwrap();
    std::fs::write(base.join("p").join(FILE), "data").unwrap();
    let looks = [Listing::Auto, Listing::MetadataTable].map(|listing| look(&base, listing, true).unwrap());
    let [auto, forced] = looks;
    (table, auto, forced)
}

fn shows_p(look: &Look) -> bool {
    matches!(look, Look::Shown { partitions, .. } if partitions.get("p").is_some_and(|p| p.as_ref().is_ok_and(|f| f.contains_key(FILE))))
}

#[test]
fn words_in_the_metadata_table_s_partitions_are_refused() {
    let own = [(FILE, Some(4))];
    let (_kept, auto, _) = told(6, &[("__all_partitions__", &[("p", Some(0))]), ("p", &own)]);
    assert!(shows_p(&auto), "{auto:?}");
    for version in [6, 8, 9] {
        for word in words() {
            let (_kept, auto, forced) = told(
                version,
                &[("__all_partitions__", &[("p", Some(0)), (&word, Some(0))]), ("p", &own), (&word, &own)],
            );
            for shown in [&auto, &forced] {
                shown_inside(shown);
            }
            // Whatever is refused: the storage knows the partition, and it stays.
            assert!(shows_p(&auto), "{version} {word:?}: {auto:?}");
        }
    }
}

#[test]
fn words_in_the_metadata_table_s_files_fail_their_partition() {
    for version in [6, 8, 9] {
        for word in words() {
            let files = [(FILE, Some(4)), (word.as_str(), Some(4))];
            let (_kept, auto, forced) = told(version, &[("__all_partitions__", &[("p", Some(0))]), ("p", &files)]);
            for shown in [auto, forced] {
                shown_inside(&shown);
                let Look::Shown { partitions, warnings } = &shown else { continue };
                let failed = partitions.get("p").is_some_and(Result::is_err);
                assert!(failed || !warnings.is_empty(), "{version} {word:?} is passed over: {shown:?}");
            }
        }
    }
}

#[test]
fn marked_names_of_other_engines_cannot_lead_out() {
    for prefix in ["..", "..%2F..", "%2e%2e", "%252e%252e", "%2Fetc", "a%2F..%2F..", "%00", ".", "a%2F%2Fb"] {
        let marked = format!("secret.parquet_{TIME}_fg%3D{prefix}_hudiext");
        let files = [(FILE, Some(4)), (marked.as_str(), Some(SECRET.len() as u64))];
        let (table, auto, forced) = told(9, &[("__all_partitions__", &[("p", Some(0))]), ("p", &files)]);
        // In the base, which is outside of the partition.
        std::fs::write(table.base_path().join("secret.parquet"), SECRET).unwrap();
        for listing in [Listing::Auto, Listing::MetadataTable] {
            shown_inside(&look(&table.base_path(), listing, true).unwrap());
        }
        shown_inside(&auto);
        shown_inside(&forced);
    }
}
