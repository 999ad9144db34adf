//! Clients for each protocol, from options and the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`, Hadoop's own files).

use super::super::location::StoreKind;
use super::super::{StorageOptions, StorageStats, runtime::runtime};
use super::counting::CountingConnector;
use super::error::store_error;
use super::profile::{self, Profile};
use crate::error::{Error, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use std::sync::Arc;
use std::time::Duration;

/// Attempts after the first; the time budget usually ends earlier.
const RETRIES_MAX: usize = 10;
/// No byte for this long means that the connection is dead.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// No single request takes longer, however it trickles.
const REQUEST_MAX: Duration = Duration::from_secs(300);

/// Makes the client; sends nothing.
pub(super) fn connect(
    kind: StoreKind,
    uri: &str,
    authority: &str,
    options: &StorageOptions,
    stats: &Arc<StorageStats>,
) -> Result<Arc<dyn ObjectStore>> {
    let built = match kind {
        StoreKind::S3 => {
            let unsigned = options.no_sign_request;
            let profile = if unsigned { Profile::default() } else { profile::load(|name| std::env::var(name).ok())? };
            s3(authority, options, profile, stats)
        }
        StoreKind::Gcs => gcs(authority, options, stats),
        StoreKind::Azure => azure(uri, options, stats),
        StoreKind::Hdfs => return super::hdfs::connect(authority, runtime()?.handle().clone()),
    };
    built.map_err(|e| match store_error(uri, e) {
        e if e.hint().is_some() => {
            Error::invalid(e.message().to_owned()).with_hint("check the URI, the options and the environment")
        }
        e => e,
    })
}

fn s3(
    bucket: &str,
    options: &StorageOptions,
    profile: Profile,
    stats: &Arc<StorageStats>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let from_env = AmazonS3Builder::from_env();
    let known = from_env.get_config_value(&AmazonS3ConfigKey::Region).is_some();
    let mut builder = from_env
        .with_bucket_name(bucket)
        .with_retry(retry(options))
        .with_http_connector(CountingConnector { stats: stats.clone() });
    for (key, value) in client_settings(options, endpoint_from_env("AWS")) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    if let Some((id, secret, token)) = profile.keys {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        builder = token.into_iter().fold(builder, AmazonS3Builder::with_token);
    }
    if let Some(region) = options.region.clone().or(profile.region.filter(|_| !known)) {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &options.endpoint_url {
        // AWS_ENDPOINT_URL_S3 would go before the general endpoint.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    if options.no_sign_request {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

fn gcs(
    bucket: &str,
    options: &StorageOptions,
    stats: &Arc<StorageStats>,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retry(options))
        .with_http_connector(CountingConnector { stats: stats.clone() });
    for (key, value) in client_settings(options, None) {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    if let Some(endpoint) = &options.endpoint_url {
        builder = builder.with_base_url(endpoint);
    }
    if options.no_sign_request {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

fn azure(uri: &str, options: &StorageOptions, stats: &Arc<StorageStats>) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_url(uri)
        .with_retry(retry(options))
        .with_http_connector(CountingConnector { stats: stats.clone() });
    for (key, value) in client_settings(options, endpoint_from_env("AZURE")) {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    if let Some(endpoint) = &options.endpoint_url {
        builder = builder.with_endpoint(endpoint.clone());
    }
    if options.no_sign_request {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

fn retry(options: &StorageOptions) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: RETRIES_MAX,
        retry_timeout: options.retry_budget,
    }
}

/// Set one by one, so that proxies and certificates from the environment stay.
fn client_settings(options: &StorageOptions, endpoint: Option<String>) -> Vec<(ClientConfigKey, String)> {
    let seconds = |limit: Duration| format!("{} s", limit.as_secs_f64().ceil().max(1.0));
    let mut settings = vec![
        (ClientConfigKey::Timeout, seconds(REQUEST_MAX)),
        (ClientConfigKey::ReadTimeout, seconds(SILENCE_MAX.min(options.retry_budget))),
        (ClientConfigKey::ConnectTimeout, seconds(CONNECT_MAX.min(options.retry_budget))),
        (ClientConfigKey::PoolMaxIdlePerHost, options.requests_max.to_string()),
    ];
    // An endpoint that is written as http:// is meant so.
    if options.endpoint_url.clone().or(endpoint).is_some_and(|e| e.starts_with("http://")) {
        settings.push((ClientConfigKey::AllowHttp, "true".to_owned()));
    }
    settings
}

fn endpoint_from_env(prefix: &str) -> Option<String> {
    [format!("{prefix}_ENDPOINT_URL"), format!("{prefix}_ENDPOINT"), format!("{prefix}_ENDPOINT_URL_S3")]
        .iter()
        .find_map(|name| std::env::var(name).ok())
}
