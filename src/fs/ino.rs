//! Inode numbers: hashes of what a node is, so that they are the same after a remount and on another machine.
//!
//! A number is 63 bits of a hash over the table's URI, the partition and the stored name. A second, independent hash of 32
//! bits, the check, tells two things with one number apart; `nodes` then moves the later one to another number.
//! The function is part of the promise that numbers are stable: changing it changes every inode number (a test pins it).

/// Numbers below are never hashes: 0 means nothing to the kernel, 1 is the root.
const RESERVED: u64 = 1 << 16;

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// An inode number, and the check that tells it from another thing with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The inode number.
    pub ino: u64,
    /// Independent of `ino`.
    pub check: u32,
}

impl Number {
    /// Where to go when another thing has this number; the check stays.
    pub fn next(self) -> Number {
        Number { ino: number(finish(self.ino ^ SECOND)), check: self.check }
    }
}

/// The hash of a path's beginning, from which the numbers of what lies below are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    first: u64,
    second: u64,
}

impl Seed {
    /// The beginning: a table's URI.
    pub fn new(text: &str) -> Seed {
        Seed { first: FIRST, second: SECOND }.child(text)
    }

    /// One step down. `a` then `b` differs from `ab`.
    pub fn child(self, text: &str) -> Seed {
        Seed { first: finish(mix(self.first, FIRST, text)), second: finish(mix(self.second, SECOND, text)) }
    }

    /// The number of the thing called `name` here.
    pub fn number(self, name: &str) -> Number {
        let Seed { first, second } = self.child(name);
        Number { ino: number(first), check: (second >> 32) as u32 }
    }
}

fn number(hash: u64) -> u64 {
    let ino = hash >> 1;
    if ino < RESERVED { ino + RESERVED } else { ino }
}

fn mix(mut hash: u64, factor: u64, text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(factor);
        hash ^= hash >> 29;
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(factor);
    // The length tells "a" from "a\0".
    hash ^ (hash >> 31) ^ (text.len() as u64)
}

/// Spreads every bit over all others.
fn finish(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_never_change() {
        let seed = Seed::new("file:///data/trips").child("datestr=2026-10-01");
        let a = seed.number("8c8db0e3-0_0-22-25_20261001082021.parquet");
        assert_eq!((a.ino, a.check), (PINNED.0, PINNED.1), "every mount's inode numbers would change");
    }
    const PINNED: (u64, u32) = (2_860_561_647_711_862_346, 3_713_996_884);

    #[test]
    fn names_partitions_and_tables_all_count() {
        let mut seen = HashSet::new();
        for table in ["file:///a", "file:///b"] {
            for partition in ["", "x", "x/y", "xy"] {
                let seed = Seed::new(table).child(partition);
                for name in ["", "a", "a\0", "b", "aaaaaaaa", "aaaaaaaaa", "aaaaaaaab"] {
                    let n = seed.number(name);
                    assert!(n.ino >= RESERVED && n.ino < 1 << 63);
                    assert!(seen.insert(n.ino), "{table} {partition} {name}");
                }
            }
        }
    }

    #[test]
    fn a_million_similar_names_do_not_collide() {
        let seed = Seed::new("s3://bucket/table").child("p=1");
        let mut inos = HashSet::new();
        let mut checks = HashSet::new();
        for n in 0..1_000_000 {
            let number = seed.number(&format!("00000000-0000-0000-0000-{n:012}-0_0-1-1_20260101000000000.parquet"));
            assert!(inos.insert(number.ino));
            checks.insert(number.check);
        }
        // A random function maps a million names onto about 999,884 of 2^32 values.
        assert!(checks.len() > 999_700, "{}", checks.len());
    }

    #[test]
    fn moving_on_leads_elsewhere_each_time() {
        let mut number = Seed::new("t").number("n");
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(number.ino));
            number = number.next();
        }
    }
}
