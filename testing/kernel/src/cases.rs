//! The cases of Linux's test driver, with its names and its lines.
//!
//! A case runs `loops` turns. What it does once, or holds, is Linux's at 1000 turns and more, and
//! in proportion less at fewer. "Touch" means to write the first word.

use crate::access;
use crate::clock;
use crate::cpu::{self, Here};
use crate::machine::Space;
use crate::memory::PAGE;
use crate::serial::say;
use crate::workers;
use crate::world::{Failure, Outcome, World, ensure, free, pages};
use alloc::vec::Vec;
use lock_api::Mutex;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use vmalloc::{AllocError, Frame, FrameSupply, Request};
use vmalloc_percpu::TAG;
use vmalloc_short::ShortMaps;
use vmalloc_tables::IrqLock;

/// The environment of a case.
pub(crate) struct Context {
    pub(crate) space: &'static Space,
    pub(crate) workers: usize,
    pub(crate) loops: u64,
    /// Frames that this worker may hold.
    most_held: u64,
    random: SplitMix64,
}

impl Context {
    pub(crate) fn new(world: &World, space: &'static Space, workers: usize, loops: u64) -> Self {
        // Half of what there is, for all together; areas take tables, too.
        let most_held = world.kernel.supply.free() / 2 / workers as u64;
        Self { space, workers, loops, most_held, random: SplitMix64::seed_from_u64(cpu::number() as u64) }
    }

    /// Returns a random number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// As many of `count` as go with the number of turns.
    fn share(&self, count: u64) -> u64 {
        (count * self.loops.min(1000) / 1000).max(1)
    }

    fn held(&self, count: u64) -> u64 {
        self.share(count).min(self.most_held)
    }
}

/// How a case went.
enum End {
    /// Through.
    Done,
    /// Refused, as it should be.
    Expected,
}

/// A case of the table.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    run: fn(&mut Context) -> Result<End, Failure>,
}

impl Case {
    /// Runs it, and says in ticks how long it took.
    pub(crate) fn ticks(&self, context: &mut Context) -> Result<u64, Failure> {
        let start = clock::ticks();
        (self.run)(context)?;
        Ok(clock::ticks() - start)
    }
}

/// All cases, in Linux's order.
pub(crate) const CASES: [Case; 9] = [
    Case { name: "fix_size_alloc_test", run: fix_size },
    Case { name: "full_fit_alloc_test", run: full_fit },
    Case { name: "long_busy_list_alloc_test", run: long_busy_list },
    Case { name: "random_size_alloc_test", run: random_size },
    Case { name: "fix_align_alloc_test", run: fix_align },
    Case { name: "random_size_align_alloc_test", run: random_size_align },
    Case { name: "align_shift_alloc_test", run: align_shift },
    Case { name: "pcpu_alloc_test", run: pcpu },
    Case { name: "vm_map_ram_test", run: vm_map_ram },
];

/// Runs all cases on all CPUs at once, unmapping what is freed and then caching it; how many
/// failed.
pub(crate) fn run(world: &World, loops: u64) -> usize {
    run_on(world, world.space, "unmap", loops) + run_on(world, world.caching, "retain", loops)
}

fn run_on(world: &World, space: &'static Space, strategy: &str, loops: u64) -> usize {
    let workers = world.cpus();
    say!(
        "vmalloc test: strategy={strategy} nr_threads={workers} test_repeat_count=1 test_loop_count={loops}"
    );
    let failures: Mutex<IrqLock<Here>, usize> = Mutex::new(0);
    workers::all(world.kernel, |worker| {
        let mut context = Context::new(world, space, workers, loops);
        let start = clock::ticks();
        let failed = CASES.iter().filter(|case| !passes(case, &mut context)).count();
        say!("All test took worker{worker}={} cycles", clock::ticks() - start);
        *failures.lock() += failed;
    });
    failures.into_inner()
}

