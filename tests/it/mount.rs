//! Real mounts: what programs see through the kernel, beside the same files in a plain directory.

use crate::common::skipped;
use crate::fs::double::{DoubleHost, DoubleTable, commit_ms, instant, name};
use hudifs::ErrorKind;
use hudifs::fs::{FsOptions, TableFs, View};
use hudifs::fuse::{MountOptions, Serving, Session};
use hudifs::storage::TablePath;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A mounted table; unmounted when dropped.
struct Mount {
    session: Session,
    fs: Arc<TableFs>,
    dir: tempfile::TempDir,
}

impl Mount {
    fn at(&self) -> &Path {
        self.dir.path()
    }

    fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Publishes a view, and waits until the kernel has been told.
    fn publish(&self, view: Arc<dyn View>) {
        let told = self.fs.publish(&TablePath::root(), view).unwrap();
        assert!(self.session.notify(told).wait(Duration::from_secs(10)), "the kernel was not told in time");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The temporary directory can only be removed once nothing is mounted on it.
        let _ = self.session.unmount(true);
        let _ = self.session.wait(Some(Duration::from_secs(5)));
    }
}

fn can_mount() -> bool {
    let root = unsafe { libc::geteuid() } == 0;
    match (Path::new("/dev/fuse").exists(), root) {
        (true, true) => true,
        (false, _) => {
            skipped("no /dev/fuse");
            false
        }
        (true, false) => {
            skipped("mounting needs root");
            false
        }
    }
}

fn mount_with(table: &Arc<DoubleTable>, options: &MountOptions) -> Option<Mount> {
    if !can_mount() {
        return None;
    }
    let fs = TableFs::single(table.clone(), Arc::new(DoubleHost), FsOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let session = Session::mount(fs.clone(), dir.path(), options).unwrap();
    Some(Mount { session, fs, dir })
}

fn mount(table: &Arc<DoubleTable>) -> Option<Mount> {
    mount_with(table, &MountOptions::default())
}

/// Both ways to serve files; where the kernel has no passthrough, once.
fn mounts_of_both_kinds(table: &Arc<DoubleTable>) -> Vec<Mount> {
    let served = MountOptions { passthrough: false, ..MountOptions::default() };
    let Some(first) = mount(table) else { return Vec::new() };
    if first.session.serving() != Serving::Passthrough {
        skipped("the kernel has no passthrough: files are served by the daemon alone");
        return vec![first];
    }
    let second = mount_with(table, &served).unwrap();
    assert!(matches!(second.session.serving(), Serving::Served(_)));
    vec![first, second]
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

fn small() -> Arc<DoubleTable> {
    DoubleTable::new(|c| {
        c.write("dt=1/h=1", "a", &Random(1).bytes(70_001));
        c.write("dt=1/h=1", "b", b"");
        c.write("dt=1/h=2", "c", b"ccc");
        c.write("dt=2/h=1", "d", b"d");
    })
}

/// The relative paths below a directory, with what stat says.
fn tree(root: &Path) -> BTreeMap<PathBuf, fs::Metadata> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let entry = entry.unwrap();
            let meta = fs::symlink_metadata(entry.path()).unwrap();
            assert_eq!(entry.file_type().unwrap(), meta.file_type());
            if meta.is_dir() {
                dirs.push(entry.path());
            }
            found.insert(entry.path().strip_prefix(root).unwrap().to_owned(), meta);
        }
    }
    found
}

/// The same files in a plain directory, which the kernel shows read-only.
struct Plain {
    dir: tempfile::TempDir,
}

impl Plain {
    fn new(table: &DoubleTable, files: impl Iterator<Item = PathBuf>) -> Plain {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let to = dir.path().join(&file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(table.base().join(&file), to).unwrap();
        }
        let path = c(dir.path());
        let bind =
            |flags| unsafe { libc::mount(path.as_ptr(), path.as_ptr(), std::ptr::null(), flags, std::ptr::null()) };
        assert_eq!(bind(libc::MS_BIND), 0);
        assert_eq!(bind(libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY), 0);
        Plain { dir }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        unsafe { libc::umount2(c(self.dir.path()).as_ptr(), libc::MNT_DETACH) };
    }
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// The errno of a system call's result.
fn errno(result: i64) -> i32 {
    if result >= 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap() }
}

/// The errno of an open, and the file closed again.
fn open_errno(path: &Path, flags: i32) -> i32 {
    let fd = unsafe { libc::open(c(path).as_ptr(), flags, 0o644) };
    let errno = errno(fd.into());
    if fd >= 0 {
        unsafe { libc::close(fd) };
    }
    errno
}

