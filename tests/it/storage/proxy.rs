//! A proxy between a client and a real server that makes the failures which a real server makes only on bad days.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What happens to one request.
pub enum Fault {
    /// It goes through.
    Pass,
    /// It goes through after a while.
    Delay(Duration),
    /// It is answered here.
    Answer(String),
    /// Its answer ends after this many bytes, head included.
    Cut(usize),
    /// It is never answered.
    Stall,
}

/// A running proxy; it ends when dropped.
pub struct Proxy {
    pub endpoint: String,
    pub requests: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.endpoint.trim_start_matches("http://"));
    }
}

/// Starts a proxy to `endpoint`; `fault` sees each request's head (lower case) and its number.
pub fn start(endpoint: &str, fault: impl Fn(&str, usize) -> Fault + Send + Sync + 'static) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy {
        endpoint: format!("http://{}", listener.local_addr().unwrap()),
        requests: Arc::default(),
        stop: Arc::default(),
    };
    let (server, fault) = (endpoint.trim_start_matches("http://").to_owned(), Arc::new(fault));
    let (requests, stop) = (proxy.requests.clone(), proxy.stop.clone());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            let (server, fault, requests) = (server.clone(), fault.clone(), requests.clone());
            std::thread::spawn(move || {
                // A client that hangs up is no failure of the proxy.
                let _ = client.and_then(|client| serve(client, &server, &*fault, &requests));
            });
        }
    });
    proxy
}

/// One request a connection, bodiless as all reading ones are.
fn serve(
    mut client: TcpStream,
    server: &str,
    fault: &(dyn Fn(&str, usize) -> Fault + Send + Sync),
    requests: &AtomicUsize,
) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if client.read(&mut byte)? == 0 || head.len() > 65536 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut cut = usize::MAX;
    match fault(&head.to_lowercase(), requests.fetch_add(1, Ordering::SeqCst)) {
        Fault::Pass => {}
        Fault::Delay(time) => std::thread::sleep(time),
        Fault::Answer(text) => {
            client.write_all(text.as_bytes())?;
            return client.shutdown(Shutdown::Both);
        }
        Fault::Cut(after) => cut = after,
        Fault::Stall => {
            std::thread::sleep(Duration::from_secs(60));
            return Ok(());
        }
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.set_read_timeout(Some(Duration::from_secs(60)))?;
    upstream.write_all(head.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes())?;
    let mut buffer = vec![0; 65536];
    loop {
        let n = upstream.read(&mut buffer)?.min(cut);
        client.write_all(&buffer[..n])?;
        cut -= n;
        if n == 0 {
            return client.shutdown(Shutdown::Both);
        }
    }
}
