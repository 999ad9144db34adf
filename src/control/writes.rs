//! What the server asks of whoever writes. The daemon answers for a mount, the command line for a table URI.
//!
//! Calls check and take the work, and return at once with a [`Job`]; a call that is refused has changed nothing.

use super::body::RecordBody;
use super::job::Job;
use super::problem::{Failure, Problem};
use super::types::{BeginRequest, CreateRequest, Jobs, TableStatus, Transaction, Transactions};
use crate::write::{IndexKind, Operation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a call wants to be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// The kind of index; `None`: the table's.
    pub index: Option<IndexKind>,
    /// Hudi's write settings by their own names.
    pub settings: BTreeMap<String, String>,
    /// Leave the table services for later.
    pub no_services: bool,
    /// Drop indexes of the metadata table that cannot be maintained here, instead of refusing the table.
    pub drop_unsupported_index: bool,
}

/// One commit that is asked for.
#[derive(Debug)]
pub struct WriteCall {
    /// What to do.
    pub operation: Operation,
    /// The rows, body after body.
    pub bodies: Vec<RecordBody>,
    /// The partitions to delete.
    pub partitions: Vec<String>,
    /// Only tell what would be done.
    pub dry_run: bool,
    /// Makes a retry return the first result.
    pub idempotency_key: Option<String>,
    /// How.
    pub options: CallOptions,
}

/// A table service that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceCall {
    /// Remove old file versions.
    Clean,
    /// Merge log files into base files.
    Compact,
    /// Move old instants out of the active timeline.
    Archive,
    /// Undo failed writes: all, or the pending one of an instant.
    Rollback(Option<String>),
    /// Compare the metadata table with the storage.
    VerifyMetadata,
    /// Make the metadata table anew, with these partitions; none: with those that it has.
    RebuildMetadata(Vec<String>),
}

impl ServiceCall {
    /// The service's name.
    pub fn name(&self) -> &'static str {
        match self {
            ServiceCall::Clean => "clean",
            ServiceCall::Compact => "compact",
            ServiceCall::Archive => "archive",
            ServiceCall::Rollback(_) => "rollback",
            ServiceCall::VerifyMetadata => "metadata_verify",
            ServiceCall::RebuildMetadata(_) => "metadata_rebuild",
        }
    }
}

/// Whoever writes.
pub trait Writes: Send + Sync + 'static {
    /// Refuses what would be refused whatever the body holds: an unknown table, a daemon that takes no writes.
    fn check(&self, table: &str) -> Result<(), Failure>;

    /// Creates a table and shows it. Blocks.
    fn create(&self, request: &CreateRequest) -> Result<TableStatus, Failure>;

    /// Takes a write.
    fn write(&self, table: &str, call: WriteCall) -> Result<Arc<Job>, Failure>;

    /// Takes a table service.
    fn service(&self, table: &str, call: ServiceCall, options: CallOptions) -> Result<Arc<Job>, Failure>;

    /// A job that runs or ended lately.
    fn job(&self, id: &str) -> Result<Arc<Job>, Failure>;

    /// All of them.
    fn jobs(&self) -> Jobs;

    /// Opens a transaction.
    fn begin(&self, request: &BeginRequest) -> Result<Transaction, Failure>;

    /// Open transactions.
    fn transactions(&self) -> Transactions;

    /// One of them.
    fn transaction(&self, id: &str) -> Result<Transaction, Failure>;

    /// Adds records to a transaction, after reading through them. Blocks.
    fn append(&self, id: &str, body: RecordBody) -> Result<Transaction, Failure>;

    /// Takes the commit of a transaction. It stays open if the commit fails.
    fn commit(&self, id: &str, dry_run: bool, idempotency_key: Option<String>) -> Result<Arc<Job>, Failure>;

    /// Ends a transaction without a trace.
    fn abort(&self, id: &str) -> Result<(), Failure>;
}

/// Settings are Hudi's by their own names, and the few of hudifs.
pub fn check_setting(key: &str) -> Result<(), Failure> {
    if (key.starts_with("hoodie.") || key.starts_with("hudifs."))
        && key.len() <= 512
        && key.bytes().all(|b| b.is_ascii_graphic())
    {
        return Ok(());
    }
    let problem = Problem::new("invalid", format!("{key:?} is not the name of a setting"));
    Err(Problem { column: Some(key.to_owned()), ..problem }
        .hint("names of settings begin with hoodie. or hudifs.")
        .into())
}