type Call = (&'static str, fn(&Path, &Path) -> i32);

/// Every call that could change something, and their neighbours that must not fail: with a directory and a file's path.
fn calls() -> Vec<Call> {
    fn on_fd(file: &Path, call: impl Fn(i32) -> i64) -> i32 {
        let opened = File::open(file).unwrap();
        errno(call(opened.as_raw_fd()))
    }
    const NOW: [libc::timespec; 2] =
        [libc::timespec { tv_sec: 1, tv_nsec: 0 }, libc::timespec { tv_sec: 1, tv_nsec: 0 }];
    vec![
        ("open O_RDONLY", |_, f| open_errno(f, libc::O_RDONLY)),
        ("open O_RDWR", |_, f| open_errno(f, libc::O_RDWR)),
        ("open O_WRONLY", |_, f| open_errno(f, libc::O_WRONLY)),
        ("open O_WRONLY|O_APPEND", |_, f| open_errno(f, libc::O_WRONLY | libc::O_APPEND)),
        ("open O_RDONLY|O_TRUNC", |_, f| open_errno(f, libc::O_RDONLY | libc::O_TRUNC)),
        ("open O_WRONLY|O_TRUNC", |_, f| open_errno(f, libc::O_WRONLY | libc::O_TRUNC)),
        ("open O_CREAT of a new name", |d, _| open_errno(&d.join("new"), libc::O_CREAT | libc::O_WRONLY)),
        ("open O_CREAT of an old name", |_, f| open_errno(f, libc::O_CREAT | libc::O_RDONLY)),
        ("open O_CREAT|O_EXCL of an old name", |_, f| open_errno(f, libc::O_CREAT | libc::O_EXCL | libc::O_RDONLY)),
        ("open O_TMPFILE", |d, _| open_errno(d, libc::O_TMPFILE | libc::O_RDWR)),
        ("open a directory O_RDWR", |d, _| open_errno(d, libc::O_RDWR)),
        ("open a file O_DIRECTORY", |_, f| open_errno(f, libc::O_DIRECTORY)),
        ("open a missing name", |d, _| open_errno(&d.join("missing"), libc::O_RDONLY)),
        ("open below a file", |_, f| open_errno(&f.join("x"), libc::O_RDONLY)),
        ("open a long name", |d, _| open_errno(&d.join("n".repeat(256)), libc::O_RDONLY)),
        ("open O_NOFOLLOW", |_, f| open_errno(f, libc::O_NOFOLLOW)),
        ("open O_DIRECT", |_, f| open_errno(f, libc::O_DIRECT)),
        ("mkdir", |d, _| unsafe { errno(libc::mkdir(c(&d.join("new")).as_ptr(), 0o755).into()) }),
        ("mkdir of an old name", |_, f| unsafe { errno(libc::mkdir(c(f).as_ptr(), 0o755).into()) }),
        ("rmdir", |d, _| unsafe { errno(libc::rmdir(c(d).as_ptr()).into()) }),
        ("rmdir of a file", |_, f| unsafe { errno(libc::rmdir(c(f).as_ptr()).into()) }),
        ("unlink", |_, f| unsafe { errno(libc::unlink(c(f).as_ptr()).into()) }),
        ("unlink of a directory", |d, _| unsafe { errno(libc::unlink(c(d).as_ptr()).into()) }),
        ("unlink of a missing name", |d, _| unsafe { errno(libc::unlink(c(&d.join("missing")).as_ptr()).into()) }),
        ("rename", |d, f| unsafe { errno(libc::rename(c(f).as_ptr(), c(&d.join("new")).as_ptr()).into()) }),
        ("rename of a directory", |d, _| unsafe {
            errno(libc::rename(c(d).as_ptr(), c(&d.join("new")).as_ptr()).into())
        }),
        ("link", |d, f| unsafe { errno(libc::link(c(f).as_ptr(), c(&d.join("new")).as_ptr()).into()) }),
        ("symlink", |d, f| unsafe { errno(libc::symlink(c(f).as_ptr(), c(&d.join("new")).as_ptr()).into()) }),
        ("mknod of a pipe", |d, _| unsafe { errno(libc::mkfifo(c(&d.join("new")).as_ptr(), 0o644).into()) }),
        ("mknod of a file", |d, _| unsafe {
            errno(libc::mknod(c(&d.join("new")).as_ptr(), libc::S_IFREG | 0o644, 0).into())
        }),
        ("chmod", |_, f| unsafe { errno(libc::chmod(c(f).as_ptr(), 0o600).into()) }),
        ("chmod of a directory", |d, _| unsafe { errno(libc::chmod(c(d).as_ptr(), 0o700).into()) }),
        ("chown", |_, f| unsafe { errno(libc::chown(c(f).as_ptr(), 1, 1).into()) }),
        ("lchown", |_, f| unsafe { errno(libc::lchown(c(f).as_ptr(), 1, 1).into()) }),
        ("utimensat", |_, f| unsafe { errno(libc::utimensat(libc::AT_FDCWD, c(f).as_ptr(), NOW.as_ptr(), 0).into()) }),
        ("truncate", |_, f| unsafe { errno(libc::truncate(c(f).as_ptr(), 1).into()) }),
        ("setxattr", |_, f| unsafe {
            errno(libc::setxattr(c(f).as_ptr(), c"user.x".as_ptr(), b"v".as_ptr().cast(), 1, 0).into())
        }),
        ("removexattr", |_, f| unsafe { errno(libc::removexattr(c(f).as_ptr(), c"user.x".as_ptr()).into()) }),
        ("getxattr of a missing attribute", |_, f| unsafe {
            errno(libc::getxattr(c(f).as_ptr(), c"user.x".as_ptr(), std::ptr::null_mut(), 0) as i64)
        }),
        ("access W_OK", |_, f| unsafe { errno(libc::access(c(f).as_ptr(), libc::W_OK).into()) }),
        ("access W_OK of a directory", |d, _| unsafe { errno(libc::access(c(d).as_ptr(), libc::W_OK).into()) }),
        ("access R_OK", |_, f| unsafe { errno(libc::access(c(f).as_ptr(), libc::R_OK).into()) }),
        ("access X_OK", |_, f| unsafe { errno(libc::access(c(f).as_ptr(), libc::X_OK).into()) }),
        ("fchmod", |_, f| on_fd(f, |fd| unsafe { libc::fchmod(fd, 0o600).into() })),
        ("fchown", |_, f| on_fd(f, |fd| unsafe { libc::fchown(fd, 1, 1).into() })),
        ("futimens", |_, f| on_fd(f, |fd| unsafe { libc::futimens(fd, NOW.as_ptr()).into() })),
        ("ftruncate", |_, f| on_fd(f, |fd| unsafe { libc::ftruncate(fd, 1).into() })),
        ("fallocate", |_, f| on_fd(f, |fd| unsafe { libc::fallocate(fd, 0, 0, 1).into() })),
        ("write", |_, f| on_fd(f, |fd| unsafe { libc::write(fd, b"x".as_ptr().cast(), 1) as i64 })),
        ("fsetxattr", |_, f| {
            on_fd(f, |fd| unsafe { libc::fsetxattr(fd, c"user.x".as_ptr(), b"v".as_ptr().cast(), 1, 0).into() })
        }),
        ("fsync", |_, f| on_fd(f, |fd| unsafe { libc::fsync(fd).into() })),
        ("fdatasync of a directory", |d, _| on_fd(d, |fd| unsafe { libc::fdatasync(fd).into() })),
        ("flock", |_, f| on_fd(f, |fd| unsafe { libc::flock(fd, libc::LOCK_SH).into() })),
        ("read of a directory", |d, _| {
            on_fd(d, |fd| unsafe { libc::read(fd, [0u8; 8].as_mut_ptr().cast(), 8) as i64 })
        }),
        ("mmap shared for writing", |_, f| {
            on_fd(f, |fd| unsafe {
                let at = libc::mmap(std::ptr::null_mut(), 1, libc::PROT_WRITE, libc::MAP_SHARED, fd, 0);
                if at == libc::MAP_FAILED { -1 } else { 0 }
            })
        }),
        ("readlink of a file", |_, f| unsafe {
            errno(libc::readlink(c(f).as_ptr(), [0i8; 8].as_mut_ptr().cast(), 8) as i64)
        }),
        ("lseek to a hole", |_, f| on_fd(f, |fd| unsafe { libc::lseek(fd, 0, libc::SEEK_HOLE) })),
        ("lseek beyond the end for data", |_, f| on_fd(f, |fd| unsafe { libc::lseek(fd, 1 << 40, libc::SEEK_DATA) })),
    ]
}

#[test]
fn it_looks_like_a_plain_read_only_directory() {
    let table = small();
    for mount in mounts_of_both_kinds(&table) {
        let ours = tree(mount.at());
        let plain = Plain::new(&table, ours.iter().filter(|(_, m)| m.is_file()).map(|(p, _)| p.clone()));
        let theirs = tree(plain.dir.path());
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        for (path, our) in &ours {
            let their = &theirs[path];
            assert_eq!((our.mode(), our.uid(), our.gid()), (their.mode(), their.uid(), their.gid()), "{path:?}");
            if our.is_file() {
                assert_eq!((our.len(), our.nlink(), our.blksize()), (their.len(), 1, their.blksize()), "{path:?}");
                assert_eq!(our.blocks(), our.len().div_ceil(512));
                assert_eq!(our.mtime(), commit_ms(1) / 1000);
                assert_eq!(fs::read(mount.join(path)).unwrap(), fs::read(plain.dir.path().join(path)).unwrap());
            }
        }
        let inodes: BTreeSet<u64> = ours.values().map(|m| m.ino()).collect();
        assert_eq!(inodes.len(), ours.len());
        let (dir, file) = ("dt=1/h=1", format!("dt=1/h=1/{}", name("a", 1)));
        for (what, call) in calls() {
            let our = call(&mount.join(dir), &mount.join(&file));
            let their = call(&plain.dir.path().join(dir), &plain.dir.path().join(&file));
            assert_eq!(our, their, "{what}: errno of the mount, and of a plain directory");
        }
    }
}

#[test]
fn the_daemon_itself_refuses_writes_as_well() {
    let table = small();
    let options = MountOptions { read_only: false, ..MountOptions::default() };
    let Some(mount) = mount_with(&table, &options) else { return };
    let before = tree(mount.at()).into_iter().map(|(p, m)| (p, m.len(), m.ino(), m.mode())).collect::<Vec<_>>();
    let file = format!("dt=1/h=1/{}", name("a", 1));
    let plain = Plain::new(&table, [PathBuf::from(&file)].into_iter());
    let mut refused = 0;
    for (what, call) in calls() {
        let our = call(&mount.join("dt=1/h=1"), &mount.join(&file));
        let their = call(&plain.dir.path().join("dt=1/h=1"), &plain.dir.path().join(&file));
        if their == libc::EROFS {
            // A file system that could be written to says first that a name is missing, taken or of the wrong kind.
            let earlier = [libc::ENOENT, libc::EEXIST, libc::EISDIR, libc::ENOTDIR, libc::EOPNOTSUPP, libc::EINVAL];
            // access(2) goes by the mode and root may all: it is no promise.
            assert!(our == libc::EROFS || earlier.contains(&our) || what.starts_with("access"), "{what}: {our}");
            refused += i32::from(our == libc::EROFS);
        } else {
            assert_eq!(our, their, "{what}");
        }
    }
    assert!(refused >= 18, "{refused}");
    let after = tree(mount.at()).into_iter().map(|(p, m)| (p, m.len(), m.ino(), m.mode())).collect::<Vec<_>>();
    assert_eq!(before, after);
    let events = hudifs::telemetry::event::recent();
    let told = events.iter().find(|e| e.code == hudifs::telemetry::EventCode::WriteRefused).unwrap();
    assert!(told.hint.as_deref().unwrap().contains("hudifs upsert FILE --table /"), "{:?}", told.hint);
}

#[test]
fn every_way_to_read_gives_the_bytes_of_the_source() {
    let len = 3 * 1024 * 1024 + 777;
    let bytes = Random(7).bytes(len);
    let table = DoubleTable::new(|c| c.write("p", "a", &bytes));
    for mount in mounts_of_both_kinds(&table) {
        let path = mount.join("p").join(name("a", 1));
        let seed = Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut file = File::open(&path).unwrap();
        let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        let map = Map::new(&file, len);
        for _ in 0..400 {
            let at = random.below(len as u64 + 5000) as usize;
            let want = random.below(300_000) as usize;
            let expected = &bytes[at.min(len)..(at + want).min(len)];
            let mut got = vec![0; want];
            let got = match random.below(6) {
                0 => read_fully(|buf, done| file.read_at(buf, (at + done) as u64), &mut got),
                1 => {
                    file.seek(SeekFrom::Start(at as u64)).unwrap();
                    read_fully(|buf, _| file.read(buf), &mut got)
                }
                2 => map.bytes()[at.min(len)..(at + want).min(len)].to_vec(),
                3 => through_pipe(&file, at, want),
                4 => through_sendfile(&file, at, want),
                _ => {
                    let (at, want) = (at & !4095, (want & !4095).max(4096));
                    let expected = &bytes[at.min(len)..(at + want).min(len)];
                    assert_eq!(read_direct(&direct, at, want), expected, "O_DIRECT {want} at {at}");
                    expected_for_loop(expected, at, &bytes, len)
                }
            };
            if got.len() != expected.len() && got.is_empty() {
                continue;
            }
            assert!(got == expected, "{want} bytes at {at}");
        }
        let copy = mount_copy(&path);
        assert!(copy == bytes, "cp");
        let mut to = tempfile::tempfile().unwrap();
        std::io::copy(&mut File::open(&path).unwrap(), &mut to).unwrap();
        to.seek(SeekFrom::Start(0)).unwrap();
        let mut copied = Vec::new();
        to.read_to_end(&mut copied).unwrap();
        assert!(copied == bytes, "copy_file_range or what replaces it");
    }
}

/// O_DIRECT compares by itself; the loop has nothing to compare.
fn expected_for_loop(_: &[u8], _: usize, _: &[u8], _: usize) -> Vec<u8> {
    Vec::new()
}

fn read_fully(mut read: impl FnMut(&mut [u8], usize) -> std::io::Result<usize>, buf: &mut [u8]) -> Vec<u8> {
    let mut done = 0;
    while done < buf.len() {
        match read(&mut buf[done..], done).unwrap() {
            0 => break,
            n => done += n,
        }
    }
    buf[..done].to_vec()
}

fn read_direct(file: &File, at: usize, want: usize) -> Vec<u8> {
    let layout = std::alloc::Layout::from_size_align(want, 4096).unwrap();
    let buf = unsafe { std::slice::from_raw_parts_mut(std::alloc::alloc_zeroed(layout), want) };
    let got = read_fully(|b, done| if done % 4096 == 0 { file.read_at(b, (at + done) as u64) } else { Ok(0) }, buf);
    unsafe { std::alloc::dealloc(buf.as_mut_ptr(), layout) };
    got
}

fn through_pipe(file: &File, at: usize, want: usize) -> Vec<u8> {
    let (mut from, to) = std::io::pipe().unwrap();
    let mut got = Vec::new();
    let mut offset = at as i64;
    while got.len() < want {
        let room = (want - got.len()).min(65536);
        let n = unsafe { libc::splice(file.as_raw_fd(), &mut offset, to.as_raw_fd(), std::ptr::null_mut(), room, 0) };
        assert!(n >= 0, "{}", std::io::Error::last_os_error());
        if n == 0 {
            break;
        }
        let start = got.len();
        got.resize(start + n as usize, 0);
        from.read_exact(&mut got[start..]).unwrap();
    }
    got
}

fn through_sendfile(file: &File, at: usize, want: usize) -> Vec<u8> {
    let mut to = tempfile::tempfile().unwrap();
    let mut offset = at as i64;
    let mut left = want;
    while left > 0 {
        let n = unsafe { libc::sendfile(to.as_raw_fd(), file.as_raw_fd(), &mut offset, left) };
        assert!(n >= 0, "{}", std::io::Error::last_os_error());
        if n == 0 {
            break;
        }
        left -= n as usize;
    }
    let mut got = Vec::new();
    to.seek(SeekFrom::Start(0)).unwrap();
    to.read_to_end(&mut got).unwrap();
    got
}

fn mount_copy(path: &Path) -> Vec<u8> {
    let to = tempfile::tempdir().unwrap();
    let target = to.path().join("copy");
    let status = std::process::Command::new("cp").args(["-p", "--"]).arg(path).arg(&target).status().unwrap();
    assert!(status.success());
    fs::read(target).unwrap()
}

struct Map {
    at: *mut libc::c_void,
    len: usize,
}

impl Map {
    fn new(file: &File, len: usize) -> Map {
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Map { at, len }
    }

    fn bytes(&self) -> &[u8] {
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.len) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.at, self.len) };
    }
}

