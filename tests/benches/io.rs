//! Reads of one file through the mount against the same file itself, interleaved in one run.
//!
//! `cargo bench --bench io -- MOUNTED_FILE STORED_FILE [DAEMON_PID]` prints, for each way of reading, the medians and the
//! ratio (mount over file, lower is better), and the processor time that client and daemon spent together.
//! Cold rows drop the page cache before every run and need root; without it they are left out, and the output says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a benchmark may stop")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROUNDS: usize = 7;
const MIB: usize = 1 << 20;

struct Sample {
    wall_s: f64,
    cpu_s: f64,
}

struct Case {
    name: &'static str,
    cold: bool,
    run: fn(&Path, u64),
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [mounted, stored, rest @ ..] = args.as_slice() else {
        println!("usage: cargo bench --bench io -- MOUNTED_FILE STORED_FILE [DAEMON_PID]; nothing measured");
        return;
    };
    let daemon: Option<i32> = rest.first().map(|p| p.parse().expect("a process id"));
    let (mounted, stored) = (PathBuf::from(mounted), PathBuf::from(stored));
    let size = std::fs::metadata(&stored).unwrap().len();
    assert_eq!(size, std::fs::metadata(&mounted).unwrap().len(), "the two files differ in size");
    let can_drop = drop_caches();
    println!("file of {} MiB, {ROUNDS} rounds, medians; CPU = client + daemon", size >> 20);
    println!(
        "{:<26} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
        "work", "mount", "file", "ratio", "cpu mount", "cpu file", "ratio"
    );
    let cases = [
        Case { name: "sequential 1 MiB", cold: true, run: sequential },
        Case { name: "sequential 1 MiB", cold: false, run: sequential },
        Case { name: "mmap", cold: false, run: mapped },
        Case { name: "random 4 KiB", cold: false, run: random_4k },
        Case { name: "random 64 KiB", cold: false, run: random_64k },
        Case { name: "random 4 KiB", cold: true, run: random_4k },
        Case { name: "open and close x1000", cold: false, run: open_close },
    ];
    for case in &cases {
        if case.cold && !can_drop {
            println!("{:<26} left out: dropping the page cache needs root", format!("{} cold", case.name));
            continue;
        }
        measure(case, &mounted, &stored, size, daemon);
    }
}

fn measure(case: &Case, mounted: &Path, stored: &Path, size: u64, daemon: Option<i32>) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    if !case.cold {
        (case.run)(mounted, size);
        (case.run)(stored, size);
    }
    for round in 0..ROUNDS {
        // The order alternates, so that drift of the machine falls on both.
        let mut order = [(mounted, true), (stored, false)];
        if round % 2 == 1 {
            order.reverse();
        }
        for (path, is_mount) in order {
            if case.cold {
                drop_caches();
            }
            let before = cpu_s(daemon);
            let start = Instant::now();
            (case.run)(path, size);
            let sample = Sample { wall_s: start.elapsed().as_secs_f64(), cpu_s: cpu_s(daemon) - before };
            if is_mount { a.push(sample) } else { b.push(sample) }
        }
    }
    let (wa, wb) = (median(&a, |s| s.wall_s), median(&b, |s| s.wall_s));
    let (ca, cb) = (median(&a, |s| s.cpu_s), median(&b, |s| s.cpu_s));
    let name = format!("{} {}", case.name, if case.cold { "cold" } else { "warm" });
    println!(
        "{name:<26} {:>8.2}ms {:>8.2}ms {:>7.2} {:>8.2}ms {:>8.2}ms {:>7.2}",
        wa * 1e3,
        wb * 1e3,
        wa / wb,
        ca * 1e3,
        cb * 1e3,
        ca / cb
    );
}

fn median(samples: &[Sample], what: fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(what).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Processor seconds of this process, and of the daemon where its id is known.
fn cpu_s(daemon: Option<i32>) -> f64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: getrusage writes one rusage to the pointer, which is valid for it.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    let own = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    let daemon = daemon.map_or(0.0, |pid| {
        // sum_exec_runtime in nanoseconds over all threads.
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the daemon is alive");
        tasks
            .filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("schedstat")).ok())
            .filter_map(|s| s.split(' ').next()?.parse::<f64>().ok())
            .sum::<f64>()
            / 1e9
    });
    own + daemon
}

fn drop_caches() -> bool {
    // SAFETY: sync has no arguments.
    unsafe { libc::sync() };
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

fn sequential(path: &Path, _size: u64) {
    let file = File::open(path).unwrap();
    let mut buffer = vec![0u8; MIB];
    let mut at = 0;
    loop {
        let n = file.read_at(&mut buffer, at).unwrap();
        if n == 0 {
            return;
        }
        at += n as u64;
    }
}

fn mapped(path: &Path, size: u64) {
    let file = File::open(path).unwrap();
    let len = size as usize;
    // SAFETY: a private read-only mapping of a file that no one changes; it is unmapped before the function ends.
    unsafe {
        let base = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        assert_ne!(base, libc::MAP_FAILED);
        let mut sum = 0u64;
        for at in (0..len).step_by(4096) {
            sum = sum.wrapping_add(*base.cast::<u8>().add(at) as u64);
        }
        std::hint::black_box(sum);
        libc::munmap(base, len);
    }
}

fn random(path: &Path, size: u64, len: usize, count: usize) {
    let file = File::open(path).unwrap();
    let mut buffer = vec![0u8; len];
    let blocks = (size / len as u64).max(1);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..count {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let n = file.read_at(&mut buffer, (seed >> 33) % blocks * len as u64).unwrap();
        std::hint::black_box(n);
    }
}

fn random_4k(path: &Path, size: u64) {
    random(path, size, 4096, 4000);
}

fn random_64k(path: &Path, size: u64) {
    random(path, size, 65536, 1000);
}

fn open_close(path: &Path, _size: u64) {
    for _ in 0..1000 {
        drop(File::open(path).unwrap());
    }
}
