//! What all requests of a session need: the tree, how files are served, and how a call becomes a reply.

use super::notify::Teller;
use super::walkers::Walkers;
use crate::error::Error;
use crate::fs::{Attr, Fault, Kind, OpenFile, TableFs, Wait};
use crate::telemetry::metric::{FUSE_DURATION, FUSE_ERRORS, FUSE_REQUESTS};
use crate::telemetry::{self, Event, EventCode, FuseOp};
use fuser::{BackingId, Errno, FileAttr, FileType, INodeNo, ReplyOpen};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How files are served, for status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// The kernel reads local files by itself.
    Passthrough,
    /// hudifs answers each read; the reason why the kernel does not read by itself.
    Served(String),
}

/// What all requests need.
pub struct Shared {
    pub fs: Arc<TableFs>,
    pub walkers: Walkers,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The way to the thread that tells the kernel; there once the session has begun.
    pub teller: OnceLock<Teller>,
    serving: Mutex<Serving>,
}

/// How one open inode is served; kept with the open file, so that it is the same for all its handles.
pub enum Mode {
    /// The kernel reads the file that this names.
    Passthrough(BackingId),
    /// The daemon answers reads.
    Served,
}

impl Shared {
    pub fn new(fs: Arc<TableFs>, mount_point: PathBuf, serving: Serving) -> Arc<Shared> {
        let (walkers, teller, serving) = (Walkers::default(), OnceLock::new(), Mutex::new(serving));
        Arc::new(Shared { fs, walkers, mount_point, teller, serving })
    }

    pub fn serving(&self) -> Serving {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_served(&self, why: impl Into<String>) {
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Serving::Served(why.into());
    }

    /// How an open file is served: decided by the first open of its inode.
    pub fn mode<'a>(&self, file: &'a OpenFile, reply: &ReplyOpen) -> &'a Mode {
        let decided = file.kernel.get_or_init(|| Box::new(self.decide(file, reply)));
        decided.downcast_ref().unwrap_or(&Mode::Served)
    }

    fn decide(&self, file: &OpenFile, reply: &ReplyOpen) -> Mode {
        let Some(local) = file.local_file() else { return Mode::Served };
        if self.serving() != Serving::Passthrough {
            return Mode::Served;
        }
        match reply.open_backing(local) {
            Ok(id) => Mode::Passthrough(id),
            Err(error) => {
                let message = format!("the kernel does not take a file for passthrough: {error}");
                let hint = match error.raw_os_error() {
                    Some(libc::EPERM) => "reading through the kernel needs root; files are served by hudifs instead",
                    Some(libc::ELOOP) => "the table lies on a stacked file system; files are served by hudifs instead",
                    _ => "files are served by hudifs instead",
                };
                Event::new(EventCode::PassthroughUnavailable, message.clone()).hint(hint).record();
                if error.raw_os_error() == Some(libc::EPERM) {
                    self.set_served(message);
                }
                Mode::Served
            }
        }
    }

    /// Runs a call; one that panics has failed with EIO.
    pub fn attempt<T>(op: FuseOp, call: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            let error = Error::internal(format!("a panic in {}: {text}", op.as_str()));
            Event::from_error(EventCode::Internal, &error)
                .hint("this is a mistake in hudifs: please report it")
                .record();
            Err(Fault::IO)
        })
    }
}

/// Runs a call where it need not wait, else on a worker; then replies. The reply moves with it.
pub fn answer<T: 'static, R: Send + 'static>(
    shared: &Arc<Shared>,
    op: FuseOp,
    mut reply: R,
    call: impl Fn(&TableFs, Wait, &mut R) -> Result<T, Fault> + Send + 'static,
    finish: impl FnOnce(&Shared, R, Result<T, Errno>) + Send + 'static,
) {
    let started = Instant::now();
    match Shared::attempt(op, || call(&shared.fs, Wait::No, &mut reply)) {
        Err(Fault::WouldBlock) => {
            let at = shared.clone();
            shared.fs.workers().run(move || {
                let result = Shared::attempt(op, || call(&at.fs, Wait::Yes, &mut reply));
                finish(&at, reply, done(op, started, result));
            });
        }
        result => finish(shared, reply, done(op, started, result)),
    }
}

/// Counts an answer, and turns a fault into an errno.
pub fn done<T>(op: FuseOp, started: Instant, result: Result<T, Fault>) -> Result<T, Errno> {
    FUSE_REQUESTS.inc(op);
    FUSE_DURATION.observe(op, started.elapsed());
    result.map_err(|fault| {
        let errno = match fault {
            Fault::Errno(errno) => errno,
            // Nothing waits any longer than with `Wait::Yes`.
            Fault::WouldBlock => libc::EIO,
        };
        let label = match errno {
            libc::ENOENT => telemetry::Errno::Enoent,
            libc::EIO => telemetry::Errno::Eio,
            libc::ESTALE => telemetry::Errno::Estale,
            libc::EROFS => telemetry::Errno::Erofs,
            libc::EACCES => telemetry::Errno::Eacces,
            _ => telemetry::Errno::Other,
        };
        FUSE_ERRORS.inc((op, label));
        Errno::from_i32(errno)
    })
}

/// The attributes as the library wants them.
pub fn file_attr(fs: &TableFs, attr: &Attr) -> FileAttr {
    let since = Duration::from_millis(u64::try_from(attr.mtime_ms).unwrap_or(0));
    let time: SystemTime = UNIX_EPOCH + since;
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks(),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: file_type(attr.kind),
        perm: attr.mode,
        nlink: attr.nlink,
        uid: fs.options().uid,
        gid: fs.options().gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// What a node is, as the library wants it.
pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Dir => FileType::Directory,
        Kind::File => FileType::RegularFile,
        Kind::Link => FileType::Symlink,
    }
}
