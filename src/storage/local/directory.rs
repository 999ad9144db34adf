//! Reading a directory and stat'ing names in it, at the speed of the system calls.
//!
//! `getdents64` with a large buffer gives names, kinds and inode numbers; `statx` relative to the directory's descriptor
//! saves walking the path for each name. Many names are split over threads. Entries come in the order of their inodes, so
//! that a caller who stats them as they come reads a cold disk's inode tables front to back.

use super::super::{ObjectMeta, path::check_component};
use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Bytes asked of the kernel at once.
const BUFFER_BYTES: usize = 128 << 10;
/// Names that one thread should have at least: below, starting it costs more than it saves.
const NAMES_PER_THREAD: usize = 4096;
/// More threads than this only wait for the directory's lock.
const THREADS_MAX: usize = 8;

/// One raw entry: name, `d_type` and inode number.
pub(super) struct RawEntry {
    pub(super) name: Vec<u8>,
    pub(super) kind: u8,
    pub(super) inode: u64,
}

/// All entries but `.` and `..`, by inode.
pub(super) fn read(dir: &File) -> io::Result<Vec<RawEntry>> {
    let mut buffer = vec![0u8; BUFFER_BYTES];
    let mut entries = Vec::new();
    loop {
        // SAFETY: the kernel writes at most the buffer's length into it.
        let n = unsafe {
            libc::syscall(libc::SYS_getdents64, dir.as_raw_fd(), buffer.as_mut_ptr().cast::<u8>(), buffer.len())
        };
        match usize::try_from(n) {
            Ok(0) => {
                entries.sort_unstable_by_key(|e: &RawEntry| e.inode);
                return Ok(entries);
            }
            Ok(filled) => parse(buffer.get(..filled).unwrap_or_default(), &mut entries),
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
}

/// `struct linux_dirent64`: inode u64, offset i64, record length u16, kind u8, name up to a NUL.
fn parse(mut bytes: &[u8], entries: &mut Vec<RawEntry>) {
    while let Some((head, rest)) = bytes.split_first_chunk::<19>() {
        let inode = head.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        let length = usize::from(u16::from_ne_bytes([head[16], head[17]]));
        let Some(name) = rest.get(..length.saturating_sub(head.len())) else { return };
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        if name != b"." && name != b".." {
            entries.push(RawEntry { name: name.to_vec(), kind: head[18], inode });
        }
        bytes = bytes.get(length.max(head.len())..).unwrap_or_default();
    }
}

/// What `statx` told of one name, without following a link.
pub(super) enum Stat {
    File(ObjectMeta),
    Link,
    Dir,
    Special,
}

/// Stats `names` in `dir`, results in order. Links are not followed.
pub(super) fn stat_many(dir: &File, names: &[&str]) -> Vec<Result<Stat>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(THREADS_MAX).min(names.len() / NAMES_PER_THREAD).max(1);
    if threads == 1 {
        return stat_part(dir, names);
    }
    std::thread::scope(|scope| {
        let parts = names.chunks(names.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|part| (part, scope.spawn(move || stat_part(dir, part)))).collect();
        // A thread that panicked has its part done again here: results must stay in order.
        running.into_iter().flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| stat_part(dir, part))).collect()
    })
}

fn stat_part(dir: &File, names: &[&str]) -> Vec<Result<Stat>> {
    let mut c_name = Vec::with_capacity(256);
    let stat = |name: &&str| {
        check_component(name)?;
        c_name.clear();
        c_name.extend_from_slice(name.as_bytes());
        c_name.push(0);
        statx(dir, &c_name).map_err(|e| Error::io(name, e))
    };
    names.iter().map(stat).collect()
}

/// `name` must end with a NUL.
fn statx(dir: &File, name: &[u8]) -> io::Result<Stat> {
    // SAFETY: `statx` is plain integers, for which all zeroes is a value.
    let mut buf: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
    let mask = libc::STATX_TYPE | libc::STATX_SIZE | libc::STATX_MTIME;
    // SAFETY: the name ends with a NUL and outlives the call, and `buf` is what the kernel fills.
    let rc = unsafe { libc::statx(dir.as_raw_fd(), name.as_ptr().cast(), flags, mask, &raw mut buf) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(match u32::from(buf.stx_mode) & libc::S_IFMT {
        libc::S_IFREG => Stat::File(ObjectMeta {
            size: buf.stx_size,
            modified_ms: milliseconds(buf.stx_mtime.tv_sec, i64::from(buf.stx_mtime.tv_nsec)),
            etag: None,
        }),
        libc::S_IFLNK => Stat::Link,
        libc::S_IFDIR => Stat::Dir,
        _ => Stat::Special,
    })
}

/// Milliseconds since the epoch, rounded down.
pub(super) fn milliseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}
