//! Writing through a daemon.

use super::source::Source;
use super::{Order, failed, name};
use crate::cli::Stop;
use crate::cli::progress::{Bar, TICK};
use crate::control::client::{Client, percent};
use crate::control::job::Outcome;
use crate::control::types::{BeginRequest, JobStatus, PartitionsRequest, RollbackRequest, Services, Transaction};
use crate::control::writes::{CallOptions, ServiceCall};
use crate::error::{Error, Result};
use crate::write::{CommitReport, Operation};
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What a daemon answers with, and afterwards once more about its job.
const PREFER: (&str, &str) = ("prefer", "respond-async, wait=1");
const ACCEPTED: u16 = 202;

/// Any answer to a write.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Job(Box<JobStatus>),
    Commit(Box<CommitReport>),
    Services(Services),
}

/// One commit: one request, or a transaction of several.
pub fn write(client: &Client, table: &str, mut order: Order, bar: &mut Bar) -> Result<Outcome, Stop> {
    let table_path = format!("/v1/tables/{}", percent(table));
    let key = order.idempotency_key.clone();
    let mut headers = vec![PREFER];
    headers.extend(key.as_deref().map(|key| ("idempotency-key", key)));
    let result = match (order.operation, order.sources.len()) {
        (Operation::DeletePartition, _) => {
            let path = format!("{table_path}/delete_partition?{}", query(&order));
            let body = PartitionsRequest { partitions: std::mem::take(&mut order.partitions) };
            client.order(&path, &headers, &body)
        }
        (_, 1) => match order.sources.pop() {
            Some(source) => {
                let path = format!("{table_path}/{}?{}", name(order.operation), query(&order));
                upload(client, &path, &headers, source, bar)
            }
            None => Err(Error::internal("a source that is not there")),
        },
        _ => return transaction(client, table, order, &headers, bar),
    };
    end(client, result.map_err(failed)?, bar)
}

/// One table service.
pub fn service(
    client: &Client,
    table: &str,
    call: &ServiceCall,
    options: &CallOptions,
    bar: &mut Bar,
) -> Result<Outcome, Stop> {
    let what = match call {
        ServiceCall::VerifyMetadata => "metadata/verify",
        ServiceCall::RebuildMetadata(_) => "metadata/rebuild",
        call => call.name(),
    };
    let mut pairs = settings(options);
    if options.drop_unsupported_index {
        pairs.push("drop_unsupported_index=true".to_owned());
    }
    if let ServiceCall::RebuildMetadata(partitions) = call {
        pairs.extend(partitions.iter().map(|partition| format!("partition={}", percent(partition))));
    }
    let path = format!("/v1/tables/{}/{what}?{}", percent(table), pairs.join("&"));
    let answer = match call {
        ServiceCall::Rollback(instant) => client.order(&path, &[PREFER], &RollbackRequest { instant: instant.clone() }),
        _ => client.ask("POST", &path, &[PREFER]),
    };
    end(client, answer.map_err(failed)?, bar)
}

fn upload<T: serde::de::DeserializeOwned + Send>(
    client: &Client,
    path: &str,
    headers: &[(&str, &str)],
    source: Source,
    bar: &mut Bar,
) -> Result<(u16, T)> {
    let sent = Arc::new(AtomicU64::new(0));
    let (total, media_type) = (source.len(), source.format().media_type());
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", media_type)]).collect();
    let reader = source.into_reader();
    bar.while_sending(&sent, total, || client.upload(path, &headers, reader, sent.clone()))
}

/// Several sources in one commit. Whatever fails, the transaction does not stay open.
fn transaction(
    client: &Client,
    table: &str,
    order: Order,
    headers: &[(&str, &str)],
    bar: &mut Bar,
) -> Result<Outcome, Stop> {
    let request = BeginRequest {
        table: Some(table.to_owned()),
        operation: Some(name(order.operation)),
        ttl_seconds: None,
        index: order.options.index.map(|index| index.name().to_owned()),
        settings: order.options.settings,
        services: order.options.no_services.then_some(false),
        drop_unsupported_index: order.options.drop_unsupported_index,
    };
    let begun: Transaction = client.post("/v1/transactions", &request).map_err(failed)?;
    let path = format!("/v1/transactions/{}", percent(&begun.id));
    let committed = order
        .sources
        .into_iter()
        .try_for_each(|source| upload::<Transaction>(client, &format!("{path}/records"), &[], source, bar).map(|_| ()))
        .and_then(|()| client.ask("POST", &format!("{path}/commit?dry_run={}", order.dry_run), headers))
        .map_err(failed)
        .and_then(|answer| end(client, answer, bar));
    if committed.is_err() || order.dry_run {
        // It would time out by itself.
        let _ = client.ask::<()>("DELETE", &path, &[]);
    }
    committed
}

/// Follows a job to its end.
fn end(client: &Client, (status, answer): (u16, Answer), bar: &mut Bar) -> Result<Outcome, Stop> {
    let mut job = match answer {
        Answer::Commit(report) if status != ACCEPTED => return Ok(Outcome::Commit(*report)),
        Answer::Services(services) if status != ACCEPTED => return Ok(Outcome::Services(services.services)),
        Answer::Job(job) if status == ACCEPTED => *job,
        _ => return Err(Error::internal("the daemon's answer is not what its status says").into()),
    };
    let path = format!("/v1/jobs/{}", percent(&job.id));
    let prefer = format!("wait={}", TICK.as_secs().max(1));
    loop {
        match (job.state.as_str(), job.commit, job.services, job.error) {
            ("running", ..) => {}
            (_, Some(report), ..) => return Ok(Outcome::Commit(report)),
            (_, _, Some(services), _) => return Ok(Outcome::Services(services)),
            (_, _, _, Some(problem)) => return Err(failed(problem.into_error())),
            _ => return Err(Error::internal("the job ended without a result").into()),
        }
        job = client.ask::<JobStatus>("GET", &path, &[("prefer", &prefer)]).map_err(failed)?.1;
        bar.job(&job);
    }
}

fn query(order: &Order) -> String {
    let mut pairs = settings(&order.options);
    pairs.extend(order.options.index.map(|index| format!("index={}", index.name())));
    for (name, wanted, value) in [
        ("dry_run", order.dry_run, true),
        ("services", order.options.no_services, false),
        ("drop_unsupported_index", order.options.drop_unsupported_index, true),
    ] {
        if wanted {
            pairs.push(format!("{name}={value}"));
        }
    }
    pairs.join("&")
}

fn settings(options: &CallOptions) -> Vec<String> {
    options.settings.iter().map(|(key, value)| format!("set={}", percent(&format!("{key}={value}")))).collect()
}
