//! When to read ahead, and how far. Pure: it sees reads and answers with ranges.
//!
//! A reader's file may carry several sequential streams at once (threads on different column chunks), so a few are told
//! apart. A stream's window is as large as what it has read in sequence so far, within bounds: who reads a column chunk causes at
//! most as much again. Beyond the size of a chunk a reader is taken to want the whole file, and the window grows faster. A reader
//! that jumps about never causes any.

use std::ops::Range;

/// Streams told apart within one open object.
const STREAMS: usize = 8;
/// Who has read so much in sequence reads more than a column chunk, bytes.
const CHUNK_BYTES: u64 = 4 << 20;
/// The window is then so many times what was read.
const GROWTH: u64 = 4;
/// Reads of one stream may arrive this much out of order: the kernel sends its own read-ahead from several threads.
const DISORDER_BYTES: u64 = 1 << 20;

/// Bounds of a window, bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The first window; also the grain of what is asked.
    pub(super) min: u64,
    /// The largest window.
    pub(super) max: u64,
    /// Size of one request when the window is large.
    pub(super) part: u64,
}

/// What is known of an open object's readers.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    streams: Vec<Stream>,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// End of what was read.
    next: u64,
    /// End of what was asked for ahead; not below `next` once the stream is sequential.
    ahead: u64,
    /// Bytes read in sequence after the first read.
    run: u64,
    used: u64,
}

/// What follows from one read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// The read went on where an earlier one ended.
    pub(super) sequential: bool,
    /// Bytes to fetch beyond the read; empty for none.
    pub(super) ahead: Range<u64>,
}

impl ReadAhead {
    /// A read of `len` bytes at `offset` of an object of `size` bytes.
    pub(super) fn on_read(&mut self, offset: u64, len: u64, size: u64, bounds: Bounds) -> Advice {
        self.clock += 1;
        let end = offset.saturating_add(len).min(size);
        let clock = self.clock;
        match self.streams.iter_mut().find(|s| s.continues_at(offset, bounds.min)) {
            Some(stream) => {
                stream.used = clock;
                Advice { sequential: true, ahead: stream.advance(end, size, bounds) }
            }
            None => {
                self.start(Stream { next: end, ahead: end, run: 0, used: clock });
                Advice { sequential: false, ahead: 0..0 }
            }
        }
    }

    /// The largest window in use, bytes.
    pub(super) fn window(&self, bounds: Bounds) -> u64 {
        self.streams.iter().map(|s| s.window(bounds)).max().unwrap_or(0)
    }

    fn start(&mut self, stream: Stream) {
        if self.streams.len() < STREAMS {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.used) {
            *oldest = stream;
        }
    }
}

impl Stream {
    fn continues_at(&self, offset: u64, grain: u64) -> bool {
        let slack = if self.run > 0 { DISORDER_BYTES } else { 0 };
        // A reader may skip a little within what was fetched anyway.
        let reach = self.ahead.max(self.next).checked_next_multiple_of(grain.max(1)).unwrap_or(u64::MAX);
        offset >= self.next.saturating_sub(slack) && offset <= reach
    }

    fn window(&self, bounds: Bounds) -> u64 {
        let wanted = if self.run < CHUNK_BYTES { self.run } else { self.run.saturating_mul(GROWTH) };
        if self.run == 0 { 0 } else { wanted.clamp(bounds.min, bounds.max.max(bounds.min)) }
    }

    /// What to ask for now: whole parts where the window is large, so that several requests are in flight.
    fn advance(&mut self, end: u64, size: u64, bounds: Bounds) -> Range<u64> {
        self.run = self.run.saturating_add(end.saturating_sub(self.next));
        self.next = self.next.max(end);
        self.ahead = self.ahead.max(self.next);
        let window = self.window(bounds);
        let target = self.next.saturating_add(window).min(size);
        let grain = bounds.part.min(window / 2).max(1);
        if target <= self.ahead || (target - self.ahead < grain && target < size) {
            return 0..0;
        }
        let from = std::mem::replace(&mut self.ahead, target);
        from..target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const BOUNDS: Bounds = Bounds { min: 128 * KIB, max: 16 * MIB, part: 2 * MIB };

    #[test]
    fn a_sequential_reader_gets_a_growing_window_and_every_byte_once() {
        let (mut state, mut covered, size) = (ReadAhead::default(), 0, 256 * MIB);
        for at in (0..size).step_by(MIB as usize) {
            let advice = state.on_read(at, MIB, size, BOUNDS);
            if !advice.ahead.is_empty() {
                assert!(advice.ahead.start == covered.max(at + MIB), "{advice:?} after {covered}");
                let most = (if at < CHUNK_BYTES { at } else { GROWTH * at }).clamp(128 * KIB, BOUNDS.max);
                assert!(advice.ahead.end - (at + MIB) <= most, "{advice:?} at {at}");
                covered = advice.ahead.end;
            }
            assert!(covered.max(at + MIB) <= size);
        }
        assert_eq!(covered, size);
        assert_eq!(state.window(BOUNDS), BOUNDS.max);
    }

    #[test]
    fn random_reads_cause_none() {
        let mut state = ReadAhead::default();
        let mut at = 12345u64;
        for _ in 0..10_000 {
            at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Apart by more than a block, as random reads of a large object are.
            let advice = state.on_read((at % (1 << 40)) / MIB * MIB * 3, 4 * KIB, u64::MAX, BOUNDS);
            assert_eq!(advice, Advice { sequential: false, ahead: 0..0 });
        }
    }

    #[test]
    fn interleaved_streams_are_told_apart() {
        let mut state = ReadAhead::default();
        let mut asked = [0u64; 6];
        for round in 0..32 {
            for (i, asked) in asked.iter_mut().enumerate() {
                let start = (i as u64) << 32;
                let advice = state.on_read(start + round * 256 * KIB, 256 * KIB, 1 << 40, BOUNDS);
                assert_eq!(advice.sequential, round > 0);
                *asked += advice.ahead.end - advice.ahead.start;
            }
        }
        assert!(asked.iter().all(|a| *a > 8 * MIB), "{asked:?}");
    }

    #[test]
    fn reads_slightly_out_of_order_stay_one_stream() {
        let mut state = ReadAhead::default();
        state.on_read(0, 128 * KIB, MIB * 64, BOUNDS);
        state.on_read(128 * KIB, 128 * KIB, MIB * 64, BOUNDS);
        for pair in 1..20 {
            let at = pair * 256 * KIB;
            for offset in [at + 128 * KIB, at] {
                assert!(state.on_read(offset, 128 * KIB, MIB * 64, BOUNDS).sequential, "{offset}");
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut state = ReadAhead::default();
        for (offset, len) in [(u64::MAX, u64::MAX), (u64::MAX - 1, 1), (0, u64::MAX), (u64::MAX / 2, 0)] {
            let bounds = Bounds { min: 0, max: u64::MAX, part: 0 };
            state.on_read(offset, len, u64::MAX, bounds);
            state.on_read(offset, len, u64::MAX, BOUNDS);
        }
    }
}
