//! Advice to the kernel about runs of memory: madvise(2), and process_madvise(2) for many runs in
//! one call.
//!
//! Both may stop early. madvise(2) then says `EAGAIN` or `EINTR` and is repeated, which is
//! harmless: all advice used here is idempotent. process_madvise(2) returns how many bytes it has
//! done, and [`advise_all`] goes on from there. A run that it refuses is advised by itself,
//! and the others go together again. Where it refuses altogether (an older kernel,
//! a sandbox), the runs are advised one by one. The answer of madvise(2) is the one that counts.

use crate::os::raw;
use libc::{c_void, iovec};
use rustix::fd::RawFd;
use rustix::io::Errno;
use rustix::thread::sched_yield;

/// The most runs that one call takes: `UIO_MAXIOV`, see process_madvise(2).
pub(crate) const VECTOR_MAX: usize = 1024;

/// The descriptor that stands for the calling process itself (`PIDFD_SELF_THREAD_GROUP` in
/// `linux/pidfd.h`).
const PIDFD_SELF: RawFd = -10_000;

/// The number of tries while kernel memory is short for a moment (`EAGAIN`), yielding the CPU each
/// time.
const TRIES: usize = 64;

/// A piece of advice, by its number in madvise(2). The numbers are the same on all architectures
/// but alpha and parisc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Advice {
    /// Drop the pages: the next touch finds zeros. Leaves guard marks where they are.
    DontNeed = 4,
    /// Put no huge pages there.
    NoHugePage = 15,
    /// Give the pages of shared memory back to the machine, for all processes.
    Remove = 9,
    /// Leave the pages out of core dumps.
    DontDump = 16,
    /// Have the pages in core dumps again.
    DoDump = 17,
    /// Have the pages read as zero in the child of a fork (Linux 4.14).
    WipeOnFork = 18,
    /// Map the pages now, as for a read (Linux 5.14).
    PopulateRead = 22,
    /// Put memory behind the pages now, as for a write (Linux 5.14).
    PopulateWrite = 23,
    /// Drop the pages even where they are locked in memory. They stay locked (Linux 5.18).
    DontNeedLocked = 24,
    /// Put a huge page behind each whole, aligned one, now.
    Collapse = 25,
    /// Drop the pages and mark them: the next touch is a fault.
    GuardInstall = 102,
    /// Remove the marks, and only them.
    GuardRemove = 103,
}

impl Advice {
    pub(crate) fn call(self) -> &'static str {
        match self {
            Self::DontNeed => "madvise(MADV_DONTNEED)",
            Self::DontNeedLocked => "madvise(MADV_DONTNEED_LOCKED)",
            Self::DontDump => "madvise(MADV_DONTDUMP)",
            Self::DoDump => "madvise(MADV_DODUMP)",
            Self::PopulateRead => "madvise(MADV_POPULATE_READ)",
            Self::PopulateWrite => "madvise(MADV_POPULATE_WRITE)",
            Self::Remove => "madvise(MADV_REMOVE)",
            Self::WipeOnFork => "madvise(MADV_WIPEONFORK)",
            Self::NoHugePage => "madvise(MADV_NOHUGEPAGE)",
            Self::Collapse => "madvise(MADV_COLLAPSE)",
            Self::GuardInstall => "madvise(MADV_GUARD_INSTALL)",
            Self::GuardRemove => "madvise(MADV_GUARD_REMOVE)",
        }
    }
}

/// Advises about one run.
///
/// # Safety
/// The run is mapped, and the content that the advice drops is not needed any more.
pub(crate) unsafe fn advise(run: iovec, advice: Advice) -> Result<(), Errno> {
    for _ in 0..TRIES {
        // SAFETY: the kernel checks the run itself. That its content may go is this function's own
        // condition.
        let answer = unsafe {
            raw::call(
                libc::SYS_madvise,
                [run.iov_base.expose_provenance(), run.iov_len, advice as usize, 0, 0, 0],
            )
        };
        match answer {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => sched_yield(),
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::AGAIN)
}

/// Advises about all `runs`, at most [`VECTOR_MAX`], in as few calls as the kernel takes. `alone`
/// advises about a run that it does not take with others.
///
/// # Safety
/// As for [`advise`], for each run.
pub(crate) unsafe fn advise_all<E>(
    mut runs: &[iovec],
    advice: Advice,
    alone: impl Fn(iovec) -> Result<(), E>,
) -> Result<(), E> {
    let mut interruptions = 0;
    while let [first, others @ ..] = runs {
        // SAFETY: `advise_some` asks that the runs are mapped and their content may go, as this
        // function does.
        match unsafe { advise_some(runs, advice) } {
            Ok(bytes) if bytes > 0 => {
                let (whole, rest) = completed(runs, bytes);
                runs = &runs[whole..];
                if let Some(rest) = rest {
                    alone(rest)?;
                    runs = &runs[1..];
                }
            }
            Err(Errno::INTR) if interruptions < TRIES => interruptions += 1,
            Err(Errno::INVAL | Errno::AGAIN | Errno::NOMEM) => {
                alone(*first)?;
                runs = others;
            }
            Ok(_) | Err(_) => return runs.iter().try_for_each(|run| alone(*run)),
        }
    }
    Ok(())
}

/// Makes one call, and returns how many bytes it has done. Also the probe: it fails as a whole
/// where the kernel takes no runs together.
///
/// # Safety
/// As for [`advise`], for each run.
pub(crate) unsafe fn advise_some(runs: &[iovec], advice: Advice) -> Result<usize, Errno> {
    // SAFETY: the kernel reads `runs` as the array of their length that it is. It acts on the
    // calling process, which the number names. The runs are mapped and their content may
    // go: the condition of this function.
    unsafe {
        raw::call(
            libc::SYS_process_madvise,
            [PIDFD_SELF as usize, runs.as_ptr().expose_provenance(), runs.len(), advice as usize, 0, 0],
        )
    }
}
/// Returns how many of `runs` the first `bytes` cover, and the rest of a run that they end inside
/// of.
fn completed(runs: &[iovec], mut bytes: usize) -> (usize, Option<iovec>) {
    for (index, run) in runs.iter().enumerate() {
        if bytes < run.iov_len {
            let iov_base = run.iov_base.cast::<u8>().wrapping_add(bytes).cast::<c_void>();
            let rest = iovec { iov_base, iov_len: run.iov_len - bytes };
            return (index, (bytes > 0).then_some(rest));
        }
        bytes -= run.iov_len;
    }
    (runs.len(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    fn run(addr: usize, len: usize) -> iovec {
        iovec { iov_base: without_provenance_mut(addr), iov_len: len }
    }

    #[test]
    fn partial_completion_is_found_again() {
        let runs = [run(0x1000, 10), run(0x2000, 20), run(0x3000, 30)];
        let rest = |bytes| {
            let (whole, rest) = completed(&runs, bytes);
            (whole, rest.map(|rest| (rest.iov_base.addr(), rest.iov_len)))
        };
        assert_eq!(rest(0), (0, None));
        assert_eq!(rest(4), (0, Some((0x1004, 6))));
        assert_eq!(rest(10), (1, None));
        assert_eq!(rest(29), (1, Some((0x2013, 1))));
        assert_eq!(rest(30), (2, None));
        assert_eq!(rest(60), (3, None));
    }
}
