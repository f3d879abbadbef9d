//! How much stack each call takes: the stack below a call is painted, and what is left of the paint
//! is looked at when it has returned.
//!
//! Lines `stack NAME ONE MANY REFUSED`, in bytes: with one area, with many that were made and freed
//! in an order of chance, and with as many where the platform refuses. Many calls under one name
//! count as their deepest. A caller's frame is not counted, nor what an interrupt takes: those have
//! stacks of their own.

use super::cpu::NUMBER;
use crate::checks::shortage::Hog;
use crate::machine::{Kernel, PATIENCE, Space};
use crate::memory::PAGE;
use crate::serial::say;
use crate::world::{Failure, Outcome, World, ensure};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use vmalloc::{
    AreaError, Frame, FrameRun, Notifier, PageRange, Protection, Request, Resize, SpaceError, SpaceOptions,
};
use vmalloc_tables::PageTables;

type Platform = PageTables<&'static Kernel>;

/// Areas of the second column and the third.
const MANY: usize = 100_000;
/// CPUs that this one is in turn, and nodes: so many that some share a purger. One more is silent.
const CPUS: usize = 11;
const SILENT: u64 = 1 << CPUS;
/// Bytes that `Space::new` may take, and any other call.
const BOUNDS: [usize; 2] = [2048, 4096];
/// Bytes that are painted.
const PAINTED: usize = 48 << 10;
const PAINT: u64 = 0x5a5a_a5a5_5a5a_a5a5;

/// The stack pointer when the call that is measured was made, if that is not the one of `depth`.
static CALLER: AtomicUsize = AtomicUsize::new(0);

/// Returns the bytes of stack that `call` takes, its return address included.
#[inline(never)]
fn depth(call: &mut dyn FnMut()) -> usize {
    let top: usize;
    // SAFETY: below the stack pointer nothing is in use, in code without a red zone. Interrupts
    // have stacks of their own. This stack is larger.
    unsafe {
        asm!("mov {top}, rsp", "lea rdi, [rsp - {bytes}]", "rep stosq", top = out(reg) top,
            inout("rcx") PAINTED / 8 => _, out("rdi") _, in("rax") PAINT, bytes = const PAINTED);
    }
    CALLER.store(top, Relaxed);
    call();
    let left: usize;
    // SAFETY: as above; it only reads.
    unsafe {
        asm!("lea rdi, [{top} - {bytes}]", "repe scasq", top = in(reg) top,
            inout("rcx") PAINTED / 8 => left, out("rdi") _, in("rax") PAINT, bytes = const PAINTED);
    }
    // The first word that has no paint was looked at, too.
    (left + 1) * 8 - (top - CALLER.load(Relaxed))
}

/// Makes a space in a frame of its own: that of its caller has the place for it.
#[inline(never)]
fn new_space(platform: Platform, options: SpaceOptions) -> Result<Space, SpaceError> {
    Space::new(platform, options)
}

/// The stack that calls took, and the column that comes next.
struct Table<'w> {
    world: &'w World,
    /// Frames to map.
    shown: [Frame; 16],
    rows: Vec<(&'static str, [usize; 3])>,
    column: usize,
}

impl<'w> Table<'w> {
    /// Measures a call under that name. Returns what it returns.
    fn row<T>(&mut self, name: &'static str, call: impl FnOnce() -> T) -> T {
        let (mut call, mut result) = (Some(call), None);
        let bytes = depth(&mut || result = call.take().map(|call| call()));
        let row = self.rows.iter().position(|row| row.0 == name).unwrap_or_else(|| {
            self.rows.push((name, [0; 3]));
            self.rows.len() - 1
        });
        let most = &mut self.rows[row].1[self.column];
        *most = (*most).max(bytes);
        result.expect("it was called")
    }

    /// Measures a call for each of `areas`, which nothing uses. Returns true if all went well.
    fn each<T, E>(
        &mut self,
        name: &'static str,
        areas: &[usize],
        mut call: impl FnMut(usize) -> Result<T, E>,
    ) -> bool {
        // Not all of them: each call is made.
        self.row(name, || areas.iter().fold(true, |are_ok, &addr| call(addr).is_ok() & are_ok))
    }