/// Runs a case, and prints its line.
fn passes(case: &Case, context: &mut Context) -> bool {
    let start = clock::ticks();
    let end = (case.run)(context);
    let usec = clock::microseconds(clock::ticks() - start);
    let (passed, failed, expected) = match &end {
        Ok(End::Done) => (1, 0, ""),
        Ok(End::Expected) => (0, 0, " xfailed: 1"),
        Err(Failure(why)) => {
            say!("FAILED {} on CPU {}: {why}", case.name, cpu::number());
            (0, 1, "")
        }
    };
    let (name, loops) = (case.name, context.loops);
    say!(
        "Summary: {name} passed: {passed} failed: {failed} repeat: 1 loops: {loops} avg: {usec} usec{expected}"
    );
    failed == 0
}

fn touch(addr: usize) {
    // SAFETY: the caller's own area, with a word at least, which is mapped.
    unsafe { core::ptr::with_exposed_provenance_mut::<u64>(addr).write_volatile(1) };
}

/// Areas that are freed when they are dropped: a case may end anywhere.
struct Areas {
    space: &'static Space,
    addrs: Vec<usize>,
}

impl Areas {
    /// `count` areas of a page.
    fn new(space: &'static Space, count: u64) -> Result<Self, AllocError> {
        let mut areas = Self { space, addrs: Vec::with_capacity(count as usize) };
        for _ in 0..count {
            areas.addrs.push(pages(space, 1)?);
        }
        Ok(areas)
    }

    /// Frees every second.
    fn thin(&mut self) -> Outcome {
        let (space, mut place) = (self.space, 0..);
        let mut outcome = Ok(());
        self.addrs.retain(|&addr| {
            let stays = place.next().is_some_and(|place| place % 2 == 0);
            if !stays && let Err(failure) = free(space, addr) {
                outcome = Err(failure);
            }
            stays
        });
        outcome
    }
}

impl Drop for Areas {
    fn drop(&mut self) {
        for addr in self.addrs.drain(..) {
            // A refusal leaves it busy, which the check after the run reports.
            let _ = free(self.space, addr);
        }
    }
}

fn touch_and_free(space: &Space, addr: usize) -> Outcome {
    touch(addr);
    free(space, addr)
}

fn fix_size(context: &mut Context) -> Result<End, Failure> {
    for _ in 0..context.loops {
        touch_and_free(context.space, pages(context.space, 1)?)?;
    }
    Ok(End::Done)
}

/// Lazy pages at which a drain begins, with which Linux's driver fills the space: 32 MiB for each
/// bit of the number of CPUs.
fn lazy_max(context: &Context) -> u64 {
    let bits = usize::BITS - context.space.geometry().cpus.leading_zeros();
    8192 * u64::from(bits)
}

/// Into holes of just the size.
fn full_fit(context: &mut Context) -> Result<End, Failure> {
    let mut held = Areas::new(context.space, context.held(2 * lazy_max(context)))?;
    held.thin()?;
    context.space.purge()?;
    fix_size(context)
}

/// A hundred pages and one, beside 15,000 areas.
fn long_busy_list(context: &mut Context) -> Result<End, Failure> {
    let _held = Areas::new(context.space, context.held(15_000))?;
    for _ in 0..context.loops {
        let (large, small) = (pages(context.space, 100)?, pages(context.space, 1)?);
        touch(large);
        touch(small);
        free(context.space, large)?;
        free(context.space, small)?;
    }
    Ok(End::Done)
}

fn random_size(context: &mut Context) -> Result<End, Failure> {
    for _ in 0..context.loops {
        let count = 1 + context.below(100) as usize;
        touch_and_free(context.space, pages(context.space, count)?)?;
    }
    Ok(End::Done)
}

/// Five pages of zeros at a multiple of a stack's size.
fn fix_align(context: &mut Context) -> Result<End, Failure> {
    for _ in 0..context.loops {
        aligned(context, &Request::new(5 * PAGE).zeroed(), 16 << 10)?;
    }
    Ok(End::Done)
}

