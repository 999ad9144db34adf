//! Links that lead out of the table, and things that are no files: nothing from outside is served, nothing waits, and the other
//! partitions stay.

use super::judge::{Allow, Look, SECRET, judge, look};
use crate::common::{Unpacked, repo, unpack};
use hudifs::table::Listing;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// One without a metadata table and one with, of both layouts.
const TABLES: [&str; 4] =
    ["v6_cow_basic_hive", "v6_mor_basic_nested_mdt", "v9_cow_basic_hive_mdt", "v9_mor_basic_nested"];

struct Case {
    name: &'static str,
    table: Unpacked,
    outside: tempfile::TempDir,
    whole: Look,
}

impl Case {
    fn all() -> impl Iterator<Item = Case> {
        TABLES.into_iter().map(|name| {
            let table = unpack(&repo().join(format!("tests/fixtures/{name}.zip")), name);
            let whole = look(&table.base(), Listing::Auto, false).unwrap();
            assert!(matches!(whole, Look::Shown { .. }), "{name}: {whole:?}");
            Case { name, table, outside: tempfile::tempdir().unwrap(), whole }
        })
    }

    /// The first partition that shows a file, and that file's path.
    fn a_file(&self) -> (String, PathBuf) {
        let Look::Shown { partitions, .. } = &self.whole else { unreachable!() };
        let with_files = partitions.iter().filter_map(|(p, files)| Some((p, files.as_ref().ok()?.keys().next()?)));
        let (partition, file) = with_files.into_iter().next().unwrap();
        (partition.clone(), self.table.base().join(partition).join(file))
    }

    /// Looks by both ways of listing, and judges. `partition` is the only one that may fail; `None`: all may.
    fn check(&self, what: &str, partition: Option<&str>) {
        for listing in [Listing::Auto, Listing::Storage] {
            let shown = look(&self.table.base(), listing, true).unwrap_or_else(|e| panic!("{} {what}: {e}", self.name));
            let problem = judge(&self.whole, &shown, Allow::Less);
            assert_eq!(problem, None, "{} {what} by {listing:?}: {shown:?}", self.name);
            let Some(damaged) = partition else { continue };
            let (Look::Shown { partitions: whole, .. }, Look::Shown { partitions, .. }) = (&self.whole, &shown) else {
                panic!("{} {what} by {listing:?}: {shown:?}", self.name);
            };
            for (healthy, files) in whole.iter().filter(|(p, _)| *p != damaged) {
                assert_eq!(partitions.get(healthy), Some(files), "{} {what} by {listing:?}: {healthy}", self.name);
            }
        }
    }
}

/// A copy of what lies there, with every file's bytes replaced by the secret, of the same length where that is possible.
fn move_out(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            move_out(&entry.path(), &to.join(entry.file_name()));
        }
        std::fs::remove_dir(from).unwrap();
    } else {
        let len = from.metadata().unwrap().len() as usize;
        let secret: Vec<u8> = SECRET.bytes().cycle().take(len.max(SECRET.len())).collect();
        std::fs::write(to, secret).unwrap();
        std::fs::remove_file(from).unwrap();
    }
}

#[test]
fn a_link_that_leads_out_is_never_followed() {
    for case in Case::all() {
        let (partition, file) = case.a_file();
        let out = case.outside.path().join("file");
        move_out(&file, &out);
        symlink(&out, &file).unwrap();
        case.check("file behind an absolute link", Some(&partition));
        std::fs::remove_file(&file).unwrap();
        let up = "../".repeat(file.components().count());
        symlink(format!("{up}{}", out.to_str().unwrap().trim_start_matches('/')), &file).unwrap();
        case.check("file behind a relative link", Some(&partition));
        std::fs::remove_file(&file).unwrap();
        symlink("/proc/self/root/etc/passwd", &file).unwrap();
        case.check("file behind /proc", Some(&partition));
        std::fs::remove_file(&file).unwrap();
        symlink(file.file_name().unwrap(), &file).unwrap();
        case.check("file that is a link to itself", Some(&partition));
    }
}