    /// Makes the platform refuse, in the third column.
    fn refuse(&self) -> Option<Refusal<'w>> {
        (self.column == 2).then(|| Refusal::new(self.world))
    }

    fn print(&self) -> Outcome {
        say!("stack call 1 {MANY} refused");
        let mut too_deep = 0;
        for (name, [one, many, refused]) in &self.rows {
            say!("stack {name} {one} {many} {refused}");
            let bound = BOUNDS[usize::from(*name != "new")];
            too_deep += [one, many, refused].iter().filter(|bytes| ***bytes > bound).count();
        }
        ensure!(too_deep == 0, "{too_deep} numbers are above {} (new) and {} (others)", BOUNDS[0], BOUNDS[1]);
        Ok(())
    }
}

/// Makes this CPU, the only one that runs, say that it is `number`.
fn pretend(kernel: &Kernel, number: usize) {
    // SAFETY: GS leads to this CPU's words.
    unsafe { asm!("mov gs:[{NUMBER}], {}", in(reg) number, NUMBER = const NUMBER, options(nostack)) };
    let silent = kernel.online.load(Relaxed) & SILENT;
    kernel.online.store(1 << number | silent, Relaxed);
}

/// Counts a CPU as online that does not run, or no more. While it is, every flush is refused.
fn set_silent(kernel: &Kernel, is_silent: bool) {
    let others = kernel.online.load(Relaxed) & !SILENT;
    kernel.online.store(others | if is_silent { SILENT } else { 0 }, Relaxed);
    kernel.blocking.store(if is_silent { 1 } else { PATIENCE }, Relaxed);
}

/// While it lives the platform refuses every flush, and what takes frames.
struct Refusal<'w> {
    kernel: &'static Kernel,
    _hog: Hog<'w>,
}

impl<'w> Refusal<'w> {
    fn new(world: &'w World) -> Self {
        let hog = Hog::leave(world, 0).unwrap_or_else(|_| unreachable!("the supply has what it says"));
        set_silent(world.kernel, true);
        Self { kernel: world.kernel, _hog: hog }
    }
}

impl Drop for Refusal<'_> {
    fn drop(&mut self) {
        set_silent(self.kernel, false);
    }
}

/// A notifier that has nothing to give.
struct Idle;

impl Notifier<Platform> for Idle {
    fn make_room(self: Arc<Self>, _: &Space, _: u64) -> u64 {
        0
    }
}

/// Measures all calls, and prints the table.
pub(crate) fn run(world: &World) -> Outcome {
    let cpus = world.kernel.cpus.len();
    ensure!(cpus > CPUS, "the machine has {cpus} CPUs, not {}", CPUS + 1);
    let mut table = Table { world, shown: [Frame(0); 16], rows: Vec::new(), column: 0 };
    ensure!(world.kernel.supply.take(&mut table.shown), "there are no frames");
    say!("a space has {} bytes, its platform {}", size_of::<Space>(), size_of::<Platform>());
    for (column, count, nodes) in [(0, 1, 1), (0, 1, CPUS), (1, MANY, 1), (1, MANY, CPUS), (2, MANY, CPUS)] {
        table.column = column;
        calls(&mut table, count, nodes)?;
    }
    table.print()
}

