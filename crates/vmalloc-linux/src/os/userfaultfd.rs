//! A descriptor of userfaultfd(2), and its calls: pages that are missing raise `SIGBUS`, and pages
//! move from address to address.
//!
//! By [`raw`](crate::os::raw) alone: the calls are six ioctl(2) with a structure each, as in `linux/userfaultfd.h`.

use crate::os::own_descriptor::is_named;
use crate::os::raw::ioctl;
use libc::c_int;
use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Faults of the program alone: without it the call takes a privilege (Linux 5.11).
const USER_MODE_ONLY: u32 = 1;

/// `UFFD_API`.
const API: u64 = 0xaa;
/// A fault on a missing page raises `SIGBUS`, and fails a system call with `EFAULT`.
const FEATURE_SIGBUS: u64 = 1 << 7;
/// Pages can be moved (Linux 6.8).
const FEATURE_MOVE: u64 = 1 << 16;

/// `UFFDIO_MOVE_MODE_DONTWAKE`: no thread waits for a page.
const DONTWAKE: u64 = 1;

/// `UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES`.
const ALLOW_SRC_HOLES: u64 = 2;

/// The number of tries while the kernel is busy with the same addresses, yielding the CPU each
/// time.
const TRIES: usize = 64;

/// Returns the number of the call `nr` that exchanges a `T` with the kernel.
const fn request<T>(nr: u32) -> u32 {
    3 << 30 | (size_of::<T>() as u32) << 16 | 0xaa << 8 | nr
}

