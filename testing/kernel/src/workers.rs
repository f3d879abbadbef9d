//! Work for other CPUs: each halts until it is woken.

use crate::arch;
use crate::cpu;
use crate::machine::Kernel;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// A task for a CPU.
type Work = dyn Fn(usize) + Sync;

struct Post {
    is_full: AtomicBool,
    work: UnsafeCell<Option<&'static Work>>,
}

// SAFETY: written while it is not full, by CPU 0, and read while it is, by its own.
unsafe impl Sync for Post {}

static POSTS: [Post; cpu::MAX] =
    [const { Post { is_full: AtomicBool::new(false), work: UnsafeCell::new(None) } }; cpu::MAX];

/// Serves tasks for ever: the work of every CPU but the first.
pub(crate) fn serve(kernel: &Kernel) -> ! {
    let post = &POSTS[cpu::number()];
    loop {
        // Acquire: pairs with the Release in `begin`.
        cpu::wait_until(|| post.is_full.load(Ordering::Acquire));
        // SAFETY: it is full.
        if let Some(work) = unsafe { *post.work.get() } {
            work(cpu::number());
        }
        // Release: the waiting CPU sees what was done.
        post.is_full.store(false, Ordering::Release);
        arch::wake(kernel.cpus[0]);
    }
}

/// Work under way on other CPUs, which is waited for when this is dropped.
pub(crate) struct Workers<'a> {
    cpus: u64,
    work: core::marker::PhantomData<&'a Work>,
}

/// Makes each of `cpus` but this one, CPU 0, begin with `work`, which gets its number.
pub(crate) fn begin<'a>(
    kernel: &Kernel,
    cpus: impl IntoIterator<Item = usize>,
    work: &'a (dyn Fn(usize) + Sync),
) -> Workers<'a> {
    // SAFETY: a `Workers` is waited for before the work goes: it is never forgotten here.
    let work: &'static Work = unsafe { core::mem::transmute(work) };
    let mut workers = Workers { cpus: 0, work: core::marker::PhantomData };
    for cpu in cpus {
        let post = &POSTS[cpu];
        assert!(!post.is_full.load(Ordering::Acquire), "CPU {cpu} is at work");
        // SAFETY: it is not full.
        unsafe { *post.work.get() = Some(work) };
        post.is_full.store(true, Ordering::Release);
        workers.cpus |= 1 << cpu;
        arch::wake(kernel.cpus[cpu]);
    }
    workers
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        let is_busy = |cpu: usize| self.cpus >> cpu & 1 != 0 && POSTS[cpu].is_full.load(Ordering::Acquire);
        cpu::wait_until(|| !(0..cpu::MAX).any(is_busy));
    }
}

/// Makes all CPUs do `work`, this one included, and waits for them.
pub(crate) fn all(kernel: &Kernel, work: impl Fn(usize) + Sync) {
    let _workers = begin(kernel, 1..kernel.cpus.len(), &work);
    work(0);
}

/// Makes `cpu` do `work`, and waits for it.
pub(crate) fn on(kernel: &Kernel, cpu: usize, work: impl Fn() + Sync) {
    if cpu == 0 {
        return work();
    }
    let work = |_| work();
    let _workers = begin(kernel, [cpu], &work);
}