/// Makes a space and measures its calls, with `count` areas. Where the platform refuses, it does so
/// from the moment on at which the areas are there; it relents for what has to end well.
fn calls(table: &mut Table<'_>, count: usize, nodes: usize) -> Outcome {
    let kernel = table.world.kernel;
    let span = PageRange::from_len(0xf_ffff_e900_0000, 1 << 24).expect("pages");
    // SAFETY: nothing else is there, and the spaces before it are gone.
    let platform = unsafe { PageTables::new(kernel, span) }.expect("frames for tables");
    // A free purges when nearly all areas are lazy, each with its guard page.
    let options = SpaceOptions::default().unmap_on_free().nodes(nodes).lazy_max_pages(count as u64 * 19 / 10);
    let space = table.row("new", || {
        let caller;
        // SAFETY: it only reads the stack pointer.
        unsafe { asm!("mov {}, rsp", out(reg) caller, options(nostack, nomem)) };
        CALLER.store(caller, Relaxed);
        new_space(platform, options)
    })?;
    let notifier: Arc<dyn Notifier<Platform>> = Arc::new(Idle);
    table.row("register_notifier", || space.register_notifier(&notifier))?;

    rounds(table, &space, count, nodes)?;
    others(table, &space, count)?;
    table.row("decay", || space.decay())?;
    table.row("shrink", || space.shrink(u64::MAX))?;
    let _refusal = table.refuse();
    let mut space = Some(space);
    table.row("drop", || space = None);
    Ok(())
}

/// Measures frees that purge, and purges, three times: of all areas, and then of those that are
/// left.
fn rounds(table: &mut Table<'_>, space: &Space, count: usize, nodes: usize) -> Outcome {
    let kernel = table.world.kernel;
    let mut areas = Vec::with_capacity(count);
    for round in 0..3 {
        table.row("alloc", || {
            (areas.len()..count).try_for_each(|nth| {
                pretend(kernel, nth % nodes);
                space.raw().alloc(&Request::new(PAGE)).map(|addr| areas.push(addr))
            })
        })?;
        if round == 0 {
            look(table, space, areas[count / 2])?;
        }
        shuffle(&mut areas);
        let (refusal, purges) = (table.refuse(), space.stats().purges);
        let kept = if round == 0 { 0 } else { count / 8 };
        let name = if round == 0 { "free that purges" } else { "free" };
        free_each(table, space, name, &areas[kept..], nodes)?;
        areas.truncate(kept);
        ensure!(round > 0 || count == 1 || space.stats().purges > purges, "no free has purged");
        let (name, is_refused) = match round {
            0 => ("purge", table.row("purge", || space.purge()).is_err()),
            1 => ("drain", table.row("drain", || space.drain()).is_err()),
            _ => ("flush", table.row("flush", || space.flush()).is_err()),
        };
        ensure!(!is_refused || refusal.is_some(), "{name} was refused");
        ensure!(is_refused || refusal.is_none() || round > 0, "{name} was not refused");
        table.row("verify", || space.verify())?;
        drop(refusal);
        table.row("purge", || space.purge())?;
    }
    Ok(())
}

/// Measures frees on one CPU after the other.
fn free_each(
    table: &mut Table<'_>,
    space: &Space,
    name: &'static str,
    areas: &[usize],
    nodes: usize,
) -> Outcome {
    let (kernel, mut cpus) = (table.world.kernel, (0..nodes).cycle());
    let is_free = table.each(name, areas, |addr| {
        cpus.next().into_iter().for_each(|cpu| pretend(kernel, cpu));
        // SAFETY: the area is of this check, and nothing uses it.
        unsafe { space.raw().free(addr) }
    });
    ensure!(is_free, "an area can't be freed");
    Ok(())
}

fn shuffle(areas: &mut [usize]) {
    let mut random = SplitMix64::seed_from_u64(areas.len() as u64);
    for last in (1..areas.len()).rev() {
        areas.swap(last, random.next_u64() as usize % (last + 1));
    }
}

/// Measures calls that change nothing.
fn look(table: &mut Table<'_>, space: &Space, addr: usize) -> Outcome {
    let area = table.row("find", || space.find(addr));
    ensure!(area.is_some_and(|area| area.addr == addr), "{area:?} is not found");
    table.row("try_find", || black_box(space.try_find(addr)).is_ok());
    table.row("usable_size", || black_box(space.usable_size(addr)));
    table.row("read", || space.read(addr, &mut [0; 8]));
    table.row("physical_page", || black_box(space.physical_page(addr)));
    let areas = table.row("areas", || space.areas().count());
    ensure!(areas >= 1, "no areas");
    table.row("segments", || black_box(space.segments().count()));
    table.row("cached", || black_box(space.cached().count()));
    table.row("stats", || black_box(space.stats().busy_areas));
    table.row("node_stats", || black_box(space.node_stats().count()));
    table.row("outline", || _ = black_box(space.outline()));
    Ok(())
}

