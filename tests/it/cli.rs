//! The built binary as people, mount(8) and systemd run it.

mod lease;
mod life;
mod run;
mod write;

use crate::common::{golden, golden_answer, has_golden, repo, unpack};
use run::{Finished, can_mount, hudifs};
use serde_json::Value;
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn exit_codes_tell_what_went_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().to_str().unwrap();
    for (args, code) in [
        (vec![], 2),
        (vec!["mount"], 2),
        (vec!["mount", "--no-such-flag", "/t", empty], 2),
        (vec!["mount", "/t", empty, "--memory-target", "lots"], 2),
        (vec!["mount", "/t", empty, "--auto-unmount"], 2),
        (vec!["status", "ftp://host/t"], 1),
        (vec!["status", "/no/such/place"], 10),
        (vec!["files", empty], 10),
        (vec!["timeline", empty], 10),
        (vec!["doctor", "/no/such/place"], 10),
        (vec!["mount", "-f", "/no/such/place", empty], 10),
        (vec!["mount", "/no/such/place", empty], 10),
        (vec!["umount", empty], 2),
        (vec!["refresh", empty], 10),
        (vec!["--version"], 0),
        (vec!["help", "mount"], 0),
    ] {
        let done = hudifs(&args);
        assert_eq!(done.code, Some(code), "{args:?}: {}", done.err);
        if code != 0 && code != 2 {
            assert!(done.err.starts_with("hudifs: ") || args[0] == "doctor", "{args:?}: {}", done.err);
        }
    }
}

fn fixture(name: &str) -> crate::common::Unpacked {
    unpack(&repo().join(format!("tests/fixtures/{name}.zip")), name)
}

#[test]
fn archived_instants_are_shown_when_asked_for() {
    let table = fixture("v6_cow_archived_plain_mdt");
    let base = table.base().to_str().unwrap().to_owned();
    let instants = |args: &[&str]| {
        let timeline = json(&hudifs(&[&["timeline", "--json", &base], args].concat()));
        timeline["instants"].as_array().unwrap().clone()
    };
    let (active, all) = (instants(&[]), instants(&["--all"]));
    assert!(active.iter().all(|i| i["archived"].is_null()));
    let archived = all.iter().take_while(|i| i["archived"] == true).count();
    assert!(archived > 0 && all[archived..] == active[..], "archived ones come first");
    let commits = all.iter().filter(|i| i["action"] == "commit" && i["state"] == "completed").count();
    assert_eq!(commits, 12);
    let text = hudifs(&["timeline", "--all", &base]).out;
    assert_eq!(text.lines().filter(|l| l.contains("archived")).count(), archived);
}

#[test]
fn what_a_listing_noticed_is_told_beside_it() {
    let table = fixture("v6_cow_encoded_mdt");
    let base = table.base().to_str().unwrap().to_owned();
    let clean = hudifs(&["files", &base]);
    assert_eq!((clean.code, clean.err.as_str()), (Some(0), ""));
    for entry in std::fs::read_dir(table.base().join(".hoodie/metadata/files")).unwrap() {
        std::fs::write(entry.unwrap().path(), "torn").unwrap();
    }
    let told = hudifs(&["files", &base]);
    assert_eq!((told.code, told.out == clean.out), (Some(0), true), "{}", told.err);
    assert!(
        told.err.starts_with("hudifs: warning: ") && told.err.contains("the storage is listed instead"),
        "{}",
        told.err
    );
    let document = json(&hudifs(&["files", "--json", &base]));
    assert!(document["summary"]["warnings"][0].as_str().unwrap().contains("the storage is listed instead"));
}

#[test]
fn a_damaged_table_has_a_code_of_its_own() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v6_nonpartitioned");
    let properties = table.base().join(".hoodie/hoodie.properties");
    let text = std::fs::read_to_string(&properties).unwrap();
    let damaged: String =
        text.lines().filter(|l| !l.starts_with("hoodie.table.name")).map(|l| format!("{l}\n")).collect();
    std::fs::write(&properties, damaged).unwrap();
    let base = table.base();
    let base = base.to_str().unwrap();
    for command in ["status", "files", "timeline", "doctor"] {
        let done = hudifs(&[command, base]);
        assert_eq!(done.code, Some(12), "{command}: {} {}", done.out, done.err);
    }
}

fn json(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{}", done.err);
    serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {}", done.out))
}

