//! One callback a request: one call to the tree, one reply.
//!
//! A callback never waits for the store: it replies at once, or a worker takes the reply with it. A panic in a call is answered
//! with EIO and does not end the thread. Everything that would change the tree is refused here, in one way.

use super::reply::{ABSENT, Plain, Plus, reply_error, reply_open, reply_xattr};
use super::shared::{Serving, Shared, answer, done, file_attr};
use crate::fs::{Fault, Invalidation, Lookup, Wait};
use crate::telemetry::{Event, EventCode, FuseOp, metric};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

/// Requests in the background that the kernel may have under way, read-ahead above all.
const BACKGROUND_MAX: u16 = 64;

/// The callbacks.
pub struct Adapter {
    shared: Arc<Shared>,
    ttl: Duration,
    /// Stacked file systems that passthrough may reach through.
    stack_depth: u32,
    /// The kernel needs no answer to opendir.
    no_opendir: AtomicBool,
}

impl Adapter {
    pub fn new(shared: Arc<Shared>, stack_depth: u32) -> Adapter {
        let ttl = shared.fs.options().ttl;
        Adapter { shared, ttl, stack_depth, no_opendir: AtomicBool::new(false) }
    }

    fn negotiate(&self, config: &mut KernelConfig) {
        let wanted = InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_NO_OPENDIR_SUPPORT
            // A listing that arrives after its directory changed is then found out by the directory's time.
            | InitFlags::FUSE_AUTO_INVAL_DATA
            | InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_ASYNC_DIO;
        // Only what the kernel offers is asked for, so this cannot fail.
        let _ = config.add_capabilities(wanted & config.capabilities());
        self.no_opendir.store(config.capabilities().contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT), Relaxed);
        let _ = config.set_max_background(BACKGROUND_MAX);
        if self.shared.serving() != Serving::Passthrough {
            return;
        }
        if config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_err() {
            self.shared.set_served("the kernel does not offer passthrough (Linux 6.9 does)");
        } else if config.set_max_stack_depth(self.stack_depth).is_err() {
            self.shared.set_served("the kernel does not allow the stack depth that passthrough needs");
        }
    }

    /// The answer to everything that would change the tree.
    fn refuse(&self, req: &Request, what: &str) -> Errno {
        let message = format!("{what} is refused: the tree is read-only");
        let place = self.shared.mount_point.display();
        let hint = format!("write through the control socket: `hudifs upsert FILE --table {place}`; the mount follows");
        tracing::debug!(pid = req.pid(), uid = req.uid(), what, "write refused");
        Event::new(EventCode::WriteRefused, message).hint(hint).record();
        match done::<()>(FuseOp::Write, Instant::now(), Err(Fault::READ_ONLY)) {
            Err(errno) => errno,
            Ok(()) => Errno::EROFS,
        }
    }
}