/// Measures the other calls that make and end areas: of each kind some thousand. Where the platform
/// refuses, some are made again, and may be refused.
fn others(table: &mut Table<'_>, space: &Space, count: usize) -> Outcome {
    let ways = if table.column == 2 { 2 } else { 1 };
    for refuses in [false, true].into_iter().take(ways) {
        let turns = count.min(if refuses { 100 } else { 5000 });
        let requests = [
            ("alloc of zeros", Request::new(3 * PAGE).zeroed(), turns),
            ("alloc aligned", Request::new(3 * PAGE).align(16 * PAGE), turns),
            ("alloc with tag and record", Request::new(PAGE).tag("stack").record(7), turns),
            ("alloc huge", Request::new(2 << 20).huge(), turns.min(20)),
        ];
        for (name, request, turns) in requests {
            let mut areas = Vec::with_capacity(2 * turns);
            let mut alloc = || space.raw().alloc(&request).map(|addr| areas.push(addr));
            (0..turns).try_for_each(|_| alloc())?;
            let refusal = if refuses { table.refuse() } else { None };
            let made = table.row(name, || (0..turns).filter(|_| alloc().is_ok()).count());
            ensure!(refuses || made == turns, "{name}: {made} areas");
            if name == "alloc of zeros" {
                resize(table, space, &mut areas);
            }
            // SAFETY: the areas are of this check, and nothing uses them.
            ensure!(table.each("free", &areas, |addr| unsafe { space.raw().free(addr) }), "{name}: a free");
            let purged = table.row("purge", || space.purge());
            ensure!(refuses || purged.is_ok(), "{name}: {purged:?}");
            drop(refusal);
            space.purge()?;
        }
        let refusal = if refuses { table.refuse() } else { None };
        let are_all_done = reserved(table, space, turns)? & frames(table, space, turns)?;
        ensure!(refuses || are_all_done, "a call was refused");
        drop(refusal);
        space.purge()?;
    }
    Ok(())
}

/// Measures what makes areas larger and smaller, and frees some.
fn resize(table: &mut Table<'_>, space: &Space, areas: &mut Vec<usize>) {
    let raw = space.raw();
    let sizes = [("realloc that moves", 6), ("realloc that shrinks", 2), ("realloc that grows", 3)];
    for (name, pages) in sizes {
        table.row(name, || {
            for addr in &mut *areas {
                // SAFETY: the area is of this check, and nothing uses it.
                *addr = unsafe { raw.realloc(*addr, &Resize::new(pages * PAGE)) }.unwrap_or(*addr);
            }
        });
    }
    // SAFETY: as above. What is refused leaves the area as it is.
    table.each("shrink_in_place", areas, |addr| unsafe { raw.shrink_in_place(addr, PAGE) });
    // SAFETY: as above.
    table.each("grow_in_place", areas, |addr| unsafe { raw.grow_in_place(addr, 3 * PAGE) });
    // SAFETY: as above.
    table.each("set_record", areas, |addr| unsafe { raw.set_record(addr, 3) });
    let mut rest = areas.len() / 2;
    table.row("free_atomic", || {
        areas.retain(|&addr| {
            rest = rest.saturating_sub(1);
            // SAFETY: as above. Where the list is full it is freed later.
            rest == 0 || unsafe { raw.free_atomic(addr) }.is_err()
        });
    });
}

