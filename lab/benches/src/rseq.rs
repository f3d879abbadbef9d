//! The stack of a CPU, popped and pushed under a lock as the nodes of a space are, and by
//! restartable sequences (rseq(2), Linux 4.18), which the kernel begins again when another thread
//! has had the CPU: to see what these would save of a pair.
//!
//! The C library registers every thread (glibc 2.35) and tells where: x86-64 alone.

use crate::pinning::Placement;
use crate::ranges::span;
use crate::rounds::{Limits, cpu_ns, pace};
use clap::ValueEnum;
use lock_api::{GuardSend, Mutex, RawMutex};
use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{Platform, Request, Space, SpaceOptions};
use vmalloc_kit::null::{ByCallers, FirstCpu, NullPlatform};
use vmalloc_kit::stats::median;
use vmalloc_linux::{FutexLock, LinuxOptions, open};

/// Nodes: a power of two, and no less than the CPUs of machines that this is for.
pub const NODES: usize = 1024;
/// Places of a stack.
const PLACES: usize = 62;
/// Entries at the begin: neither pops nor pushes fail.
const HALF: u64 = PLACES as u64 / 2;

/// The entries of a CPU.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stack {
    count: u64,
    entries: [u64; PLACES],
}

const BEGIN: Stack = Stack { count: HALF, entries: [7; PLACES] };

/// Lines of its own, and the size that the sequences count with.
#[repr(C, align(512))]
struct Own<T>(T);

const _: () = assert!(size_of::<Own<UnsafeCell<Stack>>>() == 512);

/// Something for each CPU.
struct Nodes<T>(Area, Vec<Own<T>>);

/// A stack without a lock: changed by sequences alone, or by the only thread.
struct Unlocked(UnsafeCell<Stack>);

// SAFETY: no other thread of that CPU interrupts a sequence, and no thread of another CPU begins
// one; its last instruction makes the change. Of those without sequences each thread has its own.
unsafe impl Sync for Unlocked {}

impl<T> Nodes<T> {
    fn new(area: Area, make: impl Fn(Stack) -> T) -> Self {
        Self(area, (0..NODES).map(|_| Own(make(BEGIN))).collect())
    }

    /// The one of the CPU that this thread runs on, or any.
    #[inline(always)]
    fn here(&self) -> &T {
        &self.1[self.0.cpu() as usize % NODES].0
    }
}

/// Where the C library has registered every thread: the offset of its area from the thread
/// pointer.
#[derive(Clone, Copy, Debug)]
pub struct Area(isize);

impl Area {
    /// Returns where it is; `None` where the C library has none.
    #[must_use]
    pub fn find() -> Option<Self> {
        // SAFETY: the name ends in a zero.
        let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
        // SAFETY: glibc documents `const ptrdiff_t __rseq_offset`.
        (!place.is_null()).then(|| Self(unsafe { place.cast::<isize>().read() }))
    }

    /// Returns true if this thread is registered. Under Valgrind none is.
    #[must_use]
    pub fn is_registered(self) -> bool {
        (self.cpu() as usize) < NODES
    }

    #[inline(always)]
    fn cpu(self) -> u32 {
        let cpu: u32;
        // SAFETY: the area is in the thread's static storage, registered or not.
        unsafe {
            core::arch::asm!(
                "mov {cpu:e}, dword ptr fs:[{area} + 4]",
                cpu = out(reg) cpu,
                area = in(reg) self.0,
                options(nostack, readonly, preserves_flags)
            );
        }
        cpu
    }
}

impl Stack {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        self.entries.get(self.count as usize).copied()
    }

    #[inline(always)]
    fn push(&mut self, entry: u64) -> bool {
        let Some(place) = self.entries.get_mut(self.count as usize) else { return false };
        *place = entry;
        self.count += 1;
        true
    }
}

