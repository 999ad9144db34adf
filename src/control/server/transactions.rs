//! The routes of transactions: several requests, one commit.

use super::prefer;
use super::receive;
use super::respond::{Answer, body, json};
use super::routes::{Shared, segment};
use super::writes::{Pairs, Segment, answer, pairs};
use crate::control::types::BeginRequest;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/v1/transactions", get(list).post(begin))
        .route("/v1/transactions/{id}", get(show).delete(abort))
        .route("/v1/transactions/{id}/records", post(append))
        .route("/v1/transactions/{id}/commit", post(commit))
        .route("/v1/transactions/{id}/abort", post(abort))
}

async fn begin(State(shared): State<Shared>, request: Request) -> Answer {
    let writes = shared.writes()?;
    let request: BeginRequest = body(request, shared.limits).await?;
    let transaction = super::blocking(move || writes.begin(&request)).await?;
    let mut response: Response = json(StatusCode::CREATED, &transaction)?;
    if let Ok(location) = HeaderValue::try_from(format!("/v1/transactions/{}", transaction.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn list(State(shared): State<Shared>) -> Answer {
    json(StatusCode::OK, &shared.writes()?.transactions())
}

async fn show(State(shared): State<Shared>, id: Segment) -> Answer {
    json(StatusCode::OK, &shared.writes()?.transaction(&segment(id)?)?)
}

async fn append(State(shared): State<Shared>, id: Segment, request: Request) -> Answer {
    let (writes, id) = (shared.writes()?, segment(id)?);
    // Unknown or ended: refused before the body is read.
    writes.transaction(&id)?;
    let records = receive::records(request, shared.limits).await?;
    let transaction = super::blocking(move || writes.append(&id, records)).await?;
    json(StatusCode::OK, &transaction)
}

async fn commit(State(shared): State<Shared>, id: Segment, query: Pairs, request: Request) -> Answer {
    let (writes, id) = (shared.writes()?, segment(id)?);
    let query = prefer::query(pairs(query)?, prefer::COMMIT)?;
    let key = prefer::idempotency_key(request.headers())?;
    let patience = prefer::patience(request.headers());
    let job = super::blocking(move || writes.commit(&id, query.dry_run, key)).await?;
    answer(job, patience).await
}

async fn abort(State(shared): State<Shared>, id: Segment) -> Answer {
    let (writes, id) = (shared.writes()?, segment(id)?);
    super::blocking(move || writes.abort(&id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
