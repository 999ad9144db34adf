//! HDFS behind the same interface: `hdfs-native` speaks the NameNode's and DataNodes' protocols without a JVM.
//!
//! What differs from HTTP stores: there are no conditional reads, so the "ETag" is modification time and size, compared
//! before a read and once more after it ([`super::file`]); a listing of a missing directory is empty as on object stores;
//! and there is no flat listing, so [`super::listing`] walks the tree in parallel.

use super::error::store_error;
use crate::error::Result;
use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store::ObjectStore;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Makes the client. Without an authority, `fs.defaultFS` of Hadoop's configuration (`HADOOP_CONF_DIR`) is meant.
pub(super) fn connect(authority: &str, runtime: Handle) -> Result<Arc<dyn ObjectStore>> {
    let mut builder = HdfsObjectStoreBuilder::new().with_io_runtime(runtime);
    if !authority.is_empty() {
        builder = builder.with_url(format!("hdfs://{authority}"));
    }
    let store = builder.build().map_err(|e| {
        store_error(&format!("hdfs://{authority}"), e)
            .with_hint("a name service is resolved by hdfs-site.xml: set HADOOP_CONF_DIR, or name a NameNode as hdfs://HOST:PORT/PATH")
    })?;
    Ok(Arc::new(store))
}
