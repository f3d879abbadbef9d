//! A whole space used by two threads, on a machine of plain memory.
//!
//! An ordinary run checks what each thread sees. Under Miri (`cargo xtask miri`) the accesses to
//! memory and to the page table are checked as well: the machine has no lock, so every page that
//! goes from one thread to the other must go by an order that the space made. Its seeds also choose
//! among the values that weak memory allows a load to see.

pub(crate) mod plain;

use plain::{CPUS, PAGE, Plain, run_on};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use vmalloc::{Frame, FreeError, Platform, Space, SpaceOptions};
use vmalloc_short::ShortMaps;

/// Operations of each thread: enough for some purges.
const TURNS: usize = if cfg!(miri) { 6 } else { 4000 };

/// Slots of a block. Under Miri blocks are smaller, and so are most bounds of the allocator.
const SLOTS: u64 = if cfg!(miri) { 16 } else { 64 };

/// The random choices of one thread.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // Knuth's multiplier for 64 bits; the upper half is random enough.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A space, and a place in which one thread leaves an area for the other.
struct Table {
    space: Space<Plain>,
    passed: AtomicUsize,
}

impl Table {
    fn new(replaces: bool, options: SpaceOptions) -> Self {
        let space = Space::new(Plain::new(replaces), options).expect("an empty space");
        Self { space, passed: AtomicUsize::new(0) }
    }

    /// Makes blocks of a few slots for short mappings.
    fn with_blocks(self) -> Self {
        ShortMaps::with_block_slots(&self.space, SLOTS).expect("memory for the records");
        self
    }

    /// Runs `turn` again and again on every CPU at once, and checks what is left.
    fn play(self, turn: impl Fn(&Self, &mut Dice) + Sync) {
        thread::scope(|scope| {
            for cpu in 0..CPUS {
                let (table, turn) = (&self, &turn);
                scope.spawn(move || {
                    run_on(cpu);
                    let mut dice = Dice(cpu as u64 + 1);
                    (0..TURNS).for_each(|_| turn(table, &mut dice));
                });
            }
        });
        self.end();
    }

    fn end(self) {
        self.free(self.passed.load(Ordering::Acquire), false);
        self.space.purge().expect("the machine refuses nothing");
        self.space.verify().expect("the space is in order");
        let stats = self.space.stats();
        assert_eq!((stats.busy_areas, stats.lazy_areas, stats.lazy_pages), (0, 0, 0));
    }

    /// Allocates an area and writes its size into its first and last word.
    fn alloc(&self, pages: u64) -> usize {
        let bytes = pages as usize * PAGE;
        let memory = self.space.raw().alloc(&vmalloc::Request::new(bytes)).expect("there is room");
        for at in [0, bytes - 8] {
            // SAFETY: the area is this thread's, and at least a page long.
            unsafe { std::ptr::with_exposed_provenance_mut::<u64>(memory + at).write(pages) };
        }
        memory
    }

    /// Frees an area of `alloc`, if this is one, after a look at what is in it.
    fn free(&self, addr: usize, from_interrupt: bool) {
        if addr == 0 {
            return;
        }
        let area = self.space.find(addr).expect("it is busy");
        assert_eq!(area.addr, addr);
        let words = [addr, addr + area.bytes - 8].map(std::ptr::with_exposed_provenance::<u64>);
        // SAFETY: the area is this thread's.
        let [first, last] = words.map(|word| unsafe { word.read() });
        assert_eq!((first, last), (area.pages, area.pages));
        if from_interrupt {
            // SAFETY: as above, and the area is freed once.
            match unsafe { self.space.raw().free_atomic(addr) } {
                Err(FreeError::Contended { .. }) => {}
                freed => return freed.expect("it is busy"),
            }
        }
        // SAFETY: as above.
        unsafe { self.space.raw().free(addr) }.expect("it is busy");
    }

    /// Leaves an area for the other thread, and frees what that one left.
    fn pass(&self, addr: usize, from_interrupt: bool) {
        self.free(self.passed.swap(addr, Ordering::AcqRel), from_interrupt);
    }

    /// Maps frames for a moment.
    fn map(&self, frames: &[Frame]) {
        let short = ShortMaps::of(&self.space).expect("they are there");
        let addr = short.map(frames).expect("there is room");
        for (nth, &frame) in frames.iter().enumerate() {
            assert_eq!(self.space.platform().read(addr + nth * PAGE), Some(frame));
        }
        // SAFETY: the mapping is this thread's, and ends here.
        unsafe { short.unmap(addr, frames.len()) }.expect("it is mapped");
    }
}

/// Settings under which few pages make a purge.
fn tight() -> SpaceOptions {
    SpaceOptions::default().lazy_max_pages(8).unmap_on_free()
}

fn areas(table: &Table, dice: &mut Dice) {
    let addr = table.alloc(1 + dice.below(3));
    match dice.below(4) {
        0 => table.free(addr, false),
        1 => table.free(addr, true),
        2 => table.pass(addr, false),
        _ => table.pass(addr, true),
    }
    if dice.below(8) == 0 {
        let _rest = table.space.drain().expect("the machine refuses nothing");
    }
}

#[test]
fn areas_freed_remotely_are_unmapped_before_reuse() {
    Table::new(false, tight()).play(areas);
}

#[test]
fn cached_areas_are_reused_with_their_memory() {
    Table::new(false, SpaceOptions::default().cache_bytes(64 * PAGE)).play(areas);
}

#[test]
fn buffers_begin_zeroed_or_stale_by_type() {
    Table::new(false, SpaceOptions::default().cache_bytes(16 * PAGE).lazy_max_pages(8)).play(
        |table, dice| {
            let bytes = 1 + dice.below(200) as usize;
            let mut zeroed = table.space.zeroed_buffer(bytes).expect("there is room");
            assert!(zeroed.iter().all(|&byte| byte == 0));
            zeroed.fill(7);
            let mut stale = table.space.buffer(bytes).expect("there is room");
            stale.fill(9);
            assert!(zeroed.iter().all(|&byte| byte == 7));
        },
    );
}

/// Frames of one thread or of both, one to four of them, that do not follow each other.
fn mappings(table: &Table, dice: &mut Dice) {
    let first = dice.below(4) * 16;
    let frames = [0, 2, 4, 6].map(|nth| Frame(first + nth));
    table.map(&frames[..1 + dice.below(4) as usize]);
    if dice.below(8) == 0 {
        table.space.flush().expect("the machine refuses nothing");
    }
}

#[test]
fn short_mappings_show_the_frames_mapped_last() {
    Table::new(false, tight()).with_blocks().play(mappings);
}

#[test]
fn replaced_short_mappings_are_ordered() {
    Table::new(true, tight()).with_blocks().play(mappings);
}

#[test]
fn lock_free_lookups_are_consistent() {
    Table::new(false, tight()).play(|table, dice| {
        let addr = table.alloc(1 + dice.below(3));
        let span = table.space.platform().geometry().span;
        let somewhere = span.start() + dice.below(64);
        if let Some(area) = table.space.find((somewhere as usize) * PAGE) {
            let pages = area.pages + u64::from(area.guard);
            assert!((1..=4).contains(&pages), "{area:?}");
            assert!((area.addr..area.addr + pages as usize * PAGE).contains(&(somewhere as usize * PAGE)));
        }
        let held = table.space.areas().map(|area| area.pages).max();
        assert!((1..=3).contains(&held.expect("this thread has an area")));
        table.free(addr, dice.below(2) == 0);
    });
}