/// A sequence: it announces its descriptor, finds the node of the CPU, does `$body`, whose last
/// instruction makes the change, and is begun again at 65 if it was interrupted.
macro_rules! sequence {
    ($area:expr, $nodes:expr, [$($body:literal),*], $($operands:tt)*) => {
        core::arch::asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "66: .long 0, 0",
            ".quad 62f, 63f - 62f, 64f",
            ".popsection",
            "65:",
            "lea {at}, [rip + 66b]",
            "mov qword ptr fs:[{area} + 8], {at}",
            "62:",
            "mov {at:e}, dword ptr fs:[{area} + 4]",
            "and {at:e}, 1023",
            "shl {at}, 9",
            "add {at}, {nodes}",
            $($body,)*
            "63:",
            // The handler, behind the signature that the kernel looks for.
            ".pushsection .text.rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "64: jmp 65b",
            ".popsection",
            at = out(reg) _,
            area = in(reg) $area,
            nodes = in(reg) $nodes,
            $($operands)*
            options(nostack)
        )
    };
}

const _: () = assert!(NODES == 1024 && PLACES == 62, "the numbers in the sequences");

impl Nodes<Unlocked> {
    /// Pops by a sequence.
    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        let (count, entry): (u64, u64);
        // SAFETY: a sequence on the stack of its CPU. It reads an entry below the count, of which
        // there are no more than places.
        unsafe {
            sequence!(
                self.0.0,
                self.1.as_ptr(),
                ["mov {count}, [{at}]", "test {count}, {count}", "jz 63f",
                 "mov {entry}, [{at} + {count} * 8]", "lea {less}, [{count} - 1]", "mov [{at}], {less}"],
                count = out(reg) count,
                entry = out(reg) entry,
                less = out(reg) _,
            );
        }
        (count != 0).then_some(entry)
    }

    /// Pushes by a sequence.
    #[inline(always)]
    fn push(&self, entry: u64) -> bool {
        let count: u64;
        // SAFETY: a sequence on the stack of its CPU. It writes behind the entries, where a place
        // is left.
        unsafe {
            sequence!(
                self.0.0,
                self.1.as_ptr(),
                ["mov {count}, [{at}]", "cmp {count}, 62", "jae 63f",
                 "mov [{at} + {count} * 8 + 8], {entry}", "lea {more}, [{count} + 1]", "mov [{at}], {more}"],
                count = out(reg) count,
                entry = in(reg) entry,
                more = out(reg) _,
            );
        }
        count < PLACES as u64
    }
}

/// A lock for one thread: taken by a load and a store, without an exchange.
pub struct OneThread(AtomicBool);

// SAFETY: of the threads of a program one uses such locks.
unsafe impl RawMutex for OneThread {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false));

    type GuardMarker = GuardSend;

    #[inline]
    fn lock(&self) {
        assert!(self.try_lock(), "one thread took a lock twice");
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let is_free = !self.0.load(Ordering::Relaxed);
        self.0.store(true, Ordering::Relaxed);
        is_free
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A pair that is measured: an entry of this CPU's stack, popped and pushed back, or a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Way {
    /// A page of a space on Linux memory, cached.
    WholePair,
    /// An entry, under the lock of the nodes on Linux.
    Lock,
    /// An entry, by sequences.
    Rseq,
    /// An entry of the only thread: the least that it takes.
    Neither,
    /// A page of a space without memory.
    Addresses,
    /// That by the only thread, with locks that it takes without exchanges.
    WithoutExchanges,
}

/// A use of pairs.
pub trait Use {
    /// Its result.
    type Output;

    /// Makes pairs.
    fn pairs(self, pair: impl Fn() + Sync) -> Self::Output;
}

