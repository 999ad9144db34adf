//! Dead mounts: what a daemon that was killed leaves at its mount point, where every call fails with ENOTCONN.
//!
//! One that shows our own table is replaced without being asked, so that a supervisor can start the daemon again. Any other is
//! left for `--replace-stale`, because it is somebody else's to notice.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// True if `mount_point` is a dead FUSE mount of `source`, as /proc/self/mountinfo names it.
pub fn is_ours(mount_point: &Path, source: &str) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // The table of mounts first: asking a mount of somebody else may take for ever.
    topmost(&table, mount_point).is_some_and(|(kind, from)| kind.starts_with("fuse") && from == source)
        && is_dead(mount_point)
}

/// True for a mount whose daemon has ended. Asks for free space, because the kernel may still know attributes and names.
pub fn is_dead(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut space = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends with NUL and `space` has room for the answer.
    let answer = unsafe { libc::statvfs(path.as_ptr(), space.as_mut_ptr()) };
    let error = std::io::Error::last_os_error().raw_os_error();
    // Calls that were waiting when the daemon ended are aborted; all later ones are not connected.
    answer != 0 && matches!(error, Some(libc::ENOTCONN | libc::ECONNABORTED))
}

/// Type and source of the last mount at a mount point.
fn topmost(mountinfo: &str, mount_point: &Path) -> Option<(String, String)> {
    mountinfo.lines().rev().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let at = unescape(head.split(' ').nth(4)?);
        let mut tail = tail.split(' ');
        let (kind, source) = (tail.next()?, tail.next()?);
        (Path::new(&at) == mount_point).then(|| (unescape(kind), unescape(source)))
    })
}

/// Undoes the octal escapes of blanks and backslashes.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| *byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                out.push(escaped);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_mount_counts() {
        let table = "\
36 35 98:0 / /mnt/a\\040b rw,noatime master:1 - ext4 /dev/root rw,errors=continue
40 36 0:52 / /mnt/a\\040b ro,relatime shared:2 - fuse.hudifs file:///t\\134x ro,user_id=0
41 36 0:53 / /mnt/other ro - fuse s3://b/t ro
";
        let found = topmost(table, Path::new("/mnt/a b"));
        assert_eq!(found, Some(("fuse.hudifs".to_owned(), "file:///t\\x".to_owned())));
        assert_eq!(topmost(table, Path::new("/mnt")), None);
        assert_eq!(unescape("a\\04"), "a\\04");
    }

    #[test]
    fn a_living_directory_is_not_dead() {
        assert!(!is_ours(Path::new("/proc"), "proc"));
    }
}