#[test]
fn readers_of_a_table_uri_need_no_daemon() {
    if !has_golden() {
        return;
    }
    let name = "cow_v9_txns_simple_meta";
    let table = golden(name);
    let answer = golden_answer(name);
    let base = table.base();
    for target in [base.to_str().unwrap().to_owned(), format!("file://{}", base.display())] {
        let status = json(&hudifs(&["status", "--json", &target]));
        assert_eq!(status["tables"][0]["instant"], answer["latest_instant"]);
        assert_eq!(status["tables"][0]["table_version"], 9);
        assert!(status.get("mount_point").is_none());
        let timeline = json(&hudifs(&["timeline", "--json", &target]));
        assert!(timeline["instants"].as_array().unwrap().iter().any(|i| i["counts"]["records"].as_u64() > Some(0)));
        let files = json(&hudifs(&["files", "--json", &target]));
        assert_eq!(files["summary"]["files"], answer["ro"]["files"].as_array().unwrap().len());
        let text = hudifs(&["files", &target]);
        let mut lines: Vec<&str> = text.out.lines().collect();
        let mut wanted: Vec<&str> =
            answer["ro"]["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
        lines.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
    }
    let base = base.to_str().unwrap();
    let then = answer["completed_instants"][0]["instant"].as_str().unwrap();
    let past = json(&hudifs(&["files", "--json", "--as-of", then, base]));
    assert_eq!(past["instant"], then);
    let missing = hudifs(&["files", "--partition", "region=mars", base]);
    assert_eq!(missing.code, Some(1), "a missing partition is no missing table: {}", missing.err);
    assert!(missing.err.contains("region=mars"));
    let long = hudifs(&["files", "--long", base]);
    assert!(long.out.lines().last().unwrap().contains("5 files in 3 partitions"), "{}", long.out);
}

#[test]
fn doctor_explains_what_it_finds() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v9_txns_simple_meta");
    let base = table.base();
    let base = base.to_str().unwrap();
    let healthy = hudifs(&["doctor", "--json", base]);
    let findings = |done: &Finished| -> Vec<(String, String, String)> {
        let all: Value = serde_json::from_str(&done.out).unwrap();
        let text = |f: &Value, field: &str| f[field].as_str().unwrap_or_default().to_owned();
        all["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| f["area"] == "table")
            .map(|f| (text(f, "severity"), text(f, "check"), text(f, "subject")))
            .collect()
    };
    assert!(findings(&healthy).iter().all(|f| f.0 == "note"), "{}", healthy.out);

    // A base file that no commit wrote, a data folder without metadata, a foreign name, an emptied commit, a lost file.
    let region = table.base().join("region=us");
    std::fs::write(region.join("f00d-0_0-1-1_20990101000000000.parquet"), "x").unwrap();
    std::fs::write(region.join("notes.txt"), "x").unwrap();
    std::fs::create_dir(table.base().join("region=moon")).unwrap();
    std::fs::write(table.base().join("region=moon/f00d-0_0-1-1_20260307162434124.parquet"), "x").unwrap();
    let listed = hudifs(&["files", base]);
    let lost = listed.out.lines().find(|l| l.starts_with("region=eu/")).unwrap().to_owned();
    std::fs::remove_file(table.base().join(&lost)).unwrap();
    let sick = hudifs(&["doctor", "--json", base]);
    assert_eq!(sick.code, Some(12), "{}", sick.out);
    let found = findings(&sick);
    let has = |severity: &str, check: &str, subject: &str| {
        assert!(
            found.iter().any(|f| f.0 == severity && f.1 == check && f.2.contains(subject)),
            "no {severity} {check} {subject}: {}",
            sick.out
        );
    };
    has("warning", "uncommitted", "");
    has("note", "foreign", "");
    has("warning", "partitions", "region=moon");
    has("error", "metadata-table", &lost);
    let text = hudifs(&["doctor", base]);
    assert_eq!(text.code, Some(12));
    assert!(
        text.out.contains("error   [metadata-table]") && text.out.contains("rebuild the metadata table"),
        "{}",
        text.out
    );
}

#[test]
fn doctor_reports_an_empty_commit_and_a_lost_properties_file() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v9_txns_nonpart_nometa");
    let timeline = table.base().join(".hoodie/timeline");
    let commits = std::fs::read_dir(&timeline).unwrap().map(|e| e.unwrap().path());
    let first = commits.filter(|p| p.to_str().unwrap().ends_with(".commit")).min().unwrap();
    std::fs::write(&first, "").unwrap();
    let properties = table.base().join(".hoodie/hoodie.properties");
    std::fs::rename(&properties, properties.with_extension("properties.backup")).unwrap();
    let done = hudifs(&["doctor", table.base().to_str().unwrap()]);
    assert_eq!(done.code, Some(1), "{}", done.out);
    assert!(done.out.contains("the backup is used"), "{}", done.out);
    assert!(done.out.contains("the commit's file is empty"), "{}", done.out);
}

