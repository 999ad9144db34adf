//! Checks of this machine: what a mount needs, and what makes it fast.

use super::finding::{Area, Findings};
use crate::cli::output;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

const AREA: Area = Area::Machine;
/// The first kernel with FUSE passthrough.
const PASSTHROUGH_KERNEL: (u32, u32) = (6, 9);
/// The oldest kernel that Rust's FUSE library and our use of it are meant for.
const OLDEST_KERNEL: (u32, u32) = (4, 20);
/// Descriptors that a busy mount may need.
const FILES_WANTED: u64 = 65_536;
/// Descriptors below which ordinary scans may fail.
const FILES_NEEDED: u64 = 4096;
/// Memory below which a mount is cramped, bytes.
const MEMORY_WANTED: u64 = 512 << 20;

/// Makes all of them.
pub fn check(findings: &mut Findings) {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let kernel = kernel(findings);
    device(findings);
    helper(findings, root);
    passthrough(findings, kernel);
    allow_other(findings, root);
    memory(findings);
    open_files(findings);
    watches(findings);
    clock(findings);
}

fn kernel(findings: &mut Findings) -> (u32, u32) {
    let mut names = std::mem::MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: `names` has room for the answer.
    if unsafe { libc::uname(names.as_mut_ptr()) } != 0 {
        findings.warn(AREA, "kernel", "", "the kernel's version is not known", "");
        return (0, 0);
    }
    // SAFETY: the call succeeded, so the field is filled and ends with NUL.
    let release = unsafe { CStr::from_ptr(names.assume_init_ref().release.as_ptr()) }.to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST_KERNEL {
        let message = format!("Linux {release} is older than {}.{}", OLDEST_KERNEL.0, OLDEST_KERNEL.1);
        findings.warn(AREA, "kernel", "", &message, "use a newer kernel; listings and invalidation may misbehave");
    } else {
        findings.ok(AREA, "kernel", &format!("Linux {release}"));
    }
    version
}

fn device(findings: &mut Findings) {
    let device = "/dev/fuse";
    match std::fs::OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => findings.ok(AREA, "dev-fuse", "/dev/fuse can be opened"),
        Err(error) => {
            let remedy = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "run `modprobe fuse`; in a container, pass --device /dev/fuse --cap-add SYS_ADMIN"
                }
                _ => "give this user access to /dev/fuse, as most systems do by mode 0666",
            };
            findings.error(AREA, "dev-fuse", device, &error.to_string(), remedy);
        }
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn helper(findings: &mut Findings, root: bool) {
    match in_path("fusermount3") {
        Some(path) => findings.ok(AREA, "fusermount3", &format!("{} is there", path.display())),
        None if root => findings.note(
            AREA,
            "fusermount3",
            "",
            "fusermount3 is not installed; root needs it for --auto-unmount only",
            "install the fuse3 package",
        ),
        None => findings.error(
            AREA,
            "fusermount3",
            "",
            "fusermount3 is not installed, and users other than root cannot mount without it",
            "install the fuse3 package, or mount as root",
        ),
    }
}

/// True with CAP_SYS_ADMIN in effect.
fn is_admin() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & SYS_ADMIN != 0)
}

fn passthrough(findings: &mut Findings, kernel: (u32, u32)) {
    let check = "passthrough";
    if kernel < PASSTHROUGH_KERNEL {
        let message = "the kernel cannot read local files by itself for a mount; reads go through the daemon";
        findings.note(AREA, check, "", message, "Linux 6.9 and above can");
    } else if is_admin() {
        findings.ok(AREA, check, "local files can be read by the kernel without the daemon");
    } else {
        let message = "this user lacks CAP_SYS_ADMIN, so reads of local files go through the daemon";
        findings.note(AREA, check, "", message, "mount as root for full speed on local disks");
    }
}

fn allow_other(findings: &mut Findings, root: bool) {
    let allowed = std::fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"));
    if root || allowed {
        findings.ok(AREA, "allow-other", "--allow-other may be used");
    } else {
        let message = "users other than root may not use --allow-other";
        findings.note(AREA, "allow-other", "", message, "put a line user_allow_other into /etc/fuse.conf");
    }
}

fn memory(findings: &mut Findings) {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let available = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).map(|kib| kib << 10);
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    let Some(free) = available.into_iter().chain(limit).min() else {
        return findings.note(AREA, "memory", "", "the free memory is not known", "");
    };
    if free < MEMORY_WANTED {
        let message = format!("only {} of memory are free", output::size(free));
        findings.warn(AREA, "memory", "", &message, "give the machine or container more, or lower --memory-target");
    } else {
        findings.ok(AREA, "memory", &format!("{} of memory are free", output::size(free)));
    }
}

fn open_files(findings: &mut Findings) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return findings.note(AREA, "open-files", "", "the limit of open files is not known", "");
    }
    let message = format!("at most {} files may be open; each file that is being read takes one", limit.rlim_max);
    let remedy = "raise it: `ulimit -Hn`, or LimitNOFILE= in a systemd unit";
    if limit.rlim_max < FILES_NEEDED {
        findings.warn(AREA, "open-files", "", &message, remedy);
    } else if limit.rlim_max < FILES_WANTED {
        findings.note(AREA, "open-files", "", &message, remedy);
    } else {
        findings.ok(AREA, "open-files", &format!("{} files may be open", limit.rlim_max));
    }
}

fn watches(findings: &mut Findings) {
    let setting = Path::new("/proc/sys/fs/inotify/max_user_watches");
    match std::fs::read_to_string(setting).ok().and_then(|t| t.trim().parse::<u64>().ok()) {
        Some(watches) if watches < 8192 => {
            let message = format!("only {watches} directories can be watched; tables beyond that are polled");
            findings.note(AREA, "inotify", "", &message, "raise fs.inotify.max_user_watches with sysctl");
        }
        Some(watches) => findings.ok(AREA, "inotify", &format!("{watches} directories can be watched")),
        None => findings.note(AREA, "inotify", "", "inotify is not available; commits are found by polling", ""),
    }
}

fn clock(findings: &mut Findings) {
    // SAFETY: all-zero is a valid value that asks for nothing to be changed.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a place for the answer; with no mode set, nothing is changed.
    let answer = unsafe { libc::adjtimex(&mut state) };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let remedy = "run an NTP client; instants are compared with the times of other machines";
    // 2024-01-01: before this program was written.
    if now < 1_704_067_200 {
        findings.error(AREA, "clock", "", "the clock is years behind", remedy);
    } else if answer < 0 || state.status & libc::STA_UNSYNC != 0 {
        findings.note(AREA, "clock", "", "the kernel does not know its clock to be synchronized", remedy);
    } else {
        findings.ok(AREA, "clock", "the clock is synchronized");
    }
}