const UFFDIO_API: u32 = request::<Api>(0x3f);
const UFFDIO_REGISTER: u32 = request::<Register>(0);
/// It reads its argument only.
const UFFDIO_UNREGISTER: u32 = 2 << 30 | (request::<Range>(1) & !(3 << 30));
const UFFDIO_ZEROPAGE: u32 = request::<Zeros>(4);
const UFFDIO_MOVE: u32 = request::<Transfer>(5);

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_copy` and `struct uffdio_move`.
#[repr(C)]
struct Transfer {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    done: i64,
}

/// `struct uffdio_zeropage`.
#[repr(C)]
struct Zeros {
    start: u64,
    len: u64,
    mode: u64,
    done: i64,
}

/// The registration of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Mode {
    /// A touch of a missing page raises `SIGBUS`.
    Missing = 1,
    /// Nothing changes, but pages can be moved to the range.
    Plain = 2,
}

/// The fate of pages that are missing where pages are moved from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holes {
    /// They stop the move.
    Refused,
    /// They are missing at the target, too.
    Moved,
}

/// A transfer that has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stuck {
    /// The bytes at the begin that were transferred.
    pub(crate) done: u64,
    pub(crate) errno: Errno,
}

/// The descriptor of this process.
#[derive(Debug)]
pub(crate) struct Userfaultfd(AtomicI32);

impl Userfaultfd {
    /// Opens a descriptor with the features that are needed.
    pub(crate) fn open() -> Result<Self, Errno> {
        open().map(|fd| Self(AtomicI32::new(fd.into_raw_fd())))
    }

    /// Closes the descriptor, which is the parent's in the child of a fork, and opens another. All
    /// registrations are new then.
    pub(crate) fn reopen(&self) -> Result<(), Errno> {
        self.close();
        self.0.store(open()?.into_raw_fd(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns true if the program has closed the descriptor, as daemons do.
    pub(crate) fn is_closed(&self) -> bool {
        !is_userfaultfd(self.0.load(Ordering::Relaxed))
    }

    fn close(&self) {
        let fd = self.0.swap(-1, Ordering::Relaxed);
        // Where the program has closed it, the number may be a file's by now.
        if is_userfaultfd(fd) {
            // SAFETY: opened by `open` and owned by this alone, which has just given it up.
            unsafe { rustix::io::close(fd) };
        }
    }

    /// Registers `range`, which is memory of this process.
    pub(crate) fn register(&self, range: Range, mode: Mode) -> Result<(), Errno> {
        let mut register = Register { range, mode: mode as u64, ioctls: 0 };
        // SAFETY: the structure is the call's.
        unsafe { self.call(UFFDIO_REGISTER, &mut register) }
    }

    /// Ends the registration of `range`: missing pages appear at a touch.
    pub(crate) fn unregister(&self, mut range: Range) -> Result<(), Errno> {
        // SAFETY: the structure is the call's.
        unsafe { self.call(UFFDIO_UNREGISTER, &mut range) }
    }

    /// Moves the pages at `from` to `to`, where nothing is. It ends before a page that is missing,
    /// unless `holes` are moved, shared with another process, locked, or in use by the kernel.
    ///
    /// # Safety
    /// The caller owns both ranges, of which `to` is registered, and nothing uses what is at
    /// `from`.
    pub(crate) unsafe fn move_pages(&self, to: Range, from: u64, holes: Holes) -> Result<(), Stuck> {
        let mode = DONTWAKE | if holes == Holes::Moved { ALLOW_SRC_HOLES } else { 0 };
        in_steps([to.start, from], to.len, |[to, from], len| {
            let mut transfer = Transfer { to, from, len, mode, done: 0 };
            // SAFETY: the structure is the call's, and the caller's promise is passed on.
            (unsafe { self.call(UFFDIO_MOVE, &mut transfer) }, transfer.done)
        })
    }

    /// Puts the page of zeros behind each page of `to`, where nothing is. A write gets memory.
    ///
    /// # Safety
    /// The caller owns `to.len` bytes at `to`, which are registered.
    pub(crate) unsafe fn put_zeros(&self, to: Range) -> Result<(), Stuck> {
        in_steps([to.start], to.len, |[start], len| {
            let mut zeros = Zeros { start, len, mode: DONTWAKE, done: 0 };
            // SAFETY: the structure is the call's, and the caller's promise is passed on.
            (unsafe { self.call(UFFDIO_ZEROPAGE, &mut zeros) }, zeros.done)
        })
    }

    /// # Safety
    /// `argument` is the structure that `request` exchanges, and what the call does to this
    /// process's memory is allowed.
    unsafe fn call<T>(&self, request: u32, argument: &mut T) -> Result<(), Errno> {
        // SAFETY: the caller's promise is passed on.
        unsafe { ioctl(self.0.load(Ordering::Relaxed), request, argument) }.map(drop)
    }
}

impl Drop for Userfaultfd {
    fn drop(&mut self) {
        self.close();
    }
}

/// Repeats a call that does a part of `len` bytes and says `EAGAIN`. Each call is given the
/// addresses behind what is done and the bytes that are left, and returns how many it has done.
fn in_steps<const N: usize>(
    starts: [u64; N],
    len: u64,
    mut step: impl FnMut([u64; N], u64) -> (Result<(), Errno>, i64),
) -> Result<(), Stuck> {
    let (mut done, mut tries) = (0, 0);
    while done < len {
        let (answer, more) = step(starts.map(|start| start + done), len - done);
        let Err(errno) = answer else { return Ok(()) };
        let more = u64::try_from(more).unwrap_or(0);
        (done, tries) = (done + more, if more == 0 { tries + 1 } else { 0 });
        if errno != Errno::AGAIN || tries == TRIES {
            return Err(Stuck { done, errno });
        }
        if more == 0 {
            rustix::thread::sched_yield();
        }
    }
    Ok(())
}

/// Returns true if `fd` is a descriptor of userfaultfd(2), or there is no telling.
fn is_userfaultfd(fd: c_int) -> bool {
    is_named(fd, |name| name == b"anon_inode:[userfaultfd]")
}

fn open() -> Result<OwnedFd, Errno> {
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: a descriptor alone changes nothing.
    let fd = unsafe { userfaultfd(flags)? };
    let mut api = Api { api: API, features: FEATURE_SIGBUS | FEATURE_MOVE, ioctls: 0 };
    use rustix::fd::AsRawFd;
    // SAFETY: the structure is the call's, and it changes the descriptor alone.
    unsafe { ioctl(fd.as_raw_fd(), UFFDIO_API, &mut api)? };
    Ok(fd)
}

/// The numbers of `linux/userfaultfd.h`.
const _: () = assert!(
    UFFDIO_API == 0xc018_aa3f
        && UFFDIO_REGISTER == 0xc020_aa00
        && UFFDIO_UNREGISTER == 0x8010_aa01
        && UFFDIO_ZEROPAGE == 0xc020_aa04
        && UFFDIO_MOVE == 0xc028_aa05
);

#[cfg(test)]
mod tests {
    use super::*;

    /// The addresses and bytes of each call.
    type Asked = Vec<([u64; 2], u64)>;

    /// Plays a kernel that does so much in each call. Returns what it was asked, and the outcome.
    fn play(answers: &[(Result<(), Errno>, i64)]) -> (Asked, Result<(), (u64, Errno)>) {
        let mut asked = Asked::new();
        let outcome = in_steps([0x10_0000, 0x50_0000], 0x5000, |starts, len| {
            asked.push((starts, len));
            answers[(asked.len() - 1).min(answers.len() - 1)]
        });
        (asked, outcome.map_err(|Stuck { done, errno }| (done, errno)))
    }

    #[test]
    fn a_transfer_that_stops_half_way_goes_on_behind_what_is_done() {
        let again = Err(Errno::AGAIN);
        let whole = ([0x10_0000, 0x50_0000], 0x5000);
        let rest = ([0x10_2000, 0x50_2000], 0x3000);
        let last = ([0x10_4000, 0x50_4000], 0x1000);
        assert_eq!(play(&[(Ok(()), 0x5000)]), (vec![whole], Ok(())));
        let (asked, outcome) = play(&[(again, 0x2000), (again, 0), (again, 0x2000), (Ok(()), 0x1000)]);
        assert_eq!((asked, outcome), (vec![whole, rest, rest, last], Ok(())));
        // All is done, whatever the last call says.
        assert_eq!(play(&[(again, 0x2000), (again, 0x3000)]), (vec![whole, rest], Ok(())));
    }

    #[test]
    fn a_transfer_that_fails_tells_how_much_is_done() {
        let (again, refused) = (Err(Errno::AGAIN), Err(Errno::NOENT));
        assert_eq!(play(&[(again, 0x2000), (refused, -2)]).1, Err((0x2000, Errno::NOENT)));
        assert_eq!(play(&[(refused, 0x1000)]).1, Err((0x1000, Errno::NOENT)));
        // The kernel is busy with these addresses for good.
        let (asked, outcome) = play(&[(again, 0x2000), (again, -11)]);
        assert_eq!((asked.len(), outcome), (1 + TRIES, Err((0x2000, Errno::AGAIN))));
    }
}
