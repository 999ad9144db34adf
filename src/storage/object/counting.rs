//! Counts HTTP requests where they leave: retries, pages of a listing and token requests included, nothing estimated.

use super::super::StorageStats;
use crate::telemetry::label::StorageOp;
use crate::telemetry::metric::STORAGE_RETRIES;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Makes clients that count into `stats`.
#[derive(Debug)]
pub(super) struct CountingConnector {
    pub(super) stats: Arc<StorageStats>,
}

impl HttpConnector for CountingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(CountingService { inner, stats: self.stats.clone() }))
    }
}

#[derive(Debug)]
struct CountingService {
    inner: HttpClient,
    stats: Arc<StorageStats>,
}

impl HttpService for CountingService {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let (counter, op) = match (request.method().as_str(), is_listing(request.uri().query())) {
            ("HEAD", _) => (&self.stats.heads, StorageOp::Stat),
            ("GET", true) => (&self.stats.lists, StorageOp::List),
            ("PUT", _) => (&self.stats.puts, StorageOp::Put),
            // Several deletes in one request are a POST, and so are the first and the last request of a multipart upload.
            ("POST", _) if has_parameter(request.uri().query(), "delete") => (&self.stats.deletes, StorageOp::Delete),
            ("POST", _) => (&self.stats.puts, StorageOp::Put),
            ("DELETE", _) => (&self.stats.deletes, StorageOp::Delete),
            _ => (&self.stats.gets, StorageOp::ReadRange),
        };
        StorageStats::add(counter, 1);
        Box::pin(async move {
            let answer = self.inner.execute(request).await;
            let (failed, again) = match &answer {
                Ok(response) => (is_failure(response.status().as_u16()), is_retried(response.status().as_u16())),
                Err(_) => (true, true),
            };
            StorageStats::add(&self.stats.errors, failed.into());
            StorageStats::add(&self.stats.retries, again.into());
            STORAGE_RETRIES.add(op, again.into());
            answer
        })
    }
}

/// S3 and GCS list with `list-type=2`, Azure with `comp=list`.
fn is_listing(query: Option<&str>) -> bool {
    query.is_some_and(|q| q.split('&').any(|p| p == "list-type=2" || p == "comp=list"))
}

fn has_parameter(query: Option<&str>, name: &str) -> bool {
    query.is_some_and(|q| q.split('&').any(|p| p.split('=').next() == Some(name)))
}

/// A missing object is an answer, and so is one that a conditional request found changed.
fn is_failure(status: u16) -> bool {
    status >= 400 && status != 404 && status != 412
}

/// The answers after which `object_store` tries again, unless its budget is spent.
fn is_retried(status: u16) -> bool {
    status >= 500 || status == 429 || status == 408
}
