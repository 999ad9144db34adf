//! Reading `hoodie.properties`, also while somebody is changing it.
//!
//! An update writes `hoodie.properties.backup`, deletes the file, writes it anew and deletes the backup. In between the file is
//! missing or empty, so a reader goes to the backup, and tries again before it believes that both are unusable.
//! Nothing is repaired here: that is the next writer's. Format: docs/format.md, "hoodie.properties".

use crate::error::{Error, ErrorKind, Result};
use crate::format::properties::TableConfig;
use crate::storage::{Storage, TablePath};
use std::time::Duration;

const FOLDER: &str = ".hoodie";
const FILES: [&str; 2] = [".hoodie/hoodie.properties", ".hoodie/hoodie.properties.backup"];
/// Largest file accepted, bytes. It holds the table's schema, once.
const LEN_MAX: u64 = 16 << 20;
/// Waits between rounds: an update takes a few store requests.
const WAITS: [Duration; 4] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(800)];

/// The settings of the table at `root`. `NotFound` if there is no table; may wait for a second where an update is under way.
pub fn load_config(storage: &dyn Storage, root: &TablePath) -> Result<TableConfig> {
    let mut waits = WAITS.iter();
    loop {
        let mut error: Option<Error> = None;
        for file in FILES {
            match storage.read(&root.join(file)?, LEN_MAX).and_then(|bytes| TableConfig::parse(&bytes)) {
                Ok(config) => return Ok(config),
                // What is refused by name, or cannot be read for another reason than an update, stays so.
                Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt | ErrorKind::Stale) => {
                    return Err(e.context(root.join(file)?));
                }
                // A damaged file says more than a missing backup.
                Err(e) if error.as_ref().is_none_or(|first| first.kind() == ErrorKind::NotFound) => {
                    error = Some(e.context(root.join(file)?));
                }
                Err(_) => {}
            }
        }
        let error = error.unwrap_or_else(|| Error::internal("no properties file was tried"));
        if error.kind() == ErrorKind::NotFound && !folder_exists(storage, root)? {
            return Err(no_table(storage, root));
        }
        match waits.next() {
            Some(wait) => std::thread::sleep(*wait),
            None if error.kind() == ErrorKind::NotFound => return Err(no_table(storage, root)),
            None => return Err(error),
        }
    }
}

fn folder_exists(storage: &dyn Storage, root: &TablePath) -> Result<bool> {
    match storage.list(&root.join(FOLDER)?) {
        Ok(entries) => Ok(!entries.is_empty()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn no_table(storage: &dyn Storage, root: &TablePath) -> Error {
    let place = if root.is_root() { storage.uri().to_owned() } else { format!("{}/{root}", storage.uri()) };
    Error::not_found(format!("no Hudi table at {place}: it has no .hoodie/hoodie.properties"))
        .with_hint("give the table's base path, the folder that holds .hoodie")
}
