//! [`select`]: which blocks of a file slice count, and in which order they are merged.
//!
//! Two passes, as in Java. Forward: blocks that the caller does not want are left out, and a rollback drops all blocks of
//! its target that came before it. Backward over instants: a block that was made out of others (log compaction) stands in
//! their place, at the position of the newest of them, and so do blocks made out of such blocks.

use super::BlockKind;
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use std::collections::{HashMap, HashSet};

/// What selection needs to know of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// What it holds.
    pub kind: BlockKind,
    /// The instant that wrote it.
    pub instant: InstantTime,
    /// Of a rollback: the instant that it takes back.
    pub target: Option<InstantTime>,
    /// The instants whose blocks it replaces.
    pub compacted: Vec<InstantTime>,
}

/// The indices of the data and delete blocks that count, oldest first. `blocks` are those of all log files of a slice in
/// the files' order; `wanted` tells whether an instant's data are to be seen at all.
pub fn select(blocks: &[BlockHead], mut wanted: impl FnMut(&InstantTime) -> bool) -> Result<Vec<usize>> {
    let mut order: Vec<InstantTime> = Vec::new();
    let mut by_instant: HashMap<InstantTime, Vec<usize>> = HashMap::new();
    for (i, block) in blocks.iter().enumerate() {
        match block.kind {
            // CDC blocks lie in files of their own that no slice lists; corrupt ones say nothing.
            BlockKind::Corrupt | BlockKind::Cdc => {}
            BlockKind::Command => {
                if let Some(target) = &block.target
                    && by_instant.remove(target).is_some()
                {
                    order.retain(|t| t != target);
                }
            }
            BlockKind::Avro | BlockKind::HFile | BlockKind::Parquet | BlockKind::Delete => {
                if wanted(&block.instant) {
                    by_instant
                        .entry(block.instant)
                        .or_insert_with(|| {
                            order.push(block.instant);
                            Vec::new()
                        })
                        .push(i);
                }
            }
        }
    }
    replace_compacted(blocks, &order, &by_instant)
}

fn replace_compacted(
    blocks: &[BlockHead],
    order: &[InstantTime],
    by_instant: &HashMap<InstantTime, Vec<usize>>,
) -> Result<Vec<usize>> {
    let of = |instant: &InstantTime| by_instant.get(instant).map(Vec::as_slice).unwrap_or_default();
    let replaces = |instant: &InstantTime| {
        let first = of(instant).first().and_then(|i| blocks.get(*i));
        first.map(|b| b.compacted.as_slice()).unwrap_or_default()
    };
    // The last block that an instant's changes ended up in.
    let mut replaced_by: HashMap<InstantTime, InstantTime> = HashMap::new();
    let mut included: HashSet<InstantTime> = HashSet::new();
    let mut newest_first: Vec<&[usize]> = Vec::new();
    for instant in order.iter().rev() {
        let last = replaced_by.get(instant).copied().unwrap_or(*instant);
        for original in replaces(instant) {
            replaced_by.insert(*original, last);
        }
        // A compacted block waits for its originals, unless there are none, as in a slice that they do not belong to.
        let waits = replaces(instant).iter().any(|original| by_instant.contains_key(original));
        if !waits && included.insert(last) {
            newest_first.push(of(&last));
        }
    }
    if let Some(lost) = order.iter().find(|t| !included.contains(replaced_by.get(t).unwrap_or(t))) {
        return Err(Error::corrupt(format!("log blocks of {lost} are replaced by blocks that they replace")));
    }
    Ok(newest_first.into_iter().rev().flatten().copied().collect())
}
