//! `Type=notify`: telling systemd that the mount is ready, reloads, stops. Without `NOTIFY_SOCKET` nothing is sent.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state, such as `READY=1`; lines are separated by newlines. A message that cannot be sent is logged and forgotten.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Some(name) = name.to_str() else { return };
    if let Err(error) = send(name, state) {
        tracing::warn!("NOTIFY_SOCKET {name}: {error}");
    }
}

fn send(name: &str, state: &str) -> std::io::Result<()> {
    let address = match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

/// `RELOADING=1` with the time stamp that systemd asks for.
pub fn notify_reloading() {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a place for the time; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive_by_path_and_by_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        send(path.to_str().unwrap(), "READY=1").unwrap();
        let name = format!("hudifs-test-{}", std::process::id());
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(&format!("@{name}"), "STOPPING=1").unwrap();
        let mut buffer = [0; 64];
        for (socket, expected) in [(by_path, "READY=1"), (by_name, "STOPPING=1")] {
            let len = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], expected.as_bytes());
        }
    }
}
