//! The stack of a CPU, popped and pushed under a lock as the nodes of a space are, and by
//! restartable sequences (rseq(2), Linux 4.18), which the kernel begins again when another thread
//! has had the CPU: to see what these would save of a pair.
//!
//! The C library registers every thread (glibc 2.35) and tells where: x86-64 alone.

use crate::pinning::Placement;
use crate::ranges::span;
use crate::rounds::{Limits, cpu_ns, pace};
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

/// A way to pop an entry of this CPU and push it back.
pub trait Way: Sync {
    /// How tables name it.
    const NAME: &'static str;

    /// Pops an entry of this CPU's, and pushes it to this CPU's.
    fn pair(&self);
}

/// The lock of the nodes on Linux.
pub struct Locked {
    area: Area,
    nodes: Vec<Own<Mutex<FutexLock, Stack>>>,
}

/// Sequences.
pub struct Restartable {
    area: Area,
    nodes: Vec<Own<UnsafeCell<Stack>>>,
}

// SAFETY: the stack of a CPU is changed by sequences alone, which no other thread of that CPU
// interrupts, and no thread of another CPU begins. The last instruction makes the change.
unsafe impl Sync for Restartable {}

/// One stack for the only thread, without a lock: the least that it takes.
pub struct Bare {
    area: Area,
    nodes: Vec<Own<UnsafeCell<Stack>>>,
}

