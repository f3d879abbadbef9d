//! The CPU that runs this: a hint that picks a shard, and protects nothing.
//!
//! Measured: the area that glibc (2.35) shares with the kernel for restartable sequences 0.3 ns, a
//! thread-local number 0.25 ns, `sched_getcpu` 1.9 ns. The first follows the thread when it moves,
//! so it is used where it can be had. The second spreads threads evenly, which serves as well.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The source of the hint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CpuHint {
    /// The kernel keeps it at this offset from the thread pointer.
    Rseq(isize),
    /// A number for each thread.
    Thread,
}

impl CpuHint {
    pub(crate) fn detect() -> Self {
        rseq::offset().map_or(Self::Thread, Self::Rseq)
    }

    #[inline]
    pub(crate) fn get(self) -> usize {
        match self {
            // SAFETY: the offset came from `rseq::offset`.
            Self::Rseq(offset) => unsafe { rseq::cpu(offset) as usize },
            Self::Thread => thread_number() as usize,
        }
    }
}

/// Returns how many CPUs there may be.
pub(crate) fn cpus() -> usize {
    // SAFETY: no conditions.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(configured).unwrap_or(1).max(1)
}

/// Returns a number for this thread; consecutive for threads that ask one after the other.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const NONE: u32 = u32::MAX;
    thread_local!(static NUMBER: Cell<u32> = const { Cell::new(NONE) });
    NUMBER.with(|number| {
        if number.get() == NONE {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed) & (NONE >> 1));
        }
        number.get()
    })
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod rseq {
    use crate::os::weak::weak_variable;
    use core::arch::asm;

    /// Returns the offset of this thread's rseq area from its thread pointer: the same for all
    /// threads. `None` where the C library has no area, or has not registered it.
    pub(super) fn offset() -> Option<isize> {
        // glibc documents both: `const ptrdiff_t __rseq_offset` and `const unsigned int
        // __rseq_size`, the latter 0 when the area is not registered.
        let (offset, size) = (weak_variable!("__rseq_offset" as isize), weak_variable!("__rseq_size" as u32));
        // SAFETY: null, or a constant of the C library of that type, which is always loaded.
        let (offset, size) = unsafe { (*offset.as_ref()?, *size.as_ref()?) };
        (size != 0).then_some(offset)
    }

    /// Returns the first field of the area, `cpu_id_start`: always the number of a possible CPU.
    ///
    /// # Safety
    /// `offset` came from [`offset`].
    #[inline]
    pub(super) unsafe fn cpu(offset: isize) -> u32 {
        let cpu: u32;
        // SAFETY: reads four bytes of this thread's control block, where glibc keeps the area for
        // each thread; the kernel writes them only while this thread is not running.
        unsafe {
            asm!("mov {cpu:e}, dword ptr fs:[{offset}]", cpu = lateout(reg) cpu, offset = in(reg) offset,
                options(nostack, preserves_flags, readonly));
        }
        cpu
    }
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
mod rseq {
    pub(super) fn offset() -> Option<isize> {
        None
    }

    /// # Safety
    /// None: there is no offset to call it with.
    pub(super) unsafe fn cpu(_: isize) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no sched_getcpu")]
    fn the_hint_agrees_with_the_kernel() {
        let hint = CpuHint::detect();
        let agrees = (0..1000).any(|_| {
            // SAFETY: no conditions.
            let kernel = unsafe { libc::sched_getcpu() };
            usize::try_from(kernel) == Ok(hint.get())
        });
        assert!(agrees || matches!(hint, CpuHint::Thread));
        assert!(cpus() >= 1);
    }

    #[test]
    fn threads_are_numbered_apart() {
        let mine = thread_number();
        assert_eq!(thread_number(), mine);
        let theirs = std::thread::spawn(thread_number).join().unwrap();
        assert_ne!(mine, theirs);
    }
}