impl Way {
    /// Gives the pairs of a way to their use.
    ///
    /// # Panics
    /// When there are no addresses, or no memory, for a space.
    pub fn give<U: Use>(self, area: Area, to: U) -> U::Output {
        match self {
            Self::WholePair => {
                let options = LinuxOptions::new().drain_thread(false);
                let space = open(options, SpaceOptions::default()).expect("addresses");
                to.pairs(|| pair_of(&*space))
            }
            Self::Lock => {
                let nodes = Nodes::new(area, Mutex::<FutexLock, _>::new);
                to.pairs(|| entry(|| nodes.here().lock().pop(), |entry| nodes.here().lock().push(entry)))
            }
            Self::Rseq => {
                let nodes = Nodes::new(area, |stack| Unlocked(UnsafeCell::new(stack)));
                to.pairs(|| entry(|| nodes.pop(), |entry| nodes.push(entry)))
            }
            Self::Neither => {
                let nodes = Nodes::new(area, |stack| Unlocked(UnsafeCell::new(stack)));
                // SAFETY: one thread plays it.
                let stack = || unsafe { &mut *nodes.here().0.get() };
                to.pairs(|| entry(|| stack().pop(), |entry| stack().push(entry)))
            }
            Self::Addresses => to.pairs(bare_pair::<FutexLock>()),
            Self::WithoutExchanges => to.pairs(bare_pair::<OneThread>()),
        }
    }

    /// Returns true if it is for one thread.
    fn is_alone(self) -> bool {
        matches!(self, Self::Neither | Self::Addresses | Self::WithoutExchanges)
    }
}

/// Pops an entry of this CPU's, and pushes it to this CPU's.
#[inline(always)]
fn entry(pop: impl Fn() -> Option<u64>, push: impl Fn(u64) -> bool) {
    if let Some(entry) = core::hint::black_box(pop()) {
        core::hint::black_box(push(entry));
    }
}

/// Allocates and frees a page of a space over no memory.
fn bare_pair<L: RawMutex + Send + Sync + 'static>() -> impl Fn() + Sync {
    let platform = NullPlatform::<L>::new(span(), FirstCpu, ByCallers);
    let space = Space::new(platform, SpaceOptions::default()).expect("metadata");
    move || pair_of(&space)
}

/// Allocates and frees a page.
#[inline(always)]
fn pair_of<P: Platform>(space: &Space<P>) {
    let addr = space.raw().alloc(&Request::new(4096)).expect("an area");
    // SAFETY: allocated just now, and not used.
    unsafe { space.raw().free(core::hint::black_box(addr)) }.expect("an area");
}

/// The time of a pair.
#[derive(Clone, Debug)]
pub struct Row {
    /// Threads, each on a CPU of its own.
    pub threads: usize,
    /// The way.
    pub way: Way,
    /// CPU time of a pair, in ns.
    pub ns: f64,
}

/// Measures the ways, by one thread and, but for those of the only one, by two.
#[must_use]
pub fn run(area: Area, limits: &Limits) -> Vec<Row> {
    let mut rows = Vec::new();
    for threads in [1, 2] {
        let ways = Way::value_variants().iter().filter(|way| threads == 1 || !way.is_alone());
        let mut rounds: Vec<_> = ways.map(|&way| (way, Vec::new())).collect();
        for _ in 0..limits.rounds {
            for (way, times) in &mut rounds {
                times.push(way.give(area, Together { threads, limits }));
            }
        }
        rows.extend(rounds.into_iter().map(|(way, times)| Row { threads, way, ns: median(&times) }));
    }
    rows
}

/// Pairs are made by so many threads at once, each on a CPU of its own.
struct Together<'a> {
    threads: usize,
    limits: &'a Limits,
}

impl Use for Together<'_> {
    /// The ns of a pair.
    type Output = f64;

    fn pairs(self, pair: impl Fn() + Sync) -> f64 {
        let (pair, begin, window) = (&pair, &Barrier::new(self.threads), self.limits.window);
        let play = move |number: usize| {
            Placement::Pinned.place(number);
            begin.wait();
            let many = |iterations| (0..iterations).for_each(|_| pair());
            let iterations = pace(window, |iterations| cpu_ns(|| many(iterations)));
            cpu_ns(|| many(iterations)) / iterations as f64
        };
        std::thread::scope(|scope| {
            let players: Vec<_> = (0..self.threads).map(|number| scope.spawn(move || play(number))).collect();
            let times: Vec<f64> =
                players.into_iter().map(|player| player.join().expect("no panic")).collect();
            median(&times)
        })
    }
}

#[cfg(test)]
mod tests;