#[test]
fn sixty_four_threads_read_list_and_stat_while_commits_come() {
    let table = DoubleTable::new(|c| {
        for p in 0..8 {
            (0..8).for_each(|n| c.write(&format!("p{p}"), &format!("f{n}"), &Random(p * 8 + n).bytes(9000)));
        }
    });
    for mount in mounts_of_both_kinds(&table) {
        let deadline = Instant::now() + Duration::from_secs(2);
        std::thread::scope(|scope| {
            for thread in 0..64 {
                let mount = &mount;
                scope.spawn(move || {
                    let mut random = Random(thread);
                    while Instant::now() < deadline {
                        let p = random.below(8);
                        let dir = mount.join(format!("p{p}"));
                        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
                        assert_eq!(names.len(), 8);
                        let file = &names[random.below(8) as usize];
                        let path = dir.join(file);
                        let n: u64 = file.to_str().unwrap()[1..2].parse().unwrap();
                        let expected = Random(p * 8 + n).bytes(9000);
                        assert_eq!(fs::metadata(&path).unwrap().len(), 9000);
                        assert!(fs::read(&path).unwrap() == expected, "{path:?}");
                    }
                });
            }
            while Instant::now() < deadline {
                let view = table.commit(|c| {
                    for p in 0..8 {
                        c.write(&format!("p{p}"), "f3", &Random(p * 8 + 3).bytes(9000));
                    }
                });
                mount.publish(view);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    }
}

struct DirStream(*mut libc::DIR);

impl DirStream {
    fn open(path: &Path) -> DirStream {
        let dir = unsafe { libc::opendir(c(path).as_ptr()) };
        assert!(!dir.is_null());
        DirStream(dir)
    }

    fn next(&mut self) -> Option<String> {
        loop {
            let entry = unsafe { libc::readdir(self.0) };
            if entry.is_null() {
                return None;
            }
            let name = unsafe { std::ffi::CStr::from_ptr((*entry).d_name.as_ptr()) }.to_str().unwrap().to_owned();
            if !name.starts_with('.') {
                return Some(name);
            }
        }
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

impl Drop for DirStream {
    fn drop(&mut self) {
        unsafe { libc::closedir(self.0) };
    }
}

#[test]
fn a_directory_stream_shows_one_snapshot() {
    let table = DoubleTable::new(|c| (0..4000).for_each(|n| c.write("p", &format!("file-group-{n:05}"), b"1")));
    let Some(mount) = mount(&table) else { return };
    let dir = mount.join("p");
    let mut expected: Vec<String> = (0..4000).map(|n| name(&format!("file-group-{n:05}"), 1)).collect();
    for round in 2..6 {
        let mut stream = DirStream::open(&dir);
        let mut seen: Vec<String> = (0..10).map(|_| stream.next().unwrap()).collect();
        let place = unsafe { libc::telldir(stream.0) };
        mount.publish(table.commit(|c| {
            (0..4000).step_by(3).for_each(|n| c.write("p", &format!("file-group-{n:05}"), b"22"));
            c.write("p", &format!("file-group-00000-{round}"), b"333");
        }));
        seen.extend(stream.rest());
        assert_eq!(seen.len(), expected.len());
        assert!(seen == expected, "no gap, no duplicate, no mix");
        // Back to where it was, and to the beginning, which is where a stream sees the present.
        unsafe { libc::seekdir(stream.0, place) };
        assert!(stream.rest() == expected[10..], "the old listing from the middle on");
        unsafe { libc::rewinddir(stream.0) };
        let now = stream.rest();
        assert_eq!(now.len(), expected.len() + 1);
        let other = DirStream::open(&dir).rest();
        assert!(now == other, "a new stream sees the commit");
        for old in expected.iter().step_by(701) {
            assert_eq!(
                fs::read(dir.join(old)).map(|b| b.len() as u64).unwrap(),
                fs::metadata(dir.join(old)).unwrap().len()
            );
        }
        expected = now;
    }
}

#[test]
fn a_commit_is_visible_at_once_everywhere() {
    let table = small();
    let Some(mount) = mount(&table) else { return };
    let dir = mount.join("dt=1/h=1");
    let list = |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect::<BTreeSet<_>>();
    for commit in 2..30 {
        let new = dir.join(name("a", commit));
        let partition = mount.join(format!("dt=3/h={commit}"));
        // The kernel learns that neither exists.
        assert!(!new.exists() && !partition.exists());
        let old = list(&dir);
        let old_time = fs::metadata(&dir).unwrap().mtime();
        mount.publish(table.commit(|c| {
            c.write("dt=1/h=1", "a", format!("{commit}").as_bytes());
            c.write(&format!("dt=3/h={commit}"), "x", b"1");
        }));
        assert_eq!(fs::read_to_string(&new).unwrap(), format!("{commit}"));
        let now = list(&dir);
        assert!(now.contains(new.file_name().unwrap()) && now.len() == old.len());
        assert_eq!(list(&partition).len(), 1);
        assert_eq!(list(&mount.join("dt=3")).len(), commit - 1);
        assert!(fs::metadata(&dir).unwrap().mtime() > old_time);
        let latest = fs::read_link(mount.join(".hudifs/read_optimized/latest")).unwrap();
        assert_eq!(latest.to_str().unwrap(), instant(commit).as_str());
        assert_eq!(list(&mount.join(".hudifs/read_optimized/latest/dt=1/h=1")), now);
    }
}

#[test]
fn who_lists_after_a_commit_never_gets_what_others_were_just_reading() {
    let table = DoubleTable::new(|c| (0..300).for_each(|n| c.write("p", &format!("file-group-{n:03}"), b"1")));
    let Some(mount) = mount(&table) else { return };
    let dir = mount.join("p");
    let list = || {
        let names = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.collect::<BTreeSet<String>>()
    };
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let names = list();
                    assert_eq!(names.len(), 300, "one generation, whole");
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for commit in 2..200 {
                mount.publish(table.commit(|c| c.write("p", &format!("file-group-{:03}", commit % 300), b"2")));
                let new = name(&format!("file-group-{:03}", commit % 300), commit);
                assert!(list().contains(&new), "commit {commit} is not listed");
            }
        }));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        result.unwrap();
    });
}