/// For a random byte, 1 to 10 pages of zeros at a multiple of 2^(byte % 23).
fn random_size_align(context: &mut Context) -> Result<End, Failure> {
    for _ in 0..context.loops {
        let byte = context.below(256) as usize;
        aligned(context, &Request::new((byte % 10 + 1) * PAGE).zeroed(), 1 << (byte % 23))?;
    }
    Ok(End::Done)
}

/// For each bit of a word one page at that power of two, of which no space has an address for the
/// largest.
fn align_shift(context: &mut Context) -> Result<End, Failure> {
    let mut refused = false;
    for bit in 0..usize::BITS {
        match aligned(context, &Request::new(PAGE), 1 << bit) {
            // Other workers may hold the few addresses there are.
            Err(Refusal::Addresses) if bit >= 30 => refused = true,
            result => result?,
        }
    }
    if context.workers == 1 {
        context.space.verify()?;
    }
    Ok(if refused { End::Expected } else { End::Done })
}

/// Why there is no aligned area.
enum Refusal {
    Addresses,
    Other(Failure),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Addresses => Self("no addresses".into()),
            Refusal::Other(failure) => failure,
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

fn aligned(context: &Context, request: &Request, align: usize) -> Result<(), Refusal> {
    let addr = match context.space.raw().alloc(&request.align(align)) {
        Err(AllocError::NoSpace(_)) => return Err(Refusal::Addresses),
        result => result.map_err(Failure::from)?,
    };
    if !addr.is_multiple_of(align) {
        return Err(Failure(alloc::format!("{addr:#x} is not a multiple of {align:#x}")).into());
    }
    Ok(touch_and_free(context.space, addr)?)
}

/// 35,000 groups of an area for each CPU; then all are freed.
fn pcpu(context: &mut Context) -> Result<End, Failure> {
    const UNIT: usize = 16 * PAGE;
    let cpus = context.space.geometry().cpus;
    let offsets: [usize; cpu::MAX] = core::array::from_fn(|cpu| cpu * UNIT);
    let offsets = &offsets[..cpus];
    // All workers together would run out of memory for notes.
    let count = context.share(35_000 / context.workers as u64) as usize;
    let mut groups = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes = 1 + context.below(PAGE as u64 / 4) as usize;
        let align = (2usize << context.below(12)).max(PAGE);
        let base = vmalloc_percpu::alloc(context.space, offsets, &[bytes; cpu::MAX][..cpus], align)?;
        groups.push((base, bytes));
        ensure!(base.is_multiple_of(align), "{base:#x} is not a multiple of {align:#x}");
    }
    let last = groups.last().and_then(|(base, _)| context.space.find(base + offsets[cpus - 1]));
    ensure!(last.is_some_and(|area| area.tag.as_deref() == Some(TAG)), "{last:?} is no percpu area");
    for (base, bytes) in groups {
        // SAFETY: nothing uses the addresses any more.
        unsafe { vmalloc_percpu::free(context.space, base, offsets, &[bytes; cpu::MAX][..cpus]) }?;
    }
    Ok(End::Done)
}

/// One frame mapped, touched and unmapped.
fn vm_map_ram(context: &mut Context) -> Result<End, Failure> {
    let mut frames = [Frame(0)];
    context.space.platform().take_frames(&mut frames)?;
    let short = ShortMaps::of(context.space)?;
    let mut outcome = Ok(End::Done);
    for _ in 0..context.loops {
        if let Err(failure) = map_and_unmap(&short, &frames) {
            outcome = Err(failure);
            break;
        }
    }
    // SAFETY: taken above, and mapped nowhere any more.
    unsafe { context.space.platform().give_frames(&frames) };
    outcome
}

fn map_and_unmap(short: &ShortMaps<&Space>, frames: &[Frame]) -> Outcome {
    let addr = short.map(frames)?;
    touch(addr);
    ensure!(access::read(addr) == Ok(1), "it does not hold what was written");
    // SAFETY: nothing uses it any more.
    Ok(unsafe { short.unmap(addr, frames.len()) }?)
}
