//! The routes that change tables: one request, one commit.
//!
//! A request is checked, its body taken in whole, and handed over as a job; the answer waits for the job, or names it where the
//! client prefers that. A client that goes away does not stop a job that was taken.

use super::prefer::{self, WriteQuery};
use super::receive;
use super::respond::{Answer, body, json};
use super::routes::{Shared, parsed, segment};
use crate::control::job::{Job, Outcome};
use crate::control::problem::{Failure, Problem};
use crate::control::types::{CreateRequest, PartitionsRequest, RollbackRequest, Services};
use crate::control::writes::{ServiceCall, WriteCall};
use crate::write::Operation;
use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;
use std::time::Duration;

/// A path's one parameter.
pub(super) type Segment = Result<Path<String>, PathRejection>;
/// A query, names and values in order.
pub(super) type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

pub(super) fn router() -> Router<Shared> {
    let rows = |operation| {
        post(move |shared: State<Shared>, table: Segment, query: Pairs, request: Request| {
            write(shared, operation, table, query, request)
        })
    };
    let service = |call: ServiceCall| {
        post(move |shared: State<Shared>, table: Segment, query: Pairs, request: Request| {
            service(shared, call.clone(), table, query, request)
        })
    };
    Router::new()
        .route("/v1/tables/{table}/upsert", rows(Operation::Upsert))
        .route("/v1/tables/{table}/insert", rows(Operation::Insert))
        .route("/v1/tables/{table}/bulk_insert", rows(Operation::BulkInsert))
        .route("/v1/tables/{table}/delete", rows(Operation::Delete))
        .route("/v1/tables/{table}/delete_partition", post(delete_partition))
        .route("/v1/tables/{table}/insert_overwrite", rows(Operation::InsertOverwrite))
        .route("/v1/tables/{table}/insert_overwrite_table", rows(Operation::InsertOverwriteTable))
        .route("/v1/tables/{table}/clean", service(ServiceCall::Clean))
        .route("/v1/tables/{table}/compact", service(ServiceCall::Compact))
        .route("/v1/tables/{table}/archive", service(ServiceCall::Archive))
        .route("/v1/tables/{table}/rollback", service(ServiceCall::Rollback(None)))
        .route("/v1/tables/{table}/metadata/verify", service(ServiceCall::VerifyMetadata))
        .route("/v1/tables/{table}/metadata/rebuild", service(ServiceCall::RebuildMetadata(Vec::new())))
        .route("/v1/jobs", get(jobs))
        .route("/v1/jobs/{id}", get(job))
}

pub(super) async fn create(State(shared): State<Shared>, request: Request) -> Answer {
    let writes = shared.writes()?;
    let request: CreateRequest = body(request, shared.limits).await?;
    let created = super::blocking(move || writes.create(&request)).await?;
    json(StatusCode::CREATED, &created)
}

async fn write(
    State(shared): State<Shared>,
    operation: Operation,
    table: Segment,
    query: Pairs,
    request: Request,
) -> Answer {
    let table = segment(table)?;
    let WriteQuery { dry_run, options, .. } = prefer::query(pairs(query)?, prefer::WRITE)?;
    let idempotency_key = prefer::idempotency_key(request.headers())?;
    let patience = prefer::patience(request.headers());
    let writes = shared.writes()?;
    writes.check(&table)?;
    let bodies = vec![receive::records(request, shared.limits).await?];
    let call = WriteCall { operation, bodies, partitions: Vec::new(), dry_run, idempotency_key, options };
    let job = super::blocking(move || writes.write(&table, call)).await?;
    answer(job, patience).await
}

async fn delete_partition(State(shared): State<Shared>, table: Segment, query: Pairs, request: Request) -> Answer {
    let table = segment(table)?;
    let query = prefer::query(pairs(query)?, prefer::DELETE_PARTITION)?;
    let idempotency_key = prefer::idempotency_key(request.headers())?;
    let patience = prefer::patience(request.headers());
    let writes = shared.writes()?;
    writes.check(&table)?;
    let request: PartitionsRequest = body(request, shared.limits).await?;
    let partitions: Vec<String> = query.partitions.into_iter().chain(request.partitions).collect();
    if partitions.is_empty() {
        let problem = Problem::new("invalid", "no partition is named").hint("name them with partition= in the query");
        return Err(Problem { column: Some("partition".to_owned()), ..problem }.into());
    }
    let call = WriteCall {
        operation: Operation::DeletePartition,
        bodies: Vec::new(),
        partitions,
        dry_run: query.dry_run,
        idempotency_key,
        options: query.options,
    };
    let job = super::blocking(move || writes.write(&table, call)).await?;
    answer(job, patience).await
}

async fn service(
    State(shared): State<Shared>,
    call: ServiceCall,
    table: Segment,
    query: Pairs,
    request: Request,
) -> Answer {
    let table = segment(table)?;
    let known = if matches!(call, ServiceCall::RebuildMetadata(_)) { prefer::REBUILD } else { prefer::SERVICE };
    let query = prefer::query(pairs(query)?, known)?;
    let patience = prefer::patience(request.headers());
    let writes = shared.writes()?;
    writes.check(&table)?;
    let call = match call {
        ServiceCall::Rollback(_) => {
            ServiceCall::Rollback(body::<RollbackRequest>(request, shared.limits).await?.instant)
        }
        ServiceCall::RebuildMetadata(_) => ServiceCall::RebuildMetadata(query.partitions),
        call => call,
    };
    let job = super::blocking(move || writes.service(&table, call, query.options)).await?;
    answer(job, patience).await
}

async fn jobs(State(shared): State<Shared>) -> Answer {
    json(StatusCode::OK, &shared.writes()?.jobs())
}

/// A job as it is now; with `Prefer: wait=SECONDS`, when it has ended or that time is over.
async fn job(State(shared): State<Shared>, id: Segment, request: Request) -> Answer {
    let job = shared.writes()?.job(&segment(id)?)?;
    let wait = prefer::wait(request.headers()).unwrap_or_default();
    let _ = tokio::time::timeout(wait, job.ended()).await;
    json(StatusCode::OK, &job.status())
}

/// Waits for a job as long as the client wants to, and answers with its result or its name.
pub(super) async fn answer(job: Arc<Job>, patience: Option<Duration>) -> Answer {
    let ended = match patience {
        None => Some(job.ended().await),
        // Without a wait the answer is a job, however soon that ends.
        Some(Duration::ZERO) => None,
        Some(wait) => tokio::time::timeout(wait, job.ended()).await.ok(),
    };
    let Some(result) = ended else { return accepted(&job) };
    match result.map_err(|failure| failure.table(job.table()))? {
        Outcome::Commit(report) => json(StatusCode::OK, &report),
        Outcome::Services(services) => json(StatusCode::OK, &Services { services }),
    }
}

fn accepted(job: &Job) -> Answer {
    let mut response: Response = json(StatusCode::ACCEPTED, &job.status())?;
    let location = HeaderValue::try_from(format!("/v1/jobs/{}", job.id()))
        .map_err(|_| Problem::new("internal", "a job's name is no path"))?;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert("preference-applied", HeaderValue::from_static("respond-async"));
    Ok(response)
}

pub(super) fn pairs(query: Pairs) -> Result<Vec<(String, String)>, Failure> {
    parsed(query, "write name=value, percent-encoded, joined by &")
}
