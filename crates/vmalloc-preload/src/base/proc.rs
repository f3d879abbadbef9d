//! Numbers of the process from /proc.

use super::{SavedErrno, number};
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;

/// Returns the most memory that the program had at once, if /proc tells: proc_pid_status(5).
pub(crate) fn peak_kib() -> Option<usize> {
    // Some 1,500 bytes: no page size.
    let (text, length) = read::<4096>(c"/proc/self/status")?;
    let line = text[..length].split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"VmHWM:"))?;
    number(line.strip_suffix(b"kB")?.trim_ascii())
}

/// Returns the pages of memory that the program has, if /proc tells: the second number of
/// proc_pid_statm(5).
pub(crate) fn resident_pages() -> Option<usize> {
    let (text, length) = read::<128>(c"/proc/self/statm")?;
    number(text[..length].split(|&byte| byte == b' ').nth(1)?)
}

/// Reads the begin of a file. `errno` stays as it is.
fn read<const MOST: usize>(path: &CStr) -> Option<([u8; MOST], usize)> {
    let _errno = SavedErrno::new();
    let mut text = [0; MOST];
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(file, &mut text).ok()?;
    Some((text, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_memory_and_had_no_less() {
        let resident = resident_pages().expect("there is /proc") * vmalloc_linux::page_bytes();
        assert!(resident > 1 << 20 && peak_kib().expect("there is /proc") << 10 >= resident / 2);
    }
}
