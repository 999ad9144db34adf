//! Who wants attributes with a listing.
//!
//! The kernel asks for them with the first request of every listing, and makes an inode and a name for each entry that comes
//! with them. `ls -l` needs them all; to `find -type f`, which never asks for an attribute, they cost more than the listing
//! itself. What a process wants shows in what it does next: one that has been given no attributes and looks up files, wants them.
//!
//! So a process's first listing of files comes without, and so do the next ones until it looks up a file in a directory that
//! it has listed. A wrong guess costs the lookups of one directory. The kernel also keeps listings, and `ls -l` after `find` would
//! be answered from those without attributes, one lookup a file: so once a process wants attributes, what was listed without
//! them is to be forgotten, and is asked for anew.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Processes that are remembered.
const WALKERS_MAX: usize = 256;
/// A process that lists nothing for so long may be another one with its number by now.
const AGE_MAX: Duration = Duration::from_secs(10);

/// Directories remembered as listed without attributes.
const PLAIN_MAX: usize = 1 << 18;

/// What is known of the processes that list directories.
#[derive(Debug, Default)]
pub struct Walkers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    walkers: HashMap<u32, Walker>,
    /// Directories whose listing the kernel may keep without attributes.
    plain: HashSet<u64>,
}

#[derive(Debug)]
struct Walker {
    /// The directory that was last listed for it without attributes.
    listed: u64,
    wants: bool,
    at: Instant,
}

impl Walkers {
    /// A process begins to list a directory of files: true if the attributes should come with it.
    pub fn lists(&self, pid: u32, dir: u64) -> bool {
        // The kernel's own requests, and those from other process namespaces, have no number.
        if pid == 0 {
            return true;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { walkers, plain } = &mut *known;
        let now = Instant::now();
        if walkers.len() >= WALKERS_MAX && !walkers.contains_key(&pid) {
            walkers.retain(|_, w| now.duration_since(w.at) < AGE_MAX);
            if walkers.len() >= WALKERS_MAX {
                return true;
            }
        }
        let walker = walkers.entry(pid).or_insert(Walker { listed: dir, wants: false, at: now });
        if now.duration_since(walker.at) >= AGE_MAX {
            walker.wants = false;
        }
        walker.at = now;
        walker.listed = dir;
        match walker.wants {
            true => plain.remove(&dir),
            false => plain.len() < PLAIN_MAX && plain.insert(dir),
        };
        walker.wants
    }

    /// A process looks up a name. Returns the directories whose listing the kernel should forget: those without attributes,
    /// when it turns out that the process wants them, or that it reads such a listing from the kernel's memory.
    pub fn looks_up(&self, pid: u32, dir: u64) -> Vec<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { walkers, plain } = &mut *known;
        if !plain.contains(&dir) {
            return Vec::new();
        }
        let full = walkers.len() >= WALKERS_MAX;
        match walkers.get_mut(&pid) {
            // Another directory is being listed: a name of an earlier one says nothing.
            Some(walker) if walker.listed != dir => return Vec::new(),
            Some(walker) => walker.wants = true,
            None if pid == 0 || full => {}
            None => drop(walkers.insert(pid, Walker { listed: dir, wants: true, at: Instant::now() })),
        }
        plain.drain().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_gets_attributes_once_it_has_looked_up_a_file_that_it_listed() {
        let walkers = Walkers::default();
        assert!(!walkers.lists(7, 1) && !walkers.lists(7, 2), "find goes on without");
        assert!(walkers.looks_up(7, 1).is_empty());
        assert!(!walkers.lists(7, 3), "a file of a directory listed before is no sign");
        let mut forget = walkers.looks_up(7, 3);
        forget.sort_unstable();
        assert_eq!(forget, [1, 2, 3], "what was listed without is to be asked for anew");
        assert!(walkers.lists(7, 4) && walkers.lists(7, 5), "ls -l gets them from its second directory on");
        assert!(walkers.looks_up(7, 5).is_empty());
        assert!(!walkers.lists(8, 4), "another process has not shown what it wants");
        assert!(walkers.lists(0, 4));
    }

    #[test]
    fn a_process_that_reads_what_another_left_with_the_kernel_gets_attributes_too() {
        let walkers = Walkers::default();
        assert!(!walkers.lists(7, 1) && !walkers.lists(7, 2));
        assert_eq!(walkers.looks_up(9, 1).len(), 2);
        assert!(walkers.lists(9, 2));
    }

    #[test]
    fn a_crowd_is_not_remembered_without_bound() {
        let walkers = Walkers::default();
        for pid in 1..=2 * WALKERS_MAX as u32 {
            walkers.lists(pid, 1);
        }
        assert!(walkers.0.lock().unwrap().walkers.len() <= WALKERS_MAX);
        assert!(walkers.lists(5000, 1), "without a memory of it, a process gets everything");
    }
}
