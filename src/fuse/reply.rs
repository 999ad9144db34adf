//! From results to replies that take more than a line: opens, attributes of any length, and listings.

use super::shared::{Mode, Shared, file_attr, file_type};
use crate::fs::{Item, Kind, Sink};
use crate::telemetry::{OpenMode, metric};
use fuser::{
    Errno, FileHandle, FopenFlags, Generation, INodeNo, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyOpen,
    ReplyXattr,
};
use std::time::Duration;

/// The attributes of nothing.
pub const ABSENT: crate::fs::Attr =
    crate::fs::Attr { ino: 0, kind: crate::fs::Kind::File, size: 0, mtime_ms: 0, nlink: 0, mode: 0, cacheable: true };

/// Replies to an open, in the way that the inode is served.
pub fn reply_open(shared: &Shared, reply: ReplyOpen, handle: u64, file: &crate::fs::OpenFile) {
    let handle = FileHandle(handle);
    if file.is_virtual() {
        return reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
    }
    match shared.mode(file, &reply) {
        Mode::Passthrough(id) => {
            metric::FUSE_OPENS.inc(OpenMode::Passthrough);
            reply.opened_passthrough(handle, FopenFlags::FOPEN_NOFLUSH, id);
        }
        Mode::Served => {
            metric::FUSE_OPENS.inc(OpenMode::Served);
            reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
        }
    }
}

/// Replies to a read that failed before it began.
pub fn reply_error(reply: ReplyData, result: Result<(), Errno>) {
    match result {
        Err(errno) => reply.error(errno),
        Ok(()) => reply.data(&[]),
    }
}

/// Replies with an extended attribute, or its size where there is no room.
pub fn reply_xattr(reply: ReplyXattr, room: u32, result: Result<Vec<u8>, Errno>) {
    match result {
        Err(errno) => reply.error(errno),
        Ok(value) if room == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

/// Takes names.
pub struct Plain<'a>(pub &'a mut ReplyDirectory);

impl Sink for Plain<'_> {
    fn add(&mut self, item: &Item<'_>) -> bool {
        !self.0.add(INodeNo(item.ino), item.next, file_type(item.kind), item.name)
    }
}

/// Takes names with attributes.
pub struct Plus<'a> {
    pub reply: &'a mut ReplyDirectoryPlus,
    pub fs: &'a crate::fs::TableFs,
    pub ttl: Duration,
    /// True if files are to come with their attributes; asked once, at the first file. Otherwise the reply ends there, after
    /// `.` and `..` at least, and the kernel goes on with a request for names.
    pub files: &'a dyn Fn() -> bool,
    pub sure: Option<bool>,
}

impl Sink for Plus<'_> {
    fn add(&mut self, item: &Item<'_>) -> bool {
        if item.kind == Kind::File && !*self.sure.get_or_insert_with(self.files) {
            return false;
        }
        let attr = item.attr.unwrap_or(crate::fs::Attr { ino: item.ino, kind: item.kind, cacheable: false, ..ABSENT });
        let ttl = if attr.cacheable { self.ttl } else { Duration::ZERO };
        let attr = file_attr(self.fs, &attr);
        !self.reply.add(INodeNo(item.ino), item.next, item.name, &ttl, &attr, Generation(0))
    }
}