/// Measures reserved areas, with pages of their own and with frames. Returns true if nothing was
/// refused.
fn reserved(table: &mut Table<'_>, space: &Space, turns: usize) -> Result<bool, Failure> {
    let (raw, shown) = (space.raw(), table.shown);
    let mut areas = Vec::with_capacity(turns);
    let mut reserve = || raw.reserve(&Request::new(8 * PAGE)).map(|addr| areas.push(addr));
    table.row("reserve", || (0..turns).try_for_each(|_| reserve()))?;
    let mut ranges: Vec<_> = areas.iter().rev().map(|&addr| addr + PAGE..addr + 3 * PAGE).collect();
    ranges.rotate_left(turns / 3);
    // SAFETY: the areas are of this check, and nothing uses them.
    let results = unsafe {
        [
            table.row("commit", || raw.commit(&ranges)),
            table.row("decommit", || raw.decommit(&ranges)),
            table.row("map_pages", || raw.map_pages(areas[0], &shown[..4], Protection::ReadWrite)),
            table.row("unmap_pages", || raw.unmap_pages(areas[0], 4)),
        ]
    };
    // SAFETY: as above.
    ensure!(table.each("unreserve", &areas, |addr| unsafe { raw.unreserve(addr) }), "unreserve");
    let end = space.geometry().span.end();
    let group = || (1..=turns as u64).map(|nth| PageRange::of(end - 4 * nth, end - 4 * nth + 2));
    table.row("reserve_all", || raw.reserve_all(group(), "group"))?;
    // SAFETY: as above.
    let ended = table.row("unreserve_all", || unsafe { raw.unreserve_all(group(), "group") });
    ended.map_err(|(_, error)| error)?;
    Ok(results.iter().all(Result::is_ok))
}

/// Measures areas that show frames, the caller's or their own; code, and removal. Returns true if
/// nothing was refused.
fn frames(table: &mut Table<'_>, space: &Space, turns: usize) -> Result<bool, Failure> {
    let (raw, shown, protection) = (space.raw(), table.shown, Protection::ReadWrite);
    let run = |nth: usize| FrameRun { first: shown[nth], count: 1 };
    let shared = raw.alloc_shared(&Request::new(2 * PAGE));
    let mut areas = Vec::with_capacity(6 * turns);
    let mut repeat = |name, make: &dyn Fn() -> Result<usize, AreaError>| {
        table.row(name, || (0..turns).try_for_each(|_| make().map(|addr| areas.push(addr)))).is_ok()
    };
    let are_made = [
        repeat("map", &|| Ok(raw.map(&shown, protection, Some("stack"))?)),
        repeat("map_device", &|| Ok(raw.map_device(&[Frame(1 << 30)], protection, None)?)),
        repeat("map_runs", &|| Ok(raw.map_runs(&[run(0), run(2)], protection, None)?)),
        repeat("alloc_shared", &|| Ok(raw.alloc_shared(&Request::new(2 * PAGE))?)),
        repeat("map_shared", &|| raw.map_shared(*shared.as_ref().unwrap_or(&0), PAGE, protection, None)),
        repeat("alloc_exec", &|| Ok(raw.alloc_exec(&Request::new(PAGE))?)),
    ];
    let code = &areas[areas.len().saturating_sub(turns)..];
    // SAFETY: the areas are of this check, and nothing uses them.
    let is_protected = table.each("protect", code, |addr| unsafe { raw.protect(addr, Protection::Read) });
    let (removed, rest) = areas.split_at(turns.min(areas.len()));
    // SAFETY: as above.
    ensure!(table.each("remove", removed, |addr| unsafe { raw.remove(addr) }), "remove");
    let mut memory: Vec<usize> = shared.into_iter().collect();
    memory.reserve(rest.len());
    table.row("unmap", || {
        // SAFETY: as above. What is no mapping is freed below.
        memory.extend(rest.iter().filter(|&&addr| unsafe { raw.unmap(addr) }.is_err()));
    });
    // SAFETY: as above.
    ensure!(table.each("free", &memory, |addr| unsafe { raw.free(addr) }), "free");
    Ok(are_made.iter().all(|is_made| *is_made) && is_protected)
}