#[test]
fn a_pipe_that_closes_early_is_not_a_failure() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v9_txns_simple_meta");
    let base = table.base();
    let base = base.to_str().unwrap();
    for args in [
        vec!["files", base],
        vec!["files", "--json", base],
        vec!["files", "--long", base],
        vec!["timeline", base],
        vec!["timeline", "--json", base],
        vec!["status", base],
        vec!["status", "--json", base],
        vec!["doctor", "--verbose"],
        vec!["completions", "bash"],
        vec!["completions", "zsh"],
        vec!["mount", "--help"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hudifs"))
            .args(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Closed before the program writes its first byte.
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{args:?}: {status:?} {said}");
        assert!(said.is_empty(), "{args:?}: {said}");
    }
}

#[test]
fn output_into_a_pipe_has_no_colours() {
    if !has_golden() {
        return;
    }
    let table = golden("cow_v9_txns_simple_meta");
    for args in [["doctor", "--verbose"], ["status", table.base().to_str().unwrap()]] {
        assert!(!hudifs(&args).out.contains('\x1b'), "{args:?}");
    }
}

#[test]
fn manual_pages_and_completions_cover_every_subcommand() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(hudifs(&["man", dir.path().to_str().unwrap()]).code, Some(0));
    let bash = hudifs(&["completions", "bash"]).out;
    let written = ["create", "upsert", "insert", "bulk-insert", "delete", "delete-partition", "insert-overwrite"];
    let kept = ["insert-overwrite-table", "clean", "compact", "archive", "rollback", "metadata"];
    let read = ["mount", "umount", "status", "timeline", "files", "refresh", "doctor", "completions", "man"];
    for command in read.into_iter().chain(written).chain(kept) {
        let page = std::fs::read_to_string(dir.path().join(format!("hudifs-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
        assert!(
            ["hudifs__", "hudifs__subcmd__"]
                .iter()
                .any(|p| bash.contains(&format!("{p}{}", command.replace('-', "__"))))
                || bash.contains(command),
            "{command}"
        );
    }
    let mount = std::fs::read_to_string(dir.path().join("hudifs-mount.1")).unwrap();
    assert!(mount.contains("allow\\-other") || mount.contains("allow-other"));
    assert_eq!(hudifs(&["man", "/no/such/dir"]).code, Some(1));
}

#[test]
fn a_mount_helper_speaks_mounts_language() {
    if !can_mount() {
        return;
    }
    let table = golden("cow_v6_nonpartitioned");
    let base = table.base();
    let base = base.to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let helper = dir.path().join("mount.hudifs");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hudifs"), &helper).unwrap();
    let point = dir.path().join("m");
    std::fs::create_dir(&point).unwrap();
    let point = point.to_str().unwrap();
    let log = format!("log_directory={}", dir.path().display());
    let call = |args: &[&str]| Finished::of(Command::new(&helper).args(args));

    let refused = call(&[base, point, "-o", "rw,speed=11"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("speed"), "{}", refused.err);
    assert_eq!(call(&[base]).code, Some(1));
    assert_eq!(call(&["/no/such/table", point, "-o", &log]).code, Some(32));
    assert_eq!(call(&[base, "/no/such/point", "-o", &log]).code, Some(32));
    assert_eq!(call(&[base, point, "-f", "-o", "ro"]).code, Some(0), "a fake mount");
    assert_eq!(std::fs::read_dir(point).unwrap().count(), 0, "a fake mount mounts nothing");

    let options = format!("rw,_netdev,nofail,x-systemd.automount,allow_other,uid=1234,gid=4321,file_mode=0400,{log}");
    let mounted = call(&[base, point, "-o", &options, "-n"]);
    assert_eq!(mounted.code, Some(0), "{}", mounted.err);
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::read_dir(point).unwrap().next().unwrap().unwrap().metadata().unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (1234, 4321, 0o400));
    assert_eq!(hudifs(&["umount", point]).code, Some(0));
    // As mount.fuse3 calls it for type fuse.hudifs.
    let mounted = hudifs(&[base, point, "-o", &format!("rw,nodev,nosuid,{log}")]);
    assert_eq!(mounted.code, Some(0), "{}", mounted.err);
    assert_eq!(std::fs::read_dir(point).unwrap().count(), 1);
    assert_eq!(hudifs(&["umount", point]).code, Some(0));
}
