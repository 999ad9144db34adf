//! Looking at a table under a watchdog, and judging what was shown against the table as it was whole.

use hudifs::storage::StorageOptions;
use hudifs::table::{Listing, Table, TableOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// No look at tables this small may take longer, on a busy machine and without optimization.
pub const LOOK_MAX: Duration = Duration::from_secs(60);
/// What files outside of tables hold.
pub const SECRET: &str = "SECRET-OUTSIDE-OF-THE-TABLE";

/// What a look at a table showed.
#[derive(Debug)]
pub enum Look {
    /// It did not open, or not even its partitions could be told.
    Refused(String),
    /// Files and sizes by partition, or why one cannot be listed.
    Shown { partitions: BTreeMap<String, Result<BTreeMap<String, u64>, String>>, warnings: Vec<String> },
}

/// Looks at all of a table in a thread of its own. A panic or a hang is an `Err`.
pub fn look(base: &Path, listing: Listing, read: bool) -> Result<Look, String> {
    let base = base.to_owned();
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(send.send(look_here(&base, listing, read))));
    match receive.recv_timeout(LOOK_MAX) {
        Ok(look) => Ok(look),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(format!("no answer within {LOOK_MAX:?}")),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let panic = thread.join().err();
            let text = panic.as_ref().and_then(|p| p.downcast_ref::<String>().cloned());
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

fn look_here(base: &Path, listing: Listing, read: bool) -> Look {
    let opened = hudifs::storage::open(base.to_str().unwrap(), &StorageOptions::default())
        .and_then(|storage| Table::open(storage, TableOptions { listing, ..TableOptions::default() }));
    let table = match opened {
        Ok(table) => table,
        Err(e) => return Look::Refused(e.to_string()),
    };
    let snapshot = table.snapshot();
    let names = match snapshot.partitions() {
        Ok(names) => names,
        Err(e) => return Look::Refused(e.to_string()),
    };
    let mut partitions = BTreeMap::new();
    for partition in names.iter() {
        let files = snapshot.partition(partition).map_err(|e| e.to_string()).map(|view| {
            let listed = view.listed().map(|file| {
                let path = snapshot.stored_path(partition, &file).unwrap();
                if read && let Ok(bytes) = table.storage().read(&path, 1 << 30) {
                    assert!(!holds_secret(&bytes), "{path} shows bytes from outside");
                }
                (file.name().to_owned(), file.size().unwrap())
            });
            listed.collect()
        });
        partitions.insert(partition.as_str().to_owned(), files);
    }
    Look::Shown { partitions, warnings: snapshot.warnings() }
}

pub fn holds_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes())
}

/// How much a case may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allow {
    /// Files of the whole table, no others.
    Less,
    /// Others too: no reader can know that a number in plain JSON was another one, or that a commit says what another did.
    Other,
}

/// What is wrong with a look at a damaged table, given the look at it whole.
pub fn judge(whole: &Look, damaged: &Look, allow: Allow) -> Option<String> {
    let Look::Shown { partitions: whole, .. } = whole else { return None };
    let (partitions, warnings) = match damaged {
        Look::Refused(why) => return why.is_empty().then(|| "an error without a word".to_owned()),
        Look::Shown { partitions, warnings } => (partitions, warnings),
    };
    for (partition, files) in whole {
        let Ok(files) = files else { continue };
        let now = match partitions.get(partition) {
            Some(Err(why)) if why.is_empty() => return Some(format!("{partition:?}: an error without a word")),
            Some(Err(_)) => continue,
            Some(Ok(now)) => Some(now),
            None => None,
        };
        for name in files.keys() {
            if !now.is_some_and(|now| now.contains_key(name)) && warnings.is_empty() {
                return Some(format!("{partition:?}/{name} is lost without a word"));
            }
        }
    }
    if allow == Allow::Less {
        for (partition, files) in partitions {
            let known = whole.get(partition).and_then(|f| f.as_ref().ok());
            for name in files.iter().flat_map(|f| f.keys()) {
                if !known.is_some_and(|k| k.contains_key(name)) && warnings.is_empty() {
                    return Some(format!("{partition:?}/{name} is shown, and is not a file of the whole table"));
                }
            }
        }
    }
    None
}

/// A small generator whose seed can be said again.
pub struct Random(pub u64);

impl Random {
    /// Seeded by `HUDIFS_HOSTILE_SEED`, else by 1, so that a run without it is the same every time; says the seed.
    pub fn seeded() -> Random {
        let seed: u64 = std::env::var("HUDIFS_HOSTILE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        println!("HUDIFS_HOSTILE_SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}
