//! The lease that a daemon keeps on a table: what it tells, when, and that it is the only thing that reading writes.

use super::life::{Held, NAME, ask};
use super::run::{Place, can_mount, ends, eventually, hudifs, signal};
use crate::common::{golden, golden_answer};
use hudifs::storage::LocalStorage;
use hudifs::table::lease::{self, Leases};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What a cleaner in another process finds.
fn leases(table: &Path) -> Leases {
    lease::read(&LocalStorage::new(table).unwrap(), SystemTime::now()).unwrap()
}

fn instants(table: &Path) -> Vec<String> {
    leases(table).instants().iter().map(ToString::to_string).collect()
}

/// Every file of a table with its bytes.
fn content(base: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![base.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => pending.push(path),
                false => drop(found.insert(path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

#[test]
fn a_lease_begins_with_the_first_look_and_ends_with_the_mount_and_is_all_that_is_written() {
    if !can_mount() {
        return;
    }
    let table = golden(NAME);
    let base = table.base();
    let before = content(&base);
    let place = Place::new();
    place.mounted(&base, &["--lease-life", "5"]);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(place.status()["tables"][0]["lease"]["state"], "none");
    assert!(leases(&base).live.is_empty(), "nobody has looked");
    let files = place.files("");
    let newest = golden_answer(NAME)["latest_instant"].as_str().unwrap().to_owned();
    eventually("a lease", || (instants(&base) == [newest.clone()]).then_some(()));
    let lease = &leases(&base).live[0];
    assert!(lease.owner.contains(place.point()) && lease.owner.contains(&place.pid().to_string()), "{}", lease.owner);
    assert!(lease.expires_ms - lease.renewed_ms == 5000 && !lease.everything);
    let shown = hudifs(&["status", place.point()]);
    assert!(shown.out.contains("lease on 1 instants"), "{}", shown.out);

    let open = std::fs::File::open(place.point.join(&files[0])).unwrap();
    eventually("the open file", || (leases(&base).files().len() == 1).then_some(()));
    assert_eq!(leases(&base).files().first().unwrap().as_str(), files[0]);
    let renewed = leases(&base).live[0].renewed_ms;
    eventually("a renewal", || (leases(&base).live[0].renewed_ms > renewed).then_some(()));
    drop(open);
    eventually("the closed file", || leases(&base).files().is_empty().then_some(()));

    let pid = place.pid();
    assert_eq!(hudifs(&["umount", place.point()]).code, Some(0));
    ends(pid);
    assert_eq!(content(&base), before, "the table is as it was");
}

#[test]
fn old_views_that_somebody_uses_are_held() {
    if !can_mount() {
        return;
    }
    let held = Held::new();
    let base = held.table.base();
    let place = Place::new();
    place.mounted(&base, &["--lease-life", "5"]);
    let all: Vec<String> = std::fs::read_dir(place.point.join(".hudifs/read_optimized"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n != "latest")
        .collect();
    let (oldest, shown) = (all.iter().min().unwrap(), all.iter().max().unwrap());
    // A pin is in the lease before it is answered.
    let pin = ask(&place, "POST", "/v1/pin", &json!({ "instant": oldest, "ttl_seconds": 60 })).json();
    assert_eq!(pin["leased"], true);
    assert!(instants(&base).contains(oldest));
    let path = format!("/v1/pin/{}", pin["id"].as_str().unwrap());
    assert_eq!(ask(&place, "DELETE", &path, &json!(null)).status, 204);
    eventually("the pin's end", || (!instants(&base).contains(oldest)).then_some(()));
    // So is a view that is looked at.
    assert!(!place.files(&format!(".hudifs/read_optimized/{oldest}")).is_empty());
    eventually("the view", || instants(&base).contains(oldest).then_some(()));
    // A commit adds its view; the one before stays, for scans that have begun.
    place.files("");
    held.commit();
    let newest = golden_answer(NAME)["latest_instant"].as_str().unwrap().to_owned();
    eventually("both", || [shown, &newest].iter().all(|i| instants(&base).contains(i)).then_some(()));
    assert_eq!(hudifs(&["umount", place.point()]).code, Some(0));
}

#[test]
fn a_deleted_table_does_not_come_back_with_a_lease() {
    if !can_mount() {
        return;
    }
    let table = golden(NAME);
    let base = table.base();
    let place = Place::new();
    place.mounted(&base, &["--lease-life", "1"]);
    place.files("");
    eventually("a lease", || (!leases(&base).live.is_empty()).then_some(()));
    // The folder stays, what is in it goes.
    let meta = base.join(".hoodie");
    eventually("it is gone", || (std::fs::remove_dir_all(&meta).is_ok() || !meta.exists()).then_some(()));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!meta.exists(), "several renewals later");
    assert_eq!(hudifs(&["umount", place.point()]).code, Some(0));
}

#[test]
fn a_daemon_that_dies_leaves_a_lease_that_ends_by_itself() {
    if !can_mount() {
        return;
    }
    let table = golden(NAME);
    let place = Place::new();
    place.mounted(&table.base(), &["--lease-life", "1"]);
    place.files("");
    eventually("a lease", || (!leases(&table.base()).live.is_empty()).then_some(()));
    let pid = place.pid();
    signal(pid, libc::SIGKILL);
    ends(pid);
    let storage = LocalStorage::new(&table.base()).unwrap();
    assert_eq!(lease::read(&storage, SystemTime::now()).unwrap().live.len(), 1);
    let later = SystemTime::now() + Duration::from_secs(2) + lease::CLOCK_SKEW_MAX;
    let leases = lease::read(&storage, later).unwrap();
    assert_eq!((leases.live.len(), leases.expired.len()), (0, 1));
}

#[test]
fn where_nothing_may_be_written_there_is_no_lease_and_status_says_why() {
    if !can_mount() {
        return;
    }
    let table = golden(NAME);
    let base = table.base();
    let before = content(&base);
    let place = Place::new();
    place.mounted(&base, &["--read-only"]);
    assert!(!place.files("").is_empty());
    let lease = place.status()["tables"][0]["lease"].clone();
    assert_eq!((&lease["state"], lease["reason"].as_str().unwrap().contains("--read-only")), (&json!("off"), true));
    let pin = ask(&place, "POST", "/v1/pin", &json!({})).json();
    assert_eq!(pin["leased"], false);
    assert_eq!(hudifs(&["umount", place.point()]).code, Some(0));

    // A disk that takes no writes.
    let bind = Bind::read_only(&base);
    let place = Place::new();
    place.mounted(&bind.0, &["--lease-life", "5"]);
    assert!(!place.files("").is_empty());
    eventually("the refusal", || (place.status()["tables"][0]["lease"]["state"] == "off").then_some(()));
    assert!(place.status()["events"].as_array().unwrap().is_empty(), "{}", place.status());
    assert_eq!(hudifs(&["umount", place.point()]).code, Some(0));
    drop(bind);
    assert_eq!(content(&base), before);
}

/// A folder mounted a second time, read-only.
struct Bind(PathBuf, #[allow(dead_code, reason = "the folder lives as long")] tempfile::TempDir);

impl Bind {
    fn read_only(folder: &Path) -> Bind {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().join("table");
        std::fs::create_dir(&point).unwrap();
        let mount = |args: &[&std::ffi::OsStr]| {
            assert!(std::process::Command::new("mount").args(args).status().unwrap().success());
        };
        mount(&["--bind".as_ref(), folder.as_os_str(), point.as_os_str()]);
        mount(&["-o".as_ref(), "remount,bind,ro".as_ref(), point.as_os_str()]);
        Bind(point, dir)
    }
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
