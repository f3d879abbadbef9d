//! The line of counts at the exit, and where it goes.
//!
//! Programs may have closed or replaced their stderr by then: those of GNU's core utilities close
//! it before destructors run. So the constructor makes a descriptor of its own for the line. It is
//! used only if it still leads to the same file: a program that closes all descriptors may have
//! opened another one there. A file is opened for the line alone.

use crate::base::{Line, peak_kib};
use crate::{fork, start};
use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, RawFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;
use std::ffi::{CStr, CString, c_char};
use std::fmt::{self, Display, Formatter};

/// The least number of the descriptor, beyond those that programs name in their scripts and files.
const LEAST_DESCRIPTOR: RawFd = 100;

/// Where the line goes. See [the module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stats {
    Nowhere,
    Stderr(Stderr),
    /// A path, in which `%p` is the number of the process.
    File(&'static [u8]),
}

impl Stats {
    /// Returns the meaning of a value of `VMALLOC_STATS`: 0, 1, or a path with a slash in it.
    pub(crate) fn of_setting(value: &[u8]) -> Option<Self> {
        match value {
            b"0" => Some(Self::Nowhere),
            b"1" => Some(Self::Stderr(Stderr::keep())),
            // A copy: programs overwrite the environment that they were started with.
            path if path.contains(&b'/') => Some(Self::File(path.to_vec().leak())),
            _ => None,
        }
    }

    /// Writes the line. Without a way to do so it is lost.
    pub(crate) fn print(self) {
        let line = Line::new(format_args!("{Counts}"));
        let _ = match self {
            Self::Nowhere => Ok(0),
            Self::Stderr(stderr) => stderr.with(|file| rustix::io::write(file, line.whole())),
            Self::File(path) => open(path).and_then(|file| rustix::io::write(file, line.whole())),
        };
    }
}

/// Opens a file at its end, or makes it.
fn open(path: &[u8]) -> rustix::io::Result<impl AsFd> {
    let mut name = Vec::new();
    let mut parts = path.split(|&byte| byte == b'%');
    name.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        match part.strip_prefix(b"p") {
            Some(rest) => {
                name.extend_from_slice(process().to_string().as_bytes());
                name.extend_from_slice(rest);
            }
            None => name.extend([b"%", part].concat()),
        }
    }
    let name = CString::new(name).map_err(|_| rustix::io::Errno::INVAL)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    rustix::fs::open(&name, flags, Mode::from_raw_mode(0o666))
}

fn process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The stderr that the program was started with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stderr {
    descriptor: RawFd,
    /// The device and the number of the file.
    file: Option<(u64, u64)>,
}

impl Stderr {
    fn keep() -> Self {
        let stderr = rustix::stdio::stderr();
        // Where fewer descriptors are allowed, any other one will do.
        let own = fcntl_dupfd_cloexec(stderr, LEAST_DESCRIPTOR).or_else(|_| fcntl_dupfd_cloexec(stderr, 3));
        let descriptor = own.map_or(libc::STDERR_FILENO, IntoRawFd::into_raw_fd);
        Self { descriptor, file: file_of(descriptor) }
    }

    /// Calls `body` with the descriptor, or with the standard one if it leads elsewhere by now.
    fn with<T>(self, body: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        let is_same = self.file.is_some() && file_of(self.descriptor) == self.file;
        let descriptor = if is_same { self.descriptor } else { libc::STDERR_FILENO };
        // SAFETY: the process is about to end. If the number is closed, the call fails.
        body(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }
}

fn file_of(descriptor: RawFd) -> Option<(u64, u64)> {
    // SAFETY: if the number is closed, the call fails.
    let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(descriptor) }).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// The content of the line.
struct Counts;

impl Display for Counts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", process(), program_name())?;
        let Some(heap) = start::heap() else {
            return f.write_str(if start::is_reached() {
                "all of malloc was glibc's"
            } else {
                "none of malloc came here"
            });
        };
        let (stats, shift) = (heap.space().stats(), heap.space().geometry().page_shift);
        let (blocks, bytes) = heap.in_use();
        let kib = |pages: u64| pages << shift >> 10;
        write!(
            f,
            "{} large calls; {} blocks in use, {} KiB; cached {} KiB in {} areas, lazy {} KiB; \
             {} purges of {} areas; metadata {} KiB",
            fork::calls(),
            blocks,
            bytes >> 10,
            kib(stats.cached_pages),
            stats.cached_areas,
            kib(stats.lazy_pages),
            stats.purges,
            stats.purged_areas,
            stats.metadata_bytes >> 10,
        )?;
        match peak_kib() {
            Some(peak) => write!(f, "; peak of the program {peak} KiB"),
            None => Ok(()),
        }
    }
}

/// Returns the name of the program, without folders.
fn program_name() -> &'static str {
    unsafe extern "C" {
        static program_invocation_short_name: *const c_char;
    }
    // SAFETY: the C library sets it before any constructor runs. A program that changes it puts
    // another string there.
    let name = unsafe { program_invocation_short_name.as_ref().map(|name| CStr::from_ptr(name)) };
    name.and_then(|name| name.to_str().ok()).unwrap_or("?")
}
