//! Counts HTTP requests where they leave: retries, pages of a listing and token requests included, nothing estimated.

use super::super::StorageStats;
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
        let counter = match (request.method().as_str(), is_listing(request.uri().query())) {
            ("HEAD", _) => &self.stats.heads,
            ("GET", true) => &self.stats.lists,
            _ => &self.stats.gets,
        };
        StorageStats::add(counter, 1);
        Box::pin(async move {
            let answer = self.inner.execute(request).await;
            match &answer {
                Ok(response) if retried(response.status().as_u16()) => {
                    StorageStats::add(&self.stats.errors, 1);
                    StorageStats::add(&self.stats.retries, 1);
                }
                Ok(response) if response.status().is_success() || response.status().as_u16() == 404 => {}
                Ok(_) => StorageStats::add(&self.stats.errors, 1),
                Err(_) => {
                    StorageStats::add(&self.stats.errors, 1);
                    StorageStats::add(&self.stats.retries, 1);
                }
            }
            answer
        })
    }
}

/// S3 and GCS list with `list-type=2`, Azure with `comp=list`.
fn is_listing(query: Option<&str>) -> bool {
    query.is_some_and(|q| q.split('&').any(|p| p == "list-type=2" || p == "comp=list"))
}

/// The answers after which `object_store` tries again, unless its budget is spent.
fn retried(status: u16) -> bool {
    status >= 500 || status == 429 || status == 408
}
