//! [`Store`]: bytes of many rows, in memory up to a budget and in a temporary file beyond it.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;

/// Bytes put together before they go to the file.
const PIECE: usize = 1 << 20;

/// Appended to once, read at random after that.
pub(super) struct Store {
    memory: Vec<u8>,
    spilled: Option<BufWriter<File>>,
    len: u64,
    budget: usize,
}

impl Store {
    /// Nothing yet; beyond `budget` bytes all goes to a file.
    pub fn new(budget: usize) -> Store {
        Store { memory: Vec::new(), spilled: None, len: 0, budget }
    }

    /// Adds a row; answers where it is.
    pub fn push(&mut self, row: &[u8]) -> Result<u64> {
        let at = self.len;
        if self.spilled.is_none() && self.memory.len().saturating_add(row.len()) > self.budget {
            let file = tempfile::tempfile().map_err(|e| Error::io("a temporary file for log records", e))?;
            let mut file = BufWriter::with_capacity(PIECE, file);
            file.write_all(&self.memory).map_err(spill)?;
            self.memory = Vec::new();
            self.spilled = Some(file);
        }
        match &mut self.spilled {
            Some(file) => file.write_all(row).map_err(spill)?,
            None => self.memory.extend_from_slice(row),
        }
        self.len += row.len() as u64;
        Ok(at)
    }

    /// Ends the appending.
    pub fn seal(&mut self) -> Result<()> {
        self.spilled.as_mut().map_or(Ok(()), |file| file.flush().map_err(spill))
    }

    /// Hands a row to `visit`.
    pub fn with<T>(&self, at: u64, len: u32, visit: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        match &self.spilled {
            None => {
                let start = usize::try_from(at).unwrap_or(usize::MAX);
                let row = start.checked_add(len as usize).and_then(|end| self.memory.get(start..end));
                visit(row.ok_or_else(|| Error::internal("a log record outside of the store"))?)
            }
            Some(file) => {
                let mut row = vec![0; len as usize];
                file.get_ref().read_exact_at(&mut row, at).map_err(spill)?;
                visit(&row)
            }
        }
    }
}

fn spill(error: std::io::Error) -> Error {
    Error::io("the temporary file of log records", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_memory_and_from_the_file() {
        for budget in [0, 100, 1 << 20] {
            let mut store = Store::new(budget);
            let rows: Vec<Vec<u8>> = (0..1000u32).map(|i| vec![i as u8; (i % 50) as usize]).collect();
            let places: Vec<u64> = rows.iter().map(|r| store.push(r).unwrap()).collect();
            store.seal().unwrap();
            assert_eq!(store.spilled.is_some(), budget < 1 << 20);
            for (row, at) in rows.iter().zip(places).rev() {
                assert!(store.with(at, row.len() as u32, |found| Ok(found == row)).unwrap());
            }
            assert!(store.with(1 << 40, 1, |_| Ok(())).is_err());
        }
    }
}
