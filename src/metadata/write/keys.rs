//! Row keys of the metadata table, and the shard that a key belongs to.
//!
//! Keys of column statistics are hashes in Base64: of the column, the partition, and the file. A table without partitions is
//! called `.` in them, as in listings.

use crate::format::hash;
use crate::metadata::NON_PARTITIONED;

/// The name of a partition in keys and listings.
pub(in crate::metadata) fn identifier(partition: &str) -> &str {
    if partition.is_empty() { NON_PARTITIONED } else { partition }
}

/// The place of the file group that a key belongs to, among `shards`.
pub(in crate::metadata) fn shard_of(key: &str, shards: usize) -> usize {
    hash::shard(key, u32::try_from(shards).unwrap_or(u32::MAX)) as usize
}

/// The keys of a partition's column statistics.
pub(in crate::metadata) struct StatsKeys {
    partition: String,
}

impl StatsKeys {
    pub fn new(partition: &str) -> StatsKeys {
        StatsKeys { partition: hash::name_id(identifier(partition)) }
    }

    /// The key of a column of a file.
    pub fn of_file(&self, column: &str, file: &str) -> String {
        format!("{}{}{}", hash::name_id(column), self.partition, hash::file_id(file))
    }

    /// The key of a column of the partition.
    pub fn of_partition(&self, column: &str) -> String {
        format!("{}{}", hash::name_id(column), self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_as_java_made_them() {
        let file = "39cc539f-61e9-4996-8096-4d89715c4142-0_1-27-53_20260307162628304.parquet";
        let keys = StatsKeys::new("region=us");
        assert_eq!(keys.of_file("fee_amount", file), "5RNSbpYG6oU=431THTTwO5Q=TOHqhvW7HwIogcEGnEpzQg==");
        assert_eq!(keys.of_partition("fee_amount"), "5RNSbpYG6oU=431THTTwO5Q=");
        assert!(StatsKeys::new("").of_partition("fee_amount").ends_with("FXThHwelITM="));
        assert_eq!(shard_of("txn_id:TXN-004,account_id:ACC-C", 10), 3);
        assert_eq!(shard_of("", 1), 0);
    }
}
