//! Running the binary, and mounts that clean up after themselves.

use crate::common::{has_golden, skipped};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything that must happen soon.
pub const SOON: Duration = Duration::from_secs(20);

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Finished {
    pub fn of(command: &mut Command) -> Finished {
        let output = command.stdin(Stdio::null()).output().unwrap();
        Finished {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the binary to its end.
pub fn hudifs(args: &[&str]) -> Finished {
    Finished::of(Command::new(env!("CARGO_BIN_EXE_hudifs")).args(args))
}

/// False, with a loud skip, where nothing can be mounted or there is no table to mount.
pub fn can_mount() -> bool {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let root = unsafe { libc::geteuid() } == 0;
    match device {
        Err(error) => skipped(&format!("/dev/fuse: {error}")),
        Ok(_) if !root => skipped("mounting with the options under test needs root"),
        Ok(_) => return has_golden(),
    }
    false
}

/// Waits for something.
#[track_caller]
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < end, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A mount point with a log folder beside it; whatever is mounted there is unmounted at the end.
pub struct Place {
    dir: tempfile::TempDir,
    pub point: PathBuf,
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().join("mnt");
        std::fs::create_dir(&point).unwrap();
        Place { dir, point }
    }

    pub fn point(&self) -> &str {
        self.point.to_str().unwrap()
    }

    pub fn log_dir(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Everything that was logged so far.
    pub fn log(&self) -> String {
        let Ok(files) = std::fs::read_dir(self.log_dir()) else { return String::new() };
        files.map(|f| std::fs::read_to_string(f.unwrap().path()).unwrap()).collect()
    }

    /// `hudifs mount` in the background.
    pub fn mount(&self, table: &Path, args: &[&str]) -> Finished {
        Finished::of(self.command(table, args))
    }

    #[track_caller]
    pub fn mounted(&self, table: &Path, args: &[&str]) {
        let done = self.mount(table, args);
        assert_eq!(done.code, Some(0), "{} {}", done.err, self.log());
    }

    /// `hudifs mount --foreground`, once it is served.
    pub fn foreground(&self, table: &Path, args: &[&str], env: &[(&str, &OsStr)]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hudifs"));
        command.args(["mount", "--foreground"]).arg(table).arg(&self.point).args(args);
        command.envs(env.iter().copied()).stderr(Stdio::piped()).stdout(Stdio::piped()).stdin(Stdio::null());
        let child = command.spawn().unwrap();
        eventually("a mount in the foreground", || self.point.join(".hudifs/status.json").exists().then_some(()));
        child
    }

    fn command(&self, table: &Path, args: &[&str]) -> &'static mut Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hudifs"));
        command.arg("mount").arg(table).arg(&self.point).arg("--log-directory").arg(self.log_dir()).args(args);
        Box::leak(Box::new(command))
    }

    pub fn status(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.point.join(".hudifs/status.json")).unwrap()).unwrap()
    }

    /// The daemon's process.
    pub fn pid(&self) -> i32 {
        self.status()["pid"].as_i64().unwrap() as i32
    }

    pub fn is_mounted(&self) -> bool {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().any(|line| line.split(' ').nth(4) == Some(self.point()))
    }

    /// Every data file below a folder of the mount, relative to it.
    pub fn files(&self, below: &str) -> Vec<String> {
        let root = self.point.join(below);
        let mut found = Vec::new();
        let mut pending = vec![root.clone()];
        while let Some(dir) = pending.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    pending.push(entry.path());
                } else {
                    found.push(entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for _ in 0..4 {
            if !self.is_mounted() {
                return;
            }
            let _ = Command::new("umount").arg("-l").arg(&self.point).stderr(Stdio::null()).status();
        }
    }
}

pub fn signal(pid: i32, signal: i32) {
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "kill {pid}");
}

/// True until a process that is not our child has ended.
pub fn is_alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // A zombie waits for a parent that may never look.
    !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z')
}

#[track_caller]
pub fn ends(pid: i32) {
    eventually("the daemon's end", || (!is_alive(pid)).then_some(()));
}
