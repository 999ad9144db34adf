//! What the mounted tree means: nodes, names, attributes, listings and errors, without any type of the FUSE library.
//!
//! Reading order: [`source`] (what is read: a table's views), [`errno`], [`attr`], `ino` (inode numbers),
//! `tree` (partition paths as directories), `part` (a partition's files, loaded when looked at), `node` (what an inode
//! number stands for), then the operations as the manual pages group them: `lookup`, `readdir`, `open`, `xattr`, `statfs`;
//! last `publish` (a new generation, and what the kernel must forget), [`pins`] and [`held`] (what readers hold).
//!
//! Invariants:
//! - A generation is one pointer; a call loads it once and keeps to it, so a commit appears in the whole tree at once.
//! - An inode number stands for one version of one file for ever. A directory's listing may change, its number does not.
//! - No lock is held while a partition is loaded or the store is asked. Locks are taken in the order: table list,
//!   view state, part, nodes; none of them while the kernel is notified.
//! - A call with [`Wait::No`] never waits for the store: it answers [`Fault::WouldBlock`] and is repeated elsewhere.

pub mod attr;
pub mod errno;
pub mod held;
pub mod host;
pub mod pins;
pub mod source;

mod idle;
mod ino;
mod lookup;
mod node;
mod open;
mod part;
mod publish;
mod readdir;
mod special;
mod state;
mod statfs;
mod table_fs;
mod tree;
mod workers;
mod xattr;

pub use attr::{Attr, Kind};
pub use errno::{Fault, Wait};
pub use held::Held;
pub use host::{Host, VirtualFile};
pub use lookup::Lookup;
pub use open::OpenFile;
pub use pins::{Pin, PinId, Pins};
pub use publish::Invalidation;
pub use readdir::{Item, Sink};
pub use source::{Changed, Source, View};
pub use statfs::StatFs;
pub use table_fs::{FsOptions, FsStats, TableFs};
pub use workers::Workers;
