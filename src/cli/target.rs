//! What a command looks at: a daemon through its socket, or a table by its URI.
//!
//! A path inside a mount leads to its daemon through `.hudifs/control.sock`, which is reachable by name from the mount's root.
//! A URI, or a directory that holds `.hoodie`, is opened here, without a daemon; both answer the same questions.

use super::args::StoreArgs;
use super::{Stop, exit, settings};
use crate::control::Handler;
use crate::control::client::{Client, percent};
use crate::control::problem::Failure;
use crate::control::sink::FileSink;
use crate::control::types::{FilesQuery, RefreshRequest, Refreshed, Tables, Timeline, TimelineQuery};
use crate::daemon::Service;
use crate::daemon::is_dead;
use crate::daemon::service::ServiceOptions;
use crate::error::{Error, ErrorKind};
use serde_json::Value;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something that answers.
pub enum Target {
    /// A daemon, and the table that a path inside its mount belongs to.
    Daemon {
        /// Its socket.
        client: Client,
        /// A table of the mount; an empty name is the only one.
        table: String,
    },
    /// A table that this process has opened.
    Direct(Arc<Service>),
}

/// The mount that a path lies in.
#[derive(Debug)]
pub struct MountOf {
    /// Its root.
    pub root: PathBuf,
    /// Its daemon's socket.
    pub socket: PathBuf,
    /// The path below the root.
    pub below: PathBuf,
}

impl Target {
    /// Finds out what `text` names, and opens it.
    pub fn find(text: &str, store: &StoreArgs) -> Result<Target, Stop> {
        let path = Path::new(text);
        if is_uri(text) || path.join(".hoodie").is_dir() {
            return Self::open(text, store);
        }
        let found = std::fs::metadata(path);
        if let Ok(found) = &found
            && found.file_type().is_socket()
        {
            return Ok(Target::Daemon { client: Client::new(path), table: String::new() });
        }
        if is_dead(path) {
            return Err(dead_mount(path).into());
        }
        if let Some(mount) = mount_of(path) {
            let client = Client::new(&mount.socket);
            let table = table_of(&client, &mount)?;
            return Ok(Target::Daemon { client, table });
        }
        match found {
            Ok(_) => Err(Stop::table(
                Error::not_found(format!("{text} is neither a mount of hudifs nor a Hudi table"))
                    .with_hint("a table's base path holds a directory named .hoodie"),
            )),
            Err(error) => Err(Stop::table(Error::io(text, error))),
        }
    }

    fn open(uri: &str, store: &StoreArgs) -> Result<Target, Stop> {
        let options = ServiceOptions {
            storage: settings::storage_options(store)?,
            listing: settings::listing(store),
            memory_target_bytes: store.memory_target,
            ..ServiceOptions::default()
        };
        Ok(Target::Direct(Arc::new(Service::table(uri, options).map_err(Stop::table)?)))
    }

    /// Status as a document.
    pub fn status(&self) -> Result<Value, Stop> {
        match self {
            Target::Daemon { client, .. } => Ok(client.get("/v1/status")?),
            Target::Direct(service) => {
                let status = Handler::status(&**service);
                Ok(serde_json::to_value(status).map_err(|e| Error::internal(e.to_string()))?)
            }
        }
    }

    /// Every table.
    pub fn tables(&self) -> Result<Tables, Stop> {
        match self {
            Target::Daemon { client, .. } => Ok(client.get("/v1/tables")?),
            Target::Direct(service) => Ok(Handler::tables(&**service)),
        }
    }

    /// The instants of a table, with what commits wrote, and those that are archived where they are asked for.
    pub fn timeline(&self, table: Option<&str>, archived: bool) -> Result<Timeline, Stop> {
        let query = TimelineQuery { counts: true, archived };
        match self {
            Target::Daemon { client, .. } => {
                let name = self.table_name(table)?;
                let path = format!("/v1/tables/{}/timeline?counts=true&archived={archived}", percent(&name));
                client.get(&path).map_err(Stop::table)
            }
            Target::Direct(service) => service.timeline("", query).map_err(|failure| Stop::table(failure.into())),
        }
    }

