//! A daemon on a mount point of its own, as a user starts it: the built binary in the foreground.

use crate::common::skipped;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);

pub struct Mounted {
    daemon: Child,
    dir: tempfile::TempDir,
}

/// False, with a loud skip, where nothing can be mounted.
pub fn can_mount() -> bool {
    let can = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    if !can {
        skipped("no /dev/fuse on this machine, or no right to it");
    }
    can
}

/// The binary, with instants read in UTC whatever the machine's zone is.
pub fn hudifs() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hudifs"));
    command.env("TZ", "UTC").stdin(Stdio::null());
    command
}

impl Mounted {
    pub fn new(table: &Path) -> Mounted {
        Self::with(table, &[])
    }

    pub fn with(table: &Path, flags: &[&str]) -> Mounted {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().join("mnt");
        std::fs::create_dir(&point).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = hudifs();
        command.arg("mount").arg("-f").args(flags).arg(table).arg(&point).stdout(Stdio::null()).stderr(log);
        let mut mounted = Mounted { daemon: command.spawn().unwrap(), dir };
        let end = Instant::now() + WAIT;
        while !mounted.path().join(".hudifs/status.json").exists() {
            let ended = mounted.daemon.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "no mount: {ended:?}\n{}", mounted.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        mounted
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.path().join(".hudifs/status.json")).unwrap()).unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).stderr(Stdio::null()).status();
        let end = Instant::now() + WAIT;
        while Instant::now() < end {
            if matches!(self.daemon.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = Command::new("umount").arg("-l").arg(self.path()).stderr(Stdio::null()).status();
    }
}

/// Waits until a condition holds, and says what was waited for if it never does.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < WAIT, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}
