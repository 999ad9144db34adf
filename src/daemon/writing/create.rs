//! Creating tables.

use crate::control::problem::Failure;
use crate::control::types::{CreateRequest, TableStatus};
use crate::daemon::service::Service;
use crate::error::{Error, Result};
use crate::storage::Storage;
use std::sync::Arc;

/// Creates a table in the warehouse of a service, and shows it.
pub fn in_warehouse(service: &Service, request: &CreateRequest) -> Result<TableStatus, Failure> {
    let (path, storage) = service.place_of(&request.name)?;
    create_table(storage, request)?;
    service.show_created(&path)
}

/// Creates a table at the root of `storage`.
pub fn create_table(_storage: Arc<dyn Storage>, _request: &CreateRequest) -> Result<()> {
    Err(Error::internal("tables are not created yet"))
}
