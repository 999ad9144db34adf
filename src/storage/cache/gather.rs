//! One read, put together from blocks that arrive in any order.

use super::BLOCK_BYTES;
use crate::error::Result;
use crate::storage::ReadDone;
use bytes::{Bytes, BytesMut};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Collects blocks and hands the read to its receiver when the last one has come, or the first error.
pub(in crate::storage) struct Gather {
    /// The read's bytes relative to the first block.
    range: Range<usize>,
    state: Mutex<State>,
}

struct State {
    blocks: Vec<Option<Bytes>>,
    missing: usize,
    done: Option<ReadDone>,
}

impl Gather {
    /// A read of `len` bytes at `offset`, which lie in `blocks` consecutive blocks.
    pub(in crate::storage) fn new(offset: u64, len: u32, blocks: usize, done: ReadDone) -> Self {
        let start = usize::try_from(offset % BLOCK_BYTES).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        let state = State { blocks: vec![None; blocks], missing: blocks, done: Some(done) };
        Gather { range: start..end, state: Mutex::new(state) }
    }

    /// The block at `position` has come, or has not. What comes after an error is not looked at.
    pub(super) fn fill(&self, position: usize, result: Result<Bytes>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, outcome) = match result {
            Err(e) => (state.done.take(), Err(e)),
            Ok(block) => {
                match state.blocks.get_mut(position) {
                    Some(slot @ None) => *slot = Some(block),
                    _ => return,
                }
                state.missing -= 1;
                if state.missing > 0 {
                    return;
                }
                (state.done.take(), Ok(std::mem::take(&mut state.blocks)))
            }
        };
        drop(state);
        if let Some(done) = done {
            done(outcome.map(|blocks| self.join(blocks.into_iter().flatten().collect())));
        }
    }

    /// One block is sliced, several are copied.
    fn join(&self, blocks: Vec<Bytes>) -> Bytes {
        if let [block] = blocks.as_slice() {
            return block.slice(self.range.start.min(block.len())..self.range.end.min(block.len()));
        }
        let mut read = BytesMut::with_capacity(self.range.len());
        let mut at = 0;
        for block in &blocks {
            let from = self.range.start.saturating_sub(at).min(block.len());
            let to = self.range.end.saturating_sub(at).min(block.len());
            read.extend_from_slice(block.get(from..to).unwrap_or_default());
            at += block.len();
        }
        read.freeze()
    }
}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather").field("range", &self.range).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::mpsc;

    fn block(fill: u8) -> Bytes {
        Bytes::from(vec![fill; BLOCK_BYTES as usize])
    }

    #[test]
    fn blocks_in_any_order_make_the_read() {
        let (tx, rx) = mpsc::channel();
        let len = 2 + BLOCK_BYTES as u32 + 3;
        let gather = Gather::new(3 * BLOCK_BYTES - 2, len, 3, Box::new(move |r| tx.send(r).unwrap()));
        for position in [1, 2, 0, 0] {
            assert!(rx.try_recv().is_err());
            gather.fill(position, Ok(block(position as u8)));
            if position == 0 {
                break;
            }
        }
        let read = rx.try_recv().unwrap().unwrap();
        assert_eq!(read.len(), len as usize);
        assert_eq!((&read[..3], &read[read.len() - 4..]), (&[0, 0, 1][..], &[1, 2, 2, 2][..]));
    }

    #[test]
    fn the_first_error_ends_it() {
        let (tx, rx) = mpsc::channel();
        let gather = Gather::new(0, 10, 2, Box::new(move |r| tx.send(r).unwrap()));
        gather.fill(1, Err(Error::internal("gone")));
        assert!(rx.try_recv().unwrap().is_err());
        gather.fill(0, Ok(block(0)));
        gather.fill(1, Ok(block(0)));
        assert!(rx.recv().is_err(), "done is called once");
    }
}