/// Runs a function of `self` that needs nothing but the shared part, for replies that a worker sends.
macro_rules! with_ttl {
    ($self:ident) => {{
        let ttl = $self.ttl;
        move |keep: bool| if keep { ttl } else { Duration::ZERO }
    }};
}

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.negotiate(config);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let started = Instant::now();
        let forget = self.shared.walkers.looks_up(req.pid(), parent.0);
        if !forget.is_empty()
            && let Some(teller) = self.shared.teller.get()
        {
            // Only handed over: the thread that tells the kernel must not be this one, and nobody waits for it here.
            drop(teller.tell(Invalidation { inodes: forget, ..Invalidation::default() }));
        }
        let ttl = with_ttl!(self);
        let finish = move |shared: &Shared, reply: ReplyEntry, result: Result<Lookup, Errno>| match result {
            Ok(Lookup::Found { attr, keep }) => {
                let attr_ttl = ttl(attr.cacheable);
                reply.entry_with_ttls(&attr_ttl, &ttl(keep), &file_attr(&shared.fs, &attr), Generation(0));
            }
            // An entry with inode number 0 is an absence that the kernel may keep.
            Ok(Lookup::Absent { keep: true }) => {
                let mut attr = file_attr(&shared.fs, &ABSENT);
                attr.ino = INodeNo(0);
                reply.entry(&ttl(true), &attr, Generation(0));
            }
            Ok(Lookup::Absent { keep: false }) => reply.error(Errno::ENOENT),
            Err(errno) => reply.error(errno),
        };
        let shared = &self.shared;
        match Shared::attempt(FuseOp::Lookup, || shared.fs.lookup(parent.0, name, Wait::No)) {
            Err(Fault::WouldBlock) => {
                let (at, name) = (shared.clone(), name.to_owned());
                shared.fs.workers().run(move || {
                    let result = Shared::attempt(FuseOp::Lookup, || at.fs.lookup(parent.0, &name, Wait::Yes));
                    finish(&at, reply, done(FuseOp::Lookup, started, result));
                });
            }
            result => finish(shared, reply, done(FuseOp::Lookup, started, result)),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        // Nothing is replied; a panic must still not end the thread.
        let _ = Shared::attempt(FuseOp::Forget, || {
            self.shared.fs.forget(ino.0, nlookup);
            Ok(())
        });
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let ttl = with_ttl!(self);
        answer(
            &self.shared,
            FuseOp::Getattr,
            reply,
            move |fs, wait, _| fs.getattr(ino.0, wait),
            move |shared, reply, result| match result {
                Ok(attr) => reply.attr(&ttl(attr.cacheable), &file_attr(&shared.fs, &attr)),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let call = move |fs: &crate::fs::TableFs, _: Wait, _: &mut ReplyData| fs.readlink(ino.0);
        answer(&self.shared, FuseOp::Readlink, reply, call, |_, reply, result| match result {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        });
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY || flags.0 & libc::O_TRUNC != 0 {
            return reply.error(self.refuse(req, "open for writing"));
        }
        let started = Instant::now();
        let shared = &self.shared;
        match Shared::attempt(FuseOp::Open, || shared.fs.open(ino.0, Wait::No)) {
            Err(Fault::WouldBlock) => {
                let at = shared.clone();
                shared.fs.workers().run(move || {
                    let result = Shared::attempt(FuseOp::Open, || at.fs.open(ino.0, Wait::Yes));
                    match done(FuseOp::Open, started, result) {
                        Ok((handle, file)) => reply_open(&at, reply, handle, &file),
                        Err(errno) => reply.error(errno),
                    }
                });
            }
            result => match done(FuseOp::Open, started, result) {
                Ok((handle, file)) => reply_open(shared, reply, handle, &file),
                Err(errno) => reply.error(errno),
            },
        }
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let started = Instant::now();
        let file = match Shared::attempt(FuseOp::Read, || self.shared.fs.handle(fh.0)) {
            Ok(file) => file,
            Err(fault) => return reply_error(reply, done(FuseOp::Read, started, Err(fault))),
        };
        // A panic in the reader drops the reply, which answers EIO.
        let _ = Shared::attempt(FuseOp::Read, || {
            file.read(offset, size, move |read| match done(FuseOp::Read, started, read) {
                Ok(bytes) => {
                    metric::FUSE_READ_BYTES.add((), bytes.len() as u64);
                    reply.data(&bytes);
                }
                Err(errno) => reply.error(errno),
            });
            Ok(())
        });
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let call = move |fs: &crate::fs::TableFs, _: Wait, _: &mut ReplyEmpty| {
            fs.release(fh.0);
            Ok(())
        };
        answer(&self.shared, FuseOp::Release, reply, call, |_, reply, _| reply.ok());
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _lock_owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.no_opendir.load(Relaxed) {
            // From now on the kernel opens directories by itself, and keeps their listings.
            return reply.error(Errno::ENOSYS);
        }
        reply.opened(FileHandle(0), FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, reply: ReplyDirectory) {
        answer(
            &self.shared,
            FuseOp::Readdir,
            reply,
            move |fs, wait, reply| fs.readdir(ino.0, offset, false, wait, &mut Plain(reply)),
            |_, reply, result| match result {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn readdirplus(&self, req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        let ttl = self.ttl;
        // What goes on was asked for: the kernel has seen lookups in the directory.
        let (shared, pid) = (self.shared.clone(), req.pid());
        let files = move || offset != 0 || shared.walkers.lists(pid, ino.0);
        answer(
            &self.shared,
            FuseOp::Readdirplus,
            reply,
            move |fs, wait, reply| {
                fs.readdir(ino.0, offset, true, wait, &mut Plus { reply, fs, ttl, files: &files, sure: None })
            },
            |_, reply, result| match result {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn releasedir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        // It may wait a little for sums over all partitions, so it always goes to a worker.
        let call = move |fs: &crate::fs::TableFs, wait: Wait, _: &mut ReplyStatfs| match wait {
            Wait::No => Err(Fault::WouldBlock),
            Wait::Yes => fs.statfs(ino.0),
        };
        answer(&self.shared, FuseOp::Statfs, reply, call, |_, reply, result| match result {
            Ok(s) => {
                let free = s.free_bytes / 4096;
                let blocks = s.bytes.div_ceil(4096).saturating_add(free);
                let files = s.files.saturating_add(s.free_files);
                reply.statfs(blocks, free, free, files, s.free_files, 4096, 255, 4096);
            }
            Err(errno) => reply.error(errno),
        });
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let started = Instant::now();
        let shared = &self.shared;
        match Shared::attempt(FuseOp::Xattr, || shared.fs.getxattr(ino.0, name, Wait::No)) {
            Err(Fault::WouldBlock) => {
                let (at, name) = (shared.clone(), name.to_owned());
                shared.fs.workers().run(move || {
                    let result = Shared::attempt(FuseOp::Xattr, || at.fs.getxattr(ino.0, &name, Wait::Yes));
                    reply_xattr(reply, size, done(FuseOp::Xattr, started, result));
                });
            }
            result => reply_xattr(reply, size, done(FuseOp::Xattr, started, result)),
        }
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let call = move |fs: &crate::fs::TableFs, _: Wait, _: &mut ReplyXattr| fs.listxattr(ino.0);
        answer(&self.shared, FuseOp::Xattr, reply, call, move |_, reply, result| reply_xattr(reply, size, result));
    }

    fn access(&self, req: &Request, _ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        if mask.contains(AccessFlags::W_OK) {
            return reply.error(self.refuse(req, "access for writing"));
        }
        reply.ok();
    }

    fn ioctl(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn setattr(
        &self,
        req: &Request,
        _ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(self.refuse(req, "a change of attributes"));
    }

    fn mknod(&self, req: &Request, _p: INodeNo, _n: &OsStr, _m: u32, _u: u32, _r: u32, reply: ReplyEntry) {
        reply.error(self.refuse(req, "mknod"));
    }

    fn mkdir(&self, req: &Request, _p: INodeNo, _n: &OsStr, _m: u32, _u: u32, reply: ReplyEntry) {
        reply.error(self.refuse(req, "mkdir"));
    }

    fn unlink(&self, req: &Request, _p: INodeNo, _n: &OsStr, reply: ReplyEmpty) {
        reply.error(self.refuse(req, "unlink"));
    }

    fn rmdir(&self, req: &Request, _p: INodeNo, _n: &OsStr, reply: ReplyEmpty) {
        reply.error(self.refuse(req, "rmdir"));
    }

    fn symlink(&self, req: &Request, _p: INodeNo, _n: &OsStr, _t: &Path, reply: ReplyEntry) {
        reply.error(self.refuse(req, "symlink"));
    }

    fn rename(
        &self,
        req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _new_parent: INodeNo,
        _new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(self.refuse(req, "rename"));
    }

    fn link(&self, req: &Request, _i: INodeNo, _p: INodeNo, _n: &OsStr, reply: ReplyEntry) {
        reply.error(self.refuse(req, "link"));
    }

    fn create(&self, req: &Request, _p: INodeNo, _n: &OsStr, _m: u32, _u: u32, _f: i32, reply: ReplyCreate) {
        reply.error(self.refuse(req, "create"));
    }

    fn write(
        &self,
        req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.error(self.refuse(req, "write"));
    }

    fn setxattr(
        &self,
        req: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(self.refuse(req, "setxattr"));
    }

    fn removexattr(&self, req: &Request, _ino: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(self.refuse(req, "removexattr"));
    }

    fn fallocate(&self, req: &Request, _i: INodeNo, _h: FileHandle, _o: u64, _l: u64, _m: i32, reply: ReplyEmpty) {
        reply.error(self.refuse(req, "fallocate"));
    }

    fn copy_file_range(
        &self,
        req: &Request,
        _ino_in: INodeNo,
        _fh_in: FileHandle,
        _offset_in: u64,
        _ino_out: INodeNo,
        _fh_out: FileHandle,
        _offset_out: u64,
        _len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(self.refuse(req, "copy_file_range"));
    }
}
