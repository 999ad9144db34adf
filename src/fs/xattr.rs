//! Extended attributes: where a file comes from.

use super::node::Place;
use super::state::lock;
use super::table_fs::TableFs;
use super::{Fault, Wait};
use std::ffi::OsStr;

/// The commit that wrote the file.
const COMMIT_TIME: &str = "user.hudi.commit_time";
/// The file group's id.
const FILE_ID: &str = "user.hudi.file_id";
/// The partition's path; empty for the root.
const PARTITION: &str = "user.hudi.partition";
/// The stored object's URI.
const SOURCE: &str = "user.hudi.source";

impl TableFs {
    /// The value of an extended attribute.
    pub fn getxattr(&self, ino: u64, name: &OsStr, wait: Wait) -> Result<Vec<u8>, Fault> {
        let Some(name) = name.to_str().filter(|n| n.starts_with("user.hudi.")) else {
            // `ls -l` asks for a label and an access control list of each file, unless it is told that there are none at
            // all: then it asks for those of the first file only.
            let kind = name.to_str().is_some_and(|n| n.starts_with("system.") || n.starts_with("security."));
            return Err(if kind { Fault::Errno(libc::EOPNOTSUPP) } else { Fault::NO_DATA });
        };
        let place = lock(&self.nodes).place(ino).map(|(place, _)| place);
        if let Some(place) = place {
            return dir_value(&place, name).ok_or(Fault::NO_DATA);
        }
        let known = lock(&self.nodes).file(ino).ok_or(Fault::STALE)?;
        let (generation, files, index) = self.known_file(&known, wait)?;
        let file = files.view.get(index).ok_or(Fault::STALE)?;
        let part = &known.part;
        match name {
            COMMIT_TIME => Ok(file.instant().as_str().into()),
            FILE_ID => Ok(file.file_id().into()),
            PARTITION => Ok(part.path.as_str().into()),
            SOURCE => {
                let stored =
                    generation.view.stored_path(&part.path, &file).map_err(|e| self.gone(part, file.name(), &e))?;
                Ok(format!("{}/{stored}", part.state.table.source.storage().uri()).into_bytes())
            }
            _ => Err(Fault::NO_DATA),
        }
    }

    /// The names of the extended attributes, each followed by a zero byte.
    pub fn listxattr(&self, ino: u64) -> Result<Vec<u8>, Fault> {
        let nodes = lock(&self.nodes);
        let names: &[&str] = match nodes.place(ino) {
            Some((Place::Dir(_), _)) => &[PARTITION, SOURCE],
            Some(_) => &[],
            None => &[COMMIT_TIME, FILE_ID, PARTITION, SOURCE],
        };
        Ok(names.iter().flat_map(|n| n.bytes().chain([0])).collect())
    }
}

fn dir_value(place: &Place, name: &str) -> Option<Vec<u8>> {
    let Place::Dir(dir) = place else { return None };
    match name {
        PARTITION => Some(dir.part.path.as_str().into()),
        SOURCE => {
            let base = dir.part.state.table.source.storage().uri();
            let path = dir.part.path.as_str();
            Some(if path.is_empty() { base.into() } else { format!("{base}/{path}").into_bytes() })
        }
        _ => None,
    }
}
