//! Real servers for tests, started at the first use and shared by all tests of the process; they end with it.

use object_store::{ObjectStore, ObjectStoreExt, path::Path as Key};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

/// An S3 server with the bucket `hudifs`; the environment's `AWS_*` variables lead to it.
pub struct S3 {
    /// `http://127.0.0.1:PORT`.
    pub endpoint: String,
}

/// An HDFS with one DataNode.
pub struct Hdfs {
    /// `hdfs://127.0.0.1:PORT`.
    pub uri: String,
}

/// The S3 server; `None`, with a loud skip, where it cannot be had.
pub fn s3() -> Option<&'static S3> {
    static SERVER: OnceLock<Option<S3>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let env = start("s3")?;
        for (name, value) in &env {
            // SAFETY: nothing reads the environment but through std, which locks it.
            unsafe { std::env::set_var(name, value) };
        }
        Some(S3 { endpoint: env.get("AWS_ENDPOINT_URL")?.clone() })
    });
    if server.is_none() {
        crate::common::skipped("no S3 server (scripts/servers/s3 failed)");
    }
    server.as_ref()
}

/// The HDFS; `None`, with a loud skip, where it cannot be had.
pub fn hdfs() -> Option<&'static Hdfs> {
    static SERVER: OnceLock<Option<Hdfs>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Some(Hdfs { uri: start("hdfs")?.remove("HUDIFS_TEST_HDFS")? }));
    if server.is_none() {
        crate::common::skipped("no HDFS (scripts/servers/hdfs failed)");
    }
    server.as_ref()
}

fn start(name: &str) -> Option<HashMap<String, String>> {
    let pid = std::process::id();
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{pid}"));
    let script = crate::common::repo().join("scripts/servers").join(name);
    let output = Command::new("timeout")
        .args(["600".as_ref(), script.as_os_str(), "start".as_ref(), dir.as_os_str()])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .ok()?;
    let lines = String::from_utf8(output.stdout).ok()?;
    let env = lines.lines().filter_map(|l| l.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    output.status.success().then_some(env)
}

/// Writes to a store that tests read: the bucket `hudifs`, or the whole HDFS.
#[derive(Clone, Debug)]
pub struct Writer(Arc<dyn ObjectStore>);

impl S3 {
    /// A writer to the bucket.
    pub fn writer(&self) -> Writer {
        let builder = object_store::aws::AmazonS3Builder::from_env().with_bucket_name("hudifs").with_allow_http(true);
        Writer(Arc::new(builder.build().unwrap()))
    }
}

impl Hdfs {
    /// A writer to the filesystem.
    pub fn writer(&self) -> Writer {
        let runtime = hudifs::storage::runtime::runtime().unwrap().handle().clone();
        let builder =
            hdfs_native_object_store::HdfsObjectStoreBuilder::new().with_url(&self.uri).with_io_runtime(runtime);
        Writer(Arc::new(builder.build().unwrap()))
    }
}

impl Writer {
    /// The store itself.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        self.0.clone()
    }

    /// Runs on the shared runtime.
    pub fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (tx, rx) = std::sync::mpsc::channel();
        hudifs::storage::runtime::runtime().unwrap().spawn(async move { tx.send(work.await) });
        rx.recv_timeout(std::time::Duration::from_secs(120)).expect("the store does not answer")
    }

    /// Creates or replaces an object.
    pub fn put(&self, key: &str, bytes: impl Into<bytes::Bytes>) {
        let (store, key, bytes) = (self.store(), Key::parse(key).unwrap(), bytes.into());
        self.run(async move { store.put(&key, bytes.into()).await }).unwrap();
    }

    /// Removes an object.
    pub fn remove(&self, key: &str) {
        let (store, key) = (self.store(), Key::parse(key).unwrap());
        self.run(async move { store.delete(&key).await }).unwrap();
    }
}
