//! Changing `hoodie.properties` so that no reader ever finds it missing or torn, and a crash loses nothing.
//!
//! The old content is first put aside as `hoodie.properties.backup`; then the file is replaced, read back, and the backup
//! deleted. A backup that is found at the start is of an update that was cut off: the file itself counts if it can be read,
//! else the backup does. The caller holds the table's lock. Format: docs/format.md, "hoodie.properties".

use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{InstantTime, Zone};
use crate::format::properties::{Properties, TableConfig};
use crate::storage::{Removal, Storage, TablePath};
use bytes::Bytes;
use std::time::SystemTime;

const FILE: &str = ".hoodie/hoodie.properties";
const BACKUP: &str = ".hoodie/hoodie.properties.backup";
/// Largest file accepted, bytes.
const LEN_MAX: u64 = 16 << 20;

/// Changes the properties of the table that `storage` is rooted at, and answers what they are then. Nothing is written if
/// `edit` changes nothing.
pub fn update_config(storage: &dyn Storage, edit: impl FnOnce(&mut Properties)) -> Result<TableConfig> {
    let (file, backup) = (TablePath::parse(FILE)?, TablePath::parse(BACKUP)?);
    let old = recover(storage, &file, &backup)?;
    let mut properties = Properties::parse(&old);
    let before = properties.clone();
    edit(&mut properties);
    if properties == before {
        return TableConfig::parse(&old).map_err(|e| e.context(&file));
    }
    if properties.get(crate::format::properties::CHECKSUM).is_none() {
        properties.seal();
    }
    let new = Bytes::from(properties.encode(&[&format!("Updated at {}", now())]));
    // What could not be read again must never be written.
    let config = TableConfig::parse(&new).map_err(|e| e.context("changed hoodie.properties"))?;
    storage.create(&backup, old)?;
    storage.put(&file, new.clone())?;
    if storage.read(&file, LEN_MAX)? != new {
        return Err(Error::new(ErrorKind::Conflict, format!("{file} was changed by somebody else at the same time")));
    }
    storage.delete(&Removal::properties_backup())?;
    Ok(config)
}

/// The properties as they are, after what a crash left has been set right.
fn recover(storage: &dyn Storage, file: &TablePath, backup: &TablePath) -> Result<Bytes> {
    let read = |path: &TablePath| storage.read(path, LEN_MAX).and_then(|b| TableConfig::parse(&b).map(|_| b));
    match (read(file), read(backup)) {
        (Ok(current), Err(e)) if e.kind() == ErrorKind::NotFound => Ok(current),
        (Ok(current), _) => {
            storage.delete(&Removal::properties_backup())?;
            Ok(current)
        }
        (Err(e), Ok(kept)) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => {
            storage.put(file, kept.clone())?;
            storage.delete(&Removal::properties_backup())?;
            Ok(kept)
        }
        (Err(e), _) => Err(e.context(file)),
    }
}

/// The time of day in ISO form.
fn now() -> String {
    let ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
    let time = InstantTime::from_epoch_ms(ms, Zone::Utc).unwrap_or_else(InstantTime::zero);
    let part = |from: usize, to: usize| time.as_str().get(from..to).unwrap_or_default().to_owned();
    format!(
        "{}-{}-{}T{}:{}:{}.{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14),
        part(14, 17)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{StorageOptions, open};

    fn table(text: &str) -> (tempfile::TempDir, std::sync::Arc<dyn Storage>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".hoodie")).unwrap();
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let storage = open(dir.path().to_str().unwrap(), &StorageOptions::default()).unwrap();
        (dir, storage)
    }

    #[test]
    fn a_change_keeps_all_else_and_leaves_no_backup() {
        let (dir, storage) = table("hoodie.table.name=t\nmine=a\\:b\nhoodie.table.version=6\n");
        let config = update_config(&*storage, |p| p.set("hoodie.table.metadata.partitions", "files")).unwrap();
        assert_eq!(config.metadata_partitions(), ["files"]);
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(text.starts_with("#Updated at 2") && text.contains("hoodie.table.checksum="), "{text}");
        assert_eq!(config.properties().get("mine"), Some("a:b"));
        assert!(!dir.path().join(BACKUP).exists());
        // Nothing to do: nothing is written.
        update_config(&*storage, |p| p.set("mine", "a:b")).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join(FILE)).unwrap(), text);
    }

    #[test]
    fn what_a_crash_left_is_set_right() {
        for (current, backup, expected) in [
            (Some("hoodie.table.name=t\nx=new\n"), "hoodie.table.name=t\nx=old\n", "new"),
            (Some(""), "hoodie.table.name=t\nx=old\n", "old"),
            (None, "hoodie.table.name=t\nx=old\n", "old"),
            (Some("hoodie.table.name=t\nx=new\n"), "", "new"),
        ] {
            let (dir, storage) = table(current.unwrap_or_default());
            if current.is_none() {
                std::fs::remove_file(dir.path().join(FILE)).unwrap();
            }
            std::fs::write(dir.path().join(BACKUP), backup).unwrap();
            let config = update_config(&*storage, |p| p.set("y", "1")).unwrap();
            assert_eq!(config.get("x"), Some(expected));
            assert_eq!(config.get("y"), Some("1"));
            assert!(!dir.path().join(BACKUP).exists());
        }
    }
}
