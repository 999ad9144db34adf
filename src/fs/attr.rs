//! Attributes of nodes.

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Dir,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
}

/// What `stat` shows of a node. Owner and mode are the mount's, see [`crate::fs::FsOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification, milliseconds since the epoch; the other times are the same.
    pub mtime_ms: i64,
    /// Number of links.
    pub nlink: u32,
    /// Permission bits.
    pub mode: u16,
    /// False for what may change at any moment: virtual files.
    pub cacheable: bool,
}

impl Attr {
    /// Space taken, in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        match self.kind {
            Kind::File => self.size.div_ceil(512),
            Kind::Dir | Kind::Link => 0,
        }
    }
}
