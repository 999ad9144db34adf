//! Slices with logs: the rules by version, pending compactions, commits that cross.

use super::built::{Built, replacing, time};
use hudifs::Result;
use hudifs::format::instant::InstantTime;
use hudifs::view::{ListedFile, merged_slices};

/// The newest slice of each group as `id base-instant base-file logs`, with completion times given by hand.
fn slices(table: &Built, names: &[&str], as_of: Option<&str>, completions: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<ListedFile> = names.iter().map(|n| ListedFile { name: (*n).to_owned(), size: None }).collect();
    let context = table.context(as_of).unwrap().with_plans(&*table.storage()).unwrap();
    let mut completed = |at: InstantTime| -> Result<Option<InstantTime>> {
        Ok(completions.iter().find(|(t, _)| time(t) == at).map(|(_, c)| time(c)))
    };
    let slices = merged_slices(&context, "a", &files, &mut completed).unwrap();
    slices
        .iter()
        .map(|s| format!("{} {} {} {}", s.file_id, s.base_instant, s.base_file.unwrap_or("-"), s.log_files.join(" ")))
        .collect()
}

fn mor(version: u8) -> Built {
    let table = Built::new(version);
    table.property("hoodie.table.type=MERGE_ON_READ");
    table
}

#[test]
fn names_decide_up_to_version_6() {
    let table = mor(6);
    for t in ["001", "002", "003", "004"] {
        table.instant(&format!("{t}.deltacommit"), "{}");
    }
    let names = [
        "f_1-0-1_001.parquet",
        ".f_001.log.10_1-0-1",
        ".f_001.log.2_1-0-1",
        ".f_001.log.2_1-0-1.cdc",
        "f_1-0-1_003.parquet",
        ".f_003.log.1_1-0-1",
        ".l_002.log.1_1-0-1",
    ];
    assert_eq!(
        slices(&table, &names, None, &[]),
        ["f 003 f_1-0-1_003.parquet .f_003.log.1_1-0-1", "l 002 - .l_002.log.1_1-0-1"]
    );
    assert_eq!(
        slices(&table, &names, Some("002"), &[])[0],
        "f 001 f_1-0-1_001.parquet .f_001.log.2_1-0-1 .f_001.log.10_1-0-1"
    );
    table.instant("005.replacecommit", &replacing(&["f"]));
    assert_eq!(slices(&table, &names, None, &[]), ["l 002 - .l_002.log.1_1-0-1"]);
}

/// A delta commit that started before a compaction was requested and ended after it belongs on top of what was compacted.
#[test]
fn completion_decides_from_version_8() {
    let table = mor(8);
    let times = [("001", "011"), ("021", "022"), ("041", "051"), ("043", "044")];
    table.instant("001_011.deltacommit", "").instant("021_022.deltacommit", "").instant("041_051.deltacommit", "");
    table.instant("043_044.commit", "");
    let names = ["f_1-0-1_001.parquet", ".f_021.log.1_1-0-1", ".f_041.log.1_1-0-1", "f_1-0-1_043.parquet"];
    assert_eq!(slices(&table, &names, None, &times), ["f 043 f_1-0-1_043.parquet .f_041.log.1_1-0-1"]);
    assert_eq!(slices(&table, &names, Some("021"), &times), ["f 001 f_1-0-1_001.parquet .f_021.log.1_1-0-1"]);
    // Not completed: its logs go to the newest slice, and are not shown.
    let pending = [&names[..], &[".f_061.log.1_1-0-1"]].concat();
    table.instant("061.deltacommit.requested", "");
    assert_eq!(slices(&table, &pending, None, &times), ["f 043 f_1-0-1_043.parquet .f_041.log.1_1-0-1"]);
    // Times of other lengths are compared by request.
    let odd = [("041", "20240101000000000")];
    assert_eq!(
        slices(&table, &names[..3], None, &odd),
        ["f 001 f_1-0-1_001.parquet .f_021.log.1_1-0-1 .f_041.log.1_1-0-1"]
    );
}

#[test]
fn a_group_under_compaction_is_read_as_before() {
    let Some(answer) = crate::common::golden_dir() else {
        crate::common::skipped("no golden tables; set HUDIFS_TABLES to the folder with the zips and expected/");
        return;
    };
    drop(answer);
    use hudifs::storage::{LocalStorage, Storage, TablePath};
    use hudifs::timeline::{Timeline, load_config};
    use hudifs::view::{Lister, StorageLister, ViewContext};
    let unpacked = crate::common::golden("derived_v8_mor_pending_compaction");
    let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(LocalStorage::new(&unpacked.base()).unwrap());
    let config = load_config(&*storage, &TablePath::root()).unwrap();
    let timeline = Timeline::load(&*storage, &TablePath::root(), &config).unwrap();
    let context = ViewContext::load(&*storage, &timeline, &config, None).unwrap().with_plans(&*storage).unwrap();
    assert!(context.compactions().count() > 0);
    let lister = StorageLister::new(storage.clone(), TablePath::root(), &config);
    let mut merged = 0;
    for (partition, file_id, compaction) in context.compactions() {
        let files = lister.files(&TablePath::parse(partition).unwrap()).unwrap();
        let mut completed = |t| timeline.completion_time(&*storage, t);
        let slices = merged_slices(&context, partition, &files, &mut completed).unwrap();
        let slice = slices.iter().find(|s| s.file_id == file_id).unwrap();
        assert!(slice.base_instant < compaction && slice.base_file.is_some(), "{slice:?}");
        let logs =
            files.iter().filter(|f| f.name.contains(".log.") && f.name.contains(file_id) && !f.name.ends_with(".crc"));
        assert_eq!(slice.log_files.len(), logs.count(), "the logs before it and after it: {slice:?}");
        merged += slice.log_files.len();
    }
    assert!(merged > 0);
}
