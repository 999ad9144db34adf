//! All objects below a prefix.
//!
//! A flat listing is one request a thousand objects, one after the other. Where that gets long, the prefix is split by
//! its directories and those are listed side by side. HDFS has no flat listing: there every directory is one request.

use super::client::Client;
use super::error::store_error;
use crate::error::{Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Objects listed in sequence before a prefix is split: two pages.
const SPLIT_AFTER: usize = 2000;
/// Prefixes listed at once.
const PREFIXES_MAX: usize = 32;
/// Levels of directories; deeper ones are listed flat.
const DEPTH_MAX: u32 = 64;
/// A store that sends no page for this long is given up.
const PAGE_MAX: Duration = Duration::from_secs(120);

/// Work of a listing: what was found, and prefixes still to be listed.
type Part = (Vec<ObjectMeta>, Vec<Path>);

/// All objects below `prefix`, in no order.
pub(super) async fn list_flat(client: Arc<Client>, prefix: Path) -> Result<Vec<ObjectMeta>> {
    let mut found = Vec::new();
    let mut todo = vec![(prefix, 0)];
    let mut running: FuturesUnordered<BoxFuture<'static, (u32, Result<Part>)>> = FuturesUnordered::new();
    loop {
        while running.len() < PREFIXES_MAX
            && let Some((prefix, depth)) = todo.pop()
        {
            let client = client.clone();
            running.push(async move { (depth, list_part(client, prefix, depth < DEPTH_MAX).await) }.boxed());
        }
        let Some((depth, part)) = running.next().await else { return Ok(found) };
        let (objects, prefixes) = part?;
        found.extend(objects);
        todo.extend(prefixes.into_iter().map(|prefix| (prefix, depth + 1)));
    }
}

/// Lists a prefix flat while that is short or nothing is gained by splitting it; else its first level only.
async fn list_part(client: Arc<Client>, prefix: Path, may_split: bool) -> Result<Part> {
    if client.http {
        let turn = client.turn(super::client::Urgency::Demand).await?;
        let mut objects = Vec::new();
        let mut stream = client.store.list(Some(&prefix));
        loop {
            let next = tokio::time::timeout(PAGE_MAX, stream.next()).await.map_err(|_| stalled(&client, &prefix))?;
            let Some(object) = next else { return Ok((objects, Vec::new())) };
            objects.push(object.map_err(|e| store_error(&client.describe(&prefix), e))?);
            if may_split && objects.len() == SPLIT_AFTER && objects.iter().any(|o| is_deeper(&prefix, &o.location)) {
                break;
            }
        }
        drop(turn);
    }
    let level = client.list(&prefix).await?;
    Ok((level.objects, level.common_prefixes))
}

fn is_deeper(prefix: &Path, location: &Path) -> bool {
    location.as_ref().get(prefix.as_ref().len()..).is_some_and(|rest| rest.trim_start_matches('/').contains('/'))
}

fn stalled(client: &Client, prefix: &Path) -> Error {
    let message = format!("{}: no page of the listing within {PAGE_MAX:?}", client.describe(prefix));
    Error::new(crate::error::ErrorKind::Unavailable, message)
}