    /// The files of a view.
    pub fn files(&self, table: Option<&str>, query: &FilesQuery, sink: &mut dyn FileSink) -> Result<(), Stop> {
        let result = match self {
            Target::Daemon { client, .. } => client.files(&self.table_name(table)?, query, sink),
            Target::Direct(service) => service.files("", query, sink),
        };
        result.map_err(files_failure)
    }

    /// Looks for new commits.
    pub fn refresh(&self) -> Result<Refreshed, Stop> {
        match self {
            Target::Daemon { client, .. } => Ok(client.post("/v1/refresh", &RefreshRequest::default())?),
            Target::Direct(_) => Err(Error::invalid("no daemon runs for this table")
                .with_hint("a table URI is read anew each time; refresh a mount")
                .into()),
        }
    }

    /// The table that is meant: the one that was named, the one that the path lies in, or the only one.
    pub fn table_name(&self, named: Option<&str>) -> Result<String, Stop> {
        let Target::Daemon { client, table } = self else { return Ok(String::new()) };
        match named {
            Some(name) => return Ok(name.to_owned()),
            None if !table.is_empty() => return Ok(table.clone()),
            None => {}
        }
        let names = table_names(client)?;
        match names.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(Stop::Failed(Error::not_found("the mount has no table yet"), exit::NO_TABLE)),
            several => Err(Error::invalid(format!("the mount has {} tables", several.len()))
                .with_hint("name one with --table, or give its directory in the mount")
                .into()),
        }
    }
}

/// A failure of a list of files: a partition that is not there is no missing table.
fn files_failure(failure: Failure) -> Stop {
    let of_table = failure.0.partition.is_none() && failure.0.instant.is_none();
    if failure.0.detail.starts_with("output") || failure.0.detail.starts_with("list of files:") {
        // The only writer that can fail here is standard output.
        return Stop::PipeClosed;
    }
    let error: Error = failure.into();
    if of_table { Stop::table(error) } else { error.into() }
}

fn is_uri(text: &str) -> bool {
    text.contains("://") || text.starts_with("file:/")
}

/// What to say about a mount whose daemon has died.
fn dead_mount(path: &Path) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{}: the mount is dead: its daemon has ended", path.display()))
        .with_hint("remove it with `hudifs umount`, or mount again, which replaces it")
}

/// The mount that a path lies in, if it is one of ours.
pub fn mount_of(path: &Path) -> Option<MountOf> {
    let full = std::path::absolute(path).ok()?;
    let full = std::fs::canonicalize(&full).unwrap_or(full);
    let socket_of = |root: &Path| std::fs::read_link(root.join(".hudifs/control.sock")).ok();
    let (inner, socket) = full.ancestors().find_map(|root| Some((root, socket_of(root)?)))?;
    // Each table of a warehouse has the link, too: the mount's root is the outermost with the same socket.
    let same = inner.ancestors().filter(|root| socket_of(root).as_ref() == Some(&socket));
    let root = same.last().unwrap_or(inner).to_owned();
    let below = full.strip_prefix(&root).ok()?.to_owned();
    Some(MountOf { root, socket, below })
}

fn table_names(client: &Client) -> Result<Vec<String>, Error> {
    let tables: Tables = client.get("/v1/tables")?;
    Ok(tables.tables.into_iter().map(|t| t.name).collect())
}

/// The table of a warehouse that a path lies in; empty for the mount's root and for a mount of one table.
fn table_of(client: &Client, mount: &MountOf) -> Result<String, Error> {
    if mount.below.as_os_str().is_empty() {
        return Ok(String::new());
    }
    let names = table_names(client)?;
    Ok(names.into_iter().find(|name| mount.below.starts_with(name)).unwrap_or_default())
}