#[test]
fn open_files_and_mappings_outlive_their_names() {
    let table = small();
    for (round, mount) in mounts_of_both_kinds(&table).into_iter().enumerate() {
        use hudifs::fs::Source;
        mount.publish(table.current());
        let file = mount.join("dt=1/h=2").join(name("c", 1 + round * 2));
        let open = File::open(&file).unwrap();
        let map = Map::new(&open, 3);
        let second = File::open(&file).unwrap();
        drop(second);
        mount.publish(table.commit(|c| c.write("dt=1/h=2", "c", b"new")));
        mount.publish(table.commit(|c| {
            c.clean("dt=1/h=2", &name("c", 1 + round * 2));
            c.write("dt=1/h=2", "c", b"ccc");
        }));
        let mut bytes = [0; 3];
        open.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((&bytes, map.bytes()), (b"ccc", b"ccc".as_slice()));
        drop(open);
        assert_eq!(map.bytes(), b"ccc");
    }
}

#[test]
fn a_file_that_was_taken_away_is_stale_not_empty() {
    let table = small();
    let Some(mount) = mount(&table) else { return };
    let names: Vec<PathBuf> = fs::read_dir(mount.join("dt=1/h=2")).unwrap().map(|e| e.unwrap().path()).collect();
    fs::remove_file(table.base().join("dt=1/h=2").join(name("c", 1))).unwrap();
    assert_eq!(File::open(&names[0]).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    assert_eq!(fs::read(mount.join("dt=2/h=1").join(name("d", 1))).unwrap(), b"d");
}

#[test]
fn inode_numbers_and_times_survive_a_remount() {
    let table = small();
    let look = || {
        let mount = mount(&table)?;
        let all = tree(mount.at());
        Some(all.into_iter().map(|(p, m)| (p, m.ino(), m.len(), m.mtime(), m.mtime_nsec())).collect::<Vec<_>>())
    };
    let Some(first) = look() else { return };
    assert!(first.len() > 4);
    assert_eq!(look().unwrap(), first);
}

#[test]
fn hidden_files_of_the_mount_are_read_whole() {
    let table = small();
    let Some(mount) = mount(&table) else { return };
    let entries: Vec<_> = fs::read_dir(mount.at()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(entries.iter().all(|n| n != ".hudifs"), "{entries:?}");
    let status = mount.join(".hudifs/status.json");
    let content = fs::read_to_string(&status).unwrap();
    assert_eq!(content, "Some(\"\") Status\n");
    assert_eq!(fs::metadata(&status).unwrap().len() as usize, content.len());
    let cat = std::process::Command::new("cat").arg(&status).output().unwrap();
    assert_eq!(cat.stdout, content.as_bytes());
    let listed: BTreeMap<_, _> = tree(&mount.join(".hudifs")).into_iter().map(|(p, m)| (p, m.ino())).collect();
    for path in ["status.json", "metrics", "timeline.json", "read_optimized", "read_optimized/latest", "control.sock"] {
        let listed = listed.get(Path::new(path)).unwrap_or_else(|| panic!("{path} is not listed"));
        assert_eq!(fs::symlink_metadata(mount.join(".hudifs").join(path)).unwrap().ino(), *listed, "{path}");
    }
    assert_eq!(fs::read_link(mount.join(".hudifs/control.sock")).unwrap(), Path::new("/run/hudifs/double.sock"));
}

#[test]
fn extended_attributes_reach_programs() {
    let table = small();
    let Some(mount) = mount(&table) else { return };
    let file = c(&mount.join("dt=1/h=1").join(name("a", 1)));
    let mut value = [0u8; 256];
    let get = |name: &std::ffi::CStr, value: &mut [u8]| unsafe {
        libc::getxattr(file.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len())
    };
    let n = get(c"user.hudi.commit_time", &mut value);
    assert_eq!(&value[..n as usize], instant(1).as_str().as_bytes());
    assert_eq!(get(c"user.hudi.commit_time", &mut []), n);
    assert_eq!((get(c"user.hudi.commit_time", &mut value[..3]), errno(-1)), (-1, libc::ERANGE));
    assert_eq!((get(c"security.selinux", &mut value), errno(-1)), (-1, libc::EOPNOTSUPP));
    assert_eq!((get(c"user.other", &mut value), errno(-1)), (-1, libc::ENODATA));
    let n = unsafe { libc::listxattr(file.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    let names = std::str::from_utf8(&value[..n as usize]).unwrap();
    assert_eq!(
        names.split_terminator('\0').collect::<Vec<_>>(),
        ["user.hudi.commit_time", "user.hudi.file_id", "user.hudi.partition", "user.hudi.source"]
    );
}

#[test]
fn df_tells_the_view() {
    let table = small();
    let Some(mount) = mount(&table) else { return };
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        assert_eq!(unsafe { libc::statvfs(c(mount.at()).as_ptr(), &mut stat) }, 0);
        let used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
        if used == 70_005u64.div_ceil(4096) * 4096 && stat.f_files - stat.f_ffree == 4 {
            break;
        }
        assert!(Instant::now() < deadline, "{used} bytes, {} files", stat.f_files - stat.f_ffree);
    }
    assert!(stat.f_bavail > 0 && stat.f_favail > 0 && stat.f_namemax == 255);
}

#[test]
fn a_panic_answers_one_call_and_ends_nothing() {
    if !can_mount() {
        return;
    }
    let fs = TableFs::warehouse(Arc::new(DoubleHost), FsOptions::default());
    let _ = fs.add_table(&TablePath::parse("panics").unwrap(), small()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let session = Session::mount(fs, dir.path(), &MountOptions::default()).unwrap();
    let bad = dir.path().join("panics/.hudifs/metrics");
    for _ in 0..3 {
        assert_eq!(fs::read(&bad).unwrap_err().raw_os_error(), Some(libc::EIO));
        assert!(fs::read(dir.path().join("panics/.hudifs/status.json")).is_ok());
    }
    assert_eq!(fs::read_dir(dir.path().join("panics")).unwrap().count(), 2);
    session.unmount(false).unwrap();
    assert!(session.wait(Some(Duration::from_secs(5))).unwrap().is_ok());
}

#[test]
fn a_mount_in_use_is_not_unmounted_unless_lazily() {
    let table = small();
    let Some(mount) = mount(&table) else { return };
    let open = File::open(mount.join("dt=1/h=2").join(name("c", 1))).unwrap();
    let error = mount.session.unmount(false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.hint().is_some());
    mount.session.unmount(true).unwrap();
    assert_eq!(fs::read_dir(mount.at()).unwrap().count(), 0);
    let mut bytes = [0; 3];
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"ccc");
    assert!(mount.session.wait(Some(Duration::from_millis(50))).is_none(), "still in use");
    drop(open);
    assert!(mount.session.wait(Some(Duration::from_secs(5))).is_some());
}

#[test]
fn unfit_mount_points_are_refused_by_name() {
    if !can_mount() {
        return;
    }
    let table = small();
    let fs = TableFs::single(table.clone(), Arc::new(DoubleHost), FsOptions::default()).unwrap();
    let refuse = |at: &Path, says: &str| {
        let error = Session::mount(fs.clone(), at, &MountOptions::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    let dir = tempfile::tempdir().unwrap();
    refuse(&dir.path().join("missing"), "missing");
    let file = dir.path().join("file");
    File::create(&file).unwrap().write_all(b"x").unwrap();
    refuse(&file, "not a directory");
    let inside = dir.path().join("table/dt=1/deep");
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir(dir.path().join("table/.hoodie")).unwrap();
    refuse(&inside, "inside the Hudi table");
    refuse(&dir.path().join("table"), "inside the Hudi table");
    refuse(table.base().parent().unwrap(), "would hide the table");
}

/// Not a test of its own: the process that `a_dead_mount_is_told_and_can_be_replaced` kills.
#[test]
#[ignore = "started by another test"]
fn child_that_mounts() {
    let Some(dir) = std::env::var_os("HUDIFS_TEST_MOUNT_POINT") else { return };
    let fs = TableFs::single(small(), Arc::new(DoubleHost), FsOptions::default()).unwrap();
    let auto = std::env::var_os("HUDIFS_TEST_AUTO_UNMOUNT").is_some();
    let options = MountOptions { auto_unmount: auto, allow_other: auto, ..MountOptions::default() };
    let _session = Session::mount(fs, Path::new(&dir), &options).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

/// A process that has mounted.
fn child_with_mount(dir: &Path, auto_unmount: bool) -> std::process::Child {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "mount::child_that_mounts", "--ignored"]).env("HUDIFS_TEST_MOUNT_POINT", dir);
    if auto_unmount {
        command.env("HUDIFS_TEST_AUTO_UNMOUNT", "1");
    }
    let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !dir.join("dt=1").exists() {
        assert!(Instant::now() < deadline, "the child did not mount");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn a_mount_with_auto_unmount_ends_with_its_process() {
    if !can_mount() {
        return;
    }
    if std::process::Command::new("fusermount3").arg("-V").output().is_err() {
        return skipped("no fusermount3: install fuse3");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = child_with_mount(dir.path(), true);
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !fs::read_dir(dir.path()).is_ok_and(|d| d.count() == 0) {
        assert!(Instant::now() < deadline, "the mount stays behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Not a test of its own: what `users_without_rights_mount_through_the_helper` runs as another user.
#[test]
#[ignore = "started by another test"]
fn child_without_rights() {
    let Some(dir) = std::env::var_os("HUDIFS_TEST_MOUNT_POINT").map(PathBuf::from) else { return };
    let table = small();
    let fs = TableFs::single(table.clone(), Arc::new(DoubleHost), FsOptions::default()).unwrap();
    let session = Session::mount(fs.clone(), &dir, &MountOptions::default()).unwrap();
    assert!(matches!(session.serving(), Serving::Served(why) if why.contains("root")));
    for file in ["dt=1/h=1/", "dt=1/h=2/", "dt=2/h=1/"] {
        for entry in fs::read_dir(dir.join(file)).unwrap() {
            let path = entry.unwrap().path();
            let source = table.base().join(path.strip_prefix(&dir).unwrap());
            assert!(fs::read(&path).unwrap() == fs::read(source).unwrap(), "{path:?}");
        }
    }
    let told = fs.publish(&TablePath::root(), table.commit(|c| c.write("dt=1/h=2", "c", b"new"))).unwrap();
    assert!(session.notify(told).wait(Duration::from_secs(10)));
    assert_eq!(fs::read(dir.join("dt=1/h=2").join(name("c", 2))).unwrap(), b"new");
    let busy = File::open(dir.join("dt=1/h=2").join(name("c", 2))).unwrap();
    assert!(session.unmount(false).is_err());
    drop(busy);
    // The kernel gives a file back a moment after it was closed.
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = session.unmount(false) {
        assert!(Instant::now() < deadline, "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(session.wait(Some(Duration::from_secs(5))).is_some());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    println!("all was well");
}

#[test]
fn users_without_rights_mount_through_the_helper() {
    use std::os::unix::process::CommandExt;
    if !can_mount() {
        return;
    }
    if std::process::Command::new("fusermount3").arg("-V").output().is_err() {
        return skipped("no fusermount3: install fuse3");
    }
    if fs::metadata("/dev/fuse").unwrap().mode() & 0o006 != 0o006 {
        return skipped("other users may not open /dev/fuse, whose usual mode is 0666");
    }
    let dir = tempfile::tempdir().unwrap();
    const NOBODY: u32 = 65534;
    std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mount::child_without_rights", "--ignored", "--nocapture"])
        .env("HUDIFS_TEST_MOUNT_POINT", dir.path())
        .env("HOME", "/nonexistent")
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .output();
    match child {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            skipped("another user may not run the test program where it lies");
        }
        child => {
            let child = child.unwrap();
            let text = [child.stdout, child.stderr].map(|o| String::from_utf8_lossy(&o).into_owned()).join("\n");
            assert!(child.status.success() && text.contains("all was well"), "{text}");
        }
    }
}

#[test]
fn a_dead_mount_is_told_and_can_be_replaced() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = child_with_mount(dir.path(), false);
    child.kill().unwrap();
    child.wait().unwrap();
    // What the kernel has cached it still shows; whatever asks the daemon fails.
    assert_eq!(fs::metadata(dir.path().join("dt=2")).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    assert_eq!(open_errno(&dir.path().join("new"), libc::O_RDONLY), libc::ENOTCONN);
    let fs = TableFs::single(small(), Arc::new(DoubleHost), FsOptions::default()).unwrap();
    let error = Session::mount(fs.clone(), dir.path(), &MountOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert!(error.hint().unwrap().contains("--replace-stale"));
    let options = MountOptions { replace_stale: true, ..MountOptions::default() };
    let session_fs = fs.clone();
    let session = Session::mount(fs, dir.path(), &options).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    let again = Session::mount(session_fs, dir.path(), &options).err().unwrap();
    assert_eq!(again.kind(), ErrorKind::Conflict, "{again}");
    drop(session);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left mounted");
}
