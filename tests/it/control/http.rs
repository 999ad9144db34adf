//! A served table, and HTTP spoken byte by byte, so that tests can also send what no client would.

use hudifs::control::server::{self, Handlers, Limits};
use hudifs::control::{Handler, peer};
use hudifs::daemon::service::ServiceOptions;
use hudifs::daemon::{Service, Writing};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A server on a socket of its own; stops when dropped.
pub struct Served {
    pub socket: PathBuf,
    _dir: tempfile::TempDir,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    pub fn table(base: &Path) -> Served {
        Self::table_with(base, Limits::default())
    }

    pub fn table_with(base: &Path, limits: Limits) -> Served {
        let service = Service::table(base.to_str().unwrap(), ServiceOptions::default()).unwrap();
        Self::service(Arc::new(service), limits)
    }

    /// Reads and writes.
    pub fn service(service: Arc<Service>, limits: Limits) -> Served {
        let writes: Arc<dyn hudifs::control::Writes> = Arc::new(Writing::new(service.clone()));
        Self::handlers(Handlers { reads: service, writes: Some(writes) }, limits)
    }

    pub fn warehouse(base: &Path) -> Served {
        let service = Service::warehouse(base.to_str().unwrap(), ServiceOptions::default()).unwrap();
        Self::service(Arc::new(service), Limits::default())
    }

    pub fn handler(reads: Arc<dyn Handler>, limits: Limits) -> Served {
        Self::handlers(Handlers { reads, writes: None }, limits)
    }

    pub fn handlers(handlers: Handlers, limits: Limits) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("control.sock");
        let listener = peer::bind(&socket).unwrap();
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(server::serve(listener, handlers, limits, stopped)).unwrap();
            runtime.shutdown_timeout(Duration::from_secs(5));
        });
        Served { socket, _dir: dir, stop, thread: Some(thread) }
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: hudifs\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        self.raw(&[head.as_bytes(), body].concat())
    }

    /// Sends bytes as they are and reads all that comes back.
    pub fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        // A server may refuse before it has read everything.
        let _ = stream.write_all(bytes);
        Reply::read(stream)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.send(true).unwrap();
        let result = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            result.unwrap();
        }
    }
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// False for a chunked body without its last chunk.
    pub whole: bool,
}

impl Reply {
    pub fn read(mut stream: UnixStream) -> Reply {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Self::parse(&bytes)
    }

    /// Status 0 stands for a connection that was closed without an answer.
    pub fn parse(bytes: &[u8]) -> Reply {
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
            return Reply { status: 0, headers: Vec::new(), body: bytes.to_vec(), whole: false };
        };
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|l| l.split_once(':').unwrap())
            .map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()))
            .collect();
        let chunked = headers.iter().any(|(n, v)| n == "transfer-encoding" && v == "chunked");
        let (body, whole) = if chunked { dechunk(&bytes[end + 4..]) } else { (bytes[end + 4..].to_vec(), true) };
        Reply { status, headers, body, whole }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {} {}", self.status, String::from_utf8_lossy(&self.body)))
    }

    /// The reply is a problem document with this status and code; returns it.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{text}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{text}");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:hudifs:problem:{code}"));
        problem
    }
}

fn dechunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else { return (body, false) };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, true);
        }
        if rest.len() < size + 2 {
            return (body, false);
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}