#[test]
fn a_partition_that_leads_out_fails_by_itself() {
    for case in Case::all() {
        let (partition, file) = case.a_file();
        let folder = file.parent().unwrap();
        let out = case.outside.path().join("partition");
        move_out(folder, &out);
        symlink(&out, folder).unwrap();
        case.check("partition behind a link", Some(&partition));
    }
}

#[test]
fn folders_of_the_table_s_own_may_not_lead_out_either() {
    for folder in
        [".hoodie", ".hoodie/timeline", ".hoodie/metadata", ".hoodie/metadata/files", ".hoodie/metadata/.hoodie"]
    {
        for case in Case::all() {
            let inside = case.table.base().join(folder);
            if !inside.is_dir() {
                continue;
            }
            let out = case.outside.path().join("folder");
            std::fs::rename(&inside, &out).or_else(|_| copy_out(&inside, &out)).unwrap();
            symlink(&out, &inside).unwrap();
            case.check(&format!("{folder} behind a link"), None);
            std::fs::remove_file(&inside).unwrap();
            case.check(&format!("{folder} gone"), None);
            std::fs::write(&inside, "").unwrap();
            case.check(&format!("{folder} is a file"), None);
        }
    }
}

fn copy_out(from: &Path, to: &Path) -> std::io::Result<()> {
    assert!(std::process::Command::new("cp").arg("-a").arg(from).arg(to).status()?.success());
    std::fs::remove_dir_all(from)
}

#[test]
fn what_is_no_file_is_an_error_and_makes_nobody_wait() {
    for case in Case::all() {
        let (partition, file) = case.a_file();
        std::fs::remove_file(&file).unwrap();
        let make = |command: &[&str]| {
            let made = std::process::Command::new(command[0]).args(&command[1..]).arg(&file).status().unwrap();
            assert!(made.success(), "{command:?}");
        };
        make(&["mkfifo"]);
        case.check("pipe for a file", Some(&partition));
        std::fs::remove_file(&file).unwrap();
        make(&["mkdir"]);
        case.check("folder for a file", Some(&partition));
        std::fs::remove_dir(&file).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(&file);
        // A path of more than 107 bytes cannot be bound.
        if socket.is_ok() {
            case.check("socket for a file", Some(&partition));
            std::fs::remove_file(&file).unwrap();
        }
        // A folder of zeros without end: only the super-user can make one.
        let device = case.table.base().join("device");
        let zero = std::process::Command::new("mknod").arg(&device).args(["c", "1", "5"]).status().unwrap();
        if zero.success() {
            std::fs::rename(&device, &file).unwrap();
            case.check("device for a file", Some(&partition));
            std::fs::remove_file(&file).unwrap();
        }
        let folder = file.parent().unwrap();
        std::fs::rename(folder, case.outside.path().join("kept"))
            .or_else(|_| copy_out(folder, &case.outside.path().join("kept")))
            .unwrap();
        std::fs::write(folder, "").unwrap();
        // Where storage is listed the partition is gone, as it is when it is dropped; a metadata table knows better.
        let shown = look(&case.table.base(), Listing::Storage, true).unwrap();
        let (Look::Shown { partitions: whole, .. }, Look::Shown { partitions, .. }) = (&case.whole, &shown) else {
            panic!("{}: {shown:?}", case.name);
        };
        for (healthy, files) in whole.iter().filter(|(p, _)| **p != partition) {
            assert_eq!(partitions.get(healthy), Some(files), "{}: {healthy}", case.name);
        }
    }
}

#[test]
fn a_mark_of_another_kind_does_not_hide_its_partition() {
    for case in Case::all() {
        let (partition, file) = case.a_file();
        let mark = file.parent().unwrap().join(".hoodie_partition_metadata");
        std::fs::remove_file(&mark).unwrap();
        std::fs::create_dir(&mark).unwrap();
        case.check("folder for the partition's mark", Some(&partition));
        std::fs::remove_dir(&mark).unwrap();
        symlink("/etc/passwd", &mark).unwrap();
        case.check("link for the partition's mark", Some(&partition));
    }
}
