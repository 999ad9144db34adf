//! Label values as closed enums.
//!
//! A [`LabelSet`] is a label, a pair of labels, or none; its values are numbered densely so that a metric can keep its
//! series in an array.

/// The labels of one metric, with all their values known at build time.
pub trait LabelSet: Copy {
    /// Number of combinations.
    const COUNT: usize;
    /// Label names, outermost first.
    const NAMES: &'static [&'static str];
    /// The place of this combination, below [`LabelSet::COUNT`].
    fn index(self) -> usize;
    /// Values at a place, as many as there are names.
    fn values(index: usize) -> Vec<&'static str>;
}

impl LabelSet for () {
    const COUNT: usize = 1;
    const NAMES: &'static [&'static str] = &[];
    fn index(self) -> usize {
        0
    }
    fn values(_: usize) -> Vec<&'static str> {
        Vec::new()
    }
}

macro_rules! label {
    ($(#[$doc:meta])* $name:ident as $label:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The value as it is exported.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl LabelSet for $name {
            const COUNT: usize = $name::ALL.len();
            const NAMES: &'static [&'static str] = &[$label];
            fn index(self) -> usize {
                self as usize
            }
            fn values(index: usize) -> Vec<&'static str> {
                $name::ALL.get(index).map(|v| v.as_str()).into_iter().collect()
            }
        }
    };
}
pub(super) use label;

label! {
    /// A kind of FUSE request.
    FuseOp as "op" {
        /// Name to inode.
        Lookup = "lookup",
        /// Attributes.
        Getattr = "getattr",
        /// Symbolic link target.
        Readlink = "readlink",
        /// Open a file.
        Open = "open",
        /// Read bytes.
        Read = "read",
        /// Close a file.
        Release = "release",
        /// Open a directory.
        Opendir = "opendir",
        /// List names.
        Readdir = "readdir",
        /// List names and attributes.
        Readdirplus = "readdirplus",
        /// Close a directory.
        Releasedir = "releasedir",
        /// Free space.
        Statfs = "statfs",
        /// Extended attributes, read or listed.
        Xattr = "xattr",
        /// Permission check.
        Access = "access",
        /// The kernel drops inodes.
        Forget = "forget",
        /// Any call that would change something.
        Write = "write",
        /// Anything else.
        Other = "other",
    }
}

label! {
    /// The errno of a refused FUSE request, as far as it matters to operators.
    Errno as "errno" {
        /// No such name.
        Enoent = "ENOENT",
        /// Input/output error.
        Eio = "EIO",
        /// The bytes of that version are gone.
        Estale = "ESTALE",
        /// The tree is read-only.
        Erofs = "EROFS",
        /// Access denied.
        Eacces = "EACCES",
        /// Any other.
        Other = "other",
    }
}

label! {
    /// How an open file is served.
    OpenMode as "mode" {
        /// The kernel reads the stored file itself.
        Passthrough = "passthrough",
        /// The daemon answers reads.
        Served = "served",
    }
}

label! {
    /// A message to the kernel that something it caches has changed.
    Notification as "kind" {
        /// A directory entry.
        Entry = "entry",
        /// An inode's attributes or contents.
        Inode = "inode",
    }
}

label! {
    /// A call to a store.
    StorageOp as "op" {
        /// A whole object.
        Read = "read",
        /// A part of an object.
        ReadRange = "read_range",
        /// Size and time of one object.
        Stat = "stat",
        /// One directory.
        List = "list",
        /// Everything below a directory.
        ListFlat = "list_flat",
        /// Open for random reads.
        Open = "open",
        /// Create a small object.
        Create = "create",
        /// Replace a small object.
        Put = "put",
        /// A file of any size, from its start to its end.
        Write = "write",
        /// Delete an object or a folder.
        Delete = "delete",
    }
}

label! {
    /// A cache.
    Cache as "cache" {
        /// Blocks of remote files in memory.
        BlockMemory = "block_memory",
        /// Blocks of remote files on the local disk.
        BlockDisk = "block_disk",
        /// The ends of Parquet files.
        Footer = "footer",
        /// Loaded partitions.
        Partition = "partition",
    }
}

label! {
    /// What a cache answered.
    CacheResult as "result" {
        /// It was there.
        Hit = "hit",
        /// It had to be fetched.
        Miss = "miss",
    }
}

label! {
    /// How a refresh ended.
    RefreshResult as "result" {
        /// No new commit.
        Unchanged = "unchanged",
        /// A new generation was published.
        Published = "published",
        /// The old generation stays.
        Failed = "failed",
    }
}

label! {
    /// How a table of the mount stands.
    TableState as "state" {
        /// Served, and its last refresh worked.
        Serving = "serving",
        /// Served from an older generation, because the last refresh failed.
        Stale = "stale",
        /// Not served.
        Failed = "failed",
    }
}

label! {
    /// Why a connection to the control socket was refused.
    RefusedPeer as "reason" {
        /// The peer runs as another user.
        Uid = "uid",
        /// Too many connections.
        Limit = "limit",
    }
}

label! {
    /// What a write does.
    WriteOperation as "operation" {
        /// Create a table.
        Create = "create",
        /// Update and insert rows.
        Upsert = "upsert",
        /// Add rows.
        Insert = "insert",
        /// Add rows to new files.
        BulkInsert = "bulk_insert",
        /// Delete rows.
        Delete = "delete",
        /// Drop partitions.
        DeletePartition = "delete_partition",
        /// Replace partitions.
        InsertOverwrite = "insert_overwrite",
        /// Replace the table's content.
        InsertOverwriteTable = "insert_overwrite_table",
        /// Remove old file versions.
        Clean = "clean",
        /// Merge log files into base files.
        Compact = "compact",
        /// Move old instants out of the active timeline.
        Archive = "archive",
        /// Undo failed writes.
        Rollback = "rollback",
        /// Compare the metadata table with the storage.
        VerifyMetadata = "metadata_verify",
        /// Make the metadata table anew.
        RebuildMetadata = "metadata_rebuild",
    }
}

label! {
    /// How a write ended.
    WriteResult as "result" {
        /// As asked.
        Done = "done",
        /// Another writer was in the way.
        Conflict = "conflict",
        /// In another way.
        Failed = "failed",
    }
}

label! {
    /// The hundreds digit of a response's status.
    StatusClass as "class" {
        /// Success.
        Success = "2xx",
        /// The caller's mistake.
        Client = "4xx",
        /// Our failure.
        Server = "5xx",
    }
}

impl<A: LabelSet, B: LabelSet> LabelSet for (A, B) {
    const COUNT: usize = A::COUNT * B::COUNT;
    const NAMES: &'static [&'static str] = {
        // A pair of pairs would need more names than this; none exists.
        const fn pair(a: &'static [&'static str], b: &'static [&'static str]) -> [&'static str; 2] {
            match (a, b) {
                ([a], [b]) => [*a, *b],
                _ => ["", ""],
            }
        }
        &pair(A::NAMES, B::NAMES)
    };
    fn index(self) -> usize {
        self.0.index() * B::COUNT + self.1.index()
    }
    fn values(index: usize) -> Vec<&'static str> {
        let mut values = A::values(index / B::COUNT);
        values.extend(B::values(index % B::COUNT));
        values
    }
}