// SAFETY: each thread that plays it has one of its own.
unsafe impl Sync for Bare {}

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

    /// Returns the node of the CPU that this thread runs on, or any node.
    #[inline(always)]
    fn node(self) -> usize {
        self.cpu() as usize % NODES
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

impl Locked {
    /// Makes the stacks.
    #[must_use]
    pub fn new(area: Area) -> Self {
        Self { area, nodes: (0..NODES).map(|_| Own(Mutex::new(BEGIN))).collect() }
    }

    #[inline(always)]
    fn node(&self) -> &Mutex<FutexLock, Stack> {
        &self.nodes[self.area.node()].0
    }
}

impl Way for Locked {
    const NAME: &'static str = "lock";

    #[inline(always)]
    fn pair(&self) {
        let entry = self.node().lock().pop();
        if let Some(entry) = core::hint::black_box(entry) {
            core::hint::black_box(self.node().lock().push(entry));
        }
    }
}

impl Bare {
    /// Makes the stacks.
    #[must_use]
    pub fn new(area: Area) -> Self {
        Self { area, nodes: (0..NODES).map(|_| Own(UnsafeCell::new(BEGIN))).collect() }
    }
}

impl Way for Bare {
    const NAME: &'static str = "neither";

    #[inline(always)]
    fn pair(&self) {
        // SAFETY: one thread plays it.
        let entry = unsafe { (*self.nodes[self.area.node()].0.get()).pop() };
        if let Some(entry) = core::hint::black_box(entry) {
            // SAFETY: as above.
            core::hint::black_box(unsafe { (*self.nodes[self.area.node()].0.get()).push(entry) });
        }
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

impl Restartable {
    /// Makes the stacks.
    #[must_use]
    pub fn new(area: Area) -> Self {
        Self { area, nodes: (0..NODES).map(|_| Own(UnsafeCell::new(BEGIN))).collect() }
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        let (count, entry): (u64, u64);
        // SAFETY: a sequence on the stack of its CPU. It reads an entry below the count, of which
        // there are no more than places.
        unsafe {
            sequence!(
                self.area.0,
                self.nodes.as_ptr(),
                ["mov {count}, [{at}]", "test {count}, {count}", "jz 63f",
                 "mov {entry}, [{at} + {count} * 8]", "lea {less}, [{count} - 1]", "mov [{at}], {less}"],
                count = out(reg) count,
                entry = out(reg) entry,
                less = out(reg) _,
            );
        }
        (count != 0).then_some(entry)
    }

    #[inline(always)]
    fn push(&self, entry: u64) -> bool {
        let count: u64;
        // SAFETY: a sequence on the stack of its CPU. It writes behind the entries, where a place
        // is left.
        unsafe {
            sequence!(
                self.area.0,
                self.nodes.as_ptr(),
                ["mov {count}, [{at}]", "cmp {count}, 62", "jae 63f",
                 "mov [{at} + {count} * 8 + 8], {entry}", "lea {more}, [{count} + 1]", "mov [{at}], {more}"],
                count = out(reg) count,
                entry = in(reg) entry,
                more = out(reg) _,
            );
        }
        count < PLACES as u64
    }

    /// Returns the entries of all CPUs.
    #[cfg(test)]
    fn entries(&mut self) -> u64 {
        self.nodes.iter_mut().map(|node| node.0.get_mut().count).sum()
    }
}

impl Way for Restartable {
    const NAME: &'static str = "rseq";

    #[inline(always)]
    fn pair(&self) {
        if let Some(entry) = core::hint::black_box(self.pop()) {
            core::hint::black_box(self.push(entry));
        }
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

/// Spaces over no memory, whose pairs are the address part alone, with a lock and by one thread
/// without.
pub struct Spaces {
    locked: Space<NullPlatform<FutexLock>>,
    bare: Space<NullPlatform<OneThread>>,
}

impl Spaces {
    /// Makes them, empty.
    ///
    /// # Panics
    /// When there is no memory for their metadata.
    #[must_use]
    pub fn new() -> Self {
        fn space<L: RawMutex + Send + Sync + 'static>() -> Space<NullPlatform<L>> {
            Space::new(NullPlatform::new(span(), FirstCpu, ByCallers), SpaceOptions::default())
                .expect("metadata")
        }
        Self { locked: space(), bare: space() }
    }

    /// Allocates and frees a page under locks.
    pub fn locked_pair(&self) {
        pair_of(&self.locked);
    }

    /// Allocates and frees a page by a thread that is the only one.
    pub fn bare_pair(&self) {
        pair_of(&self.bare);
    }
}

impl Default for Spaces {
    fn default() -> Self {
        Self::new()
    }
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
    pub way: &'static str,
    /// CPU time of a pair, in ns.
    pub ns: f64,
}

/// Measures the ways, and the whole pair of a space: a page allocated and freed, cached.
///
/// # Panics
/// When there are no addresses for a space.
#[must_use]
pub fn run(area: Area, limits: &Limits) -> Vec<Row> {
    let space = open(LinuxOptions::new().drain_thread(false), SpaceOptions::default()).expect("addresses");
    let (locked, rseq, bare) = (Locked::new(area), Restartable::new(area), Bare::new(area));
    let spaces = Spaces::new();
    let mut rows = Vec::new();
    for threads in [1, 2] {
        let names = [
            "whole pair",
            Locked::NAME,
            Restartable::NAME,
            Bare::NAME,
            "addresses of a pair",
            "without exchanges",
        ];
        let mut rounds = vec![Vec::new(); names.len()];
        for _ in 0..limits.rounds {
            rounds[0].push(together(threads, limits, || pair_of(&*space)));
            rounds[1].push(together(threads, limits, || locked.pair()));
            rounds[2].push(together(threads, limits, || rseq.pair()));
            if threads == 1 {
                rounds[3].push(together(threads, limits, || bare.pair()));
                rounds[4].push(alone(limits, || spaces.locked_pair()));
                rounds[5].push(alone(limits, || spaces.bare_pair()));
            }
        }
        let of = |(way, times): (&'static str, &Vec<f64>)| Row { threads, way, ns: median(times) };
        rows.extend(names.into_iter().zip(&rounds).filter(|(_, times)| !times.is_empty()).map(of));
    }
    rows
}

/// Plays `turn` in this thread. Returns the ns of a turn.
fn alone(limits: &Limits, turn: impl Fn()) -> f64 {
    let many = |iterations| (0..iterations).for_each(|_| turn());
    let iterations = pace(limits.window, |iterations| cpu_ns(|| many(iterations)));
    cpu_ns(|| many(iterations)) / iterations as f64
}

/// Plays `turn` in so many threads at once, each on a CPU of its own. Returns the ns of a turn.
fn together(threads: usize, limits: &Limits, turn: impl Fn() + Sync) -> f64 {
    let (turn, begin) = (&turn, &Barrier::new(threads));
    let play = move |number: usize| {
        Placement::Pinned.place(number);
        begin.wait();
        alone(limits, turn)
    };
    std::thread::scope(|scope| {
        let players: Vec<_> = (0..threads).map(|number| scope.spawn(move || play(number))).collect();
        let times: Vec<f64> = players.into_iter().map(|player| player.join().expect("no panic")).collect();
        median(&times)
    })
}

#[cfg(test)]
mod tests;
