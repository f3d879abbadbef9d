//! Frees after which a stale access traps at once.
//!
//! Every design writes a byte to each page that a load touches, so that all of them pay for memory.
//! A guard page lies behind each area.

use super::Row;
use crate::rounds::{Limits, medians};
use std::ptr::null_mut;
use vmalloc_kit::rng::Rng;
use vmalloc_linux::{GuardMeans, LinuxOptions, Request, SharedSpace, SpaceOptions, open};

/// The size of a page of this machine.
const PAGE_BYTES: usize = 4096;
/// Pages of the areas that are allocated and freed in turn. All of them are touched, or an eighth.
/// The last two are below and above the size from which on no pages go to the stash.
const SIZES: [usize; 8] = [1, 3, 16, 64, 100, 256, 1000, 2000];
/// Areas that live at once under the steady load, of 1 … 64 pages each.
const LIVE: usize = 1000;
/// `MADV_GUARD_INSTALL`.
const GUARD_INSTALL: i32 = 102;

/// A design: memory with a guard page, and frees.
trait Traps {
    fn name(&self) -> &'static str;
    fn alloc(&mut self, pages: usize) -> usize;
    /// Frees what `alloc` has returned for as many pages, which nothing uses any more.
    fn free(&mut self, addr: usize, pages: usize);
}

/// `mmap`, a mark behind the pages, and `munmap`: what a program does by itself.
struct Mmap;

impl Traps for Mmap {
    fn name(&self) -> &'static str {
        "mmap + guard + munmap"
    }

    fn alloc(&mut self, pages: usize) -> usize {
        let (bytes, access) = (pages * PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let memory = unsafe { libc::mmap(null_mut(), bytes + PAGE_BYTES, access, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED, "mmap failed");
        let guard = memory.wrapping_byte_add(bytes);
        // SAFETY: the last page of the mapping just made.
        if unsafe { libc::madvise(guard, PAGE_BYTES, GUARD_INSTALL) } != 0 {
            // SAFETY: as above.
            let protected = unsafe { libc::mprotect(guard, PAGE_BYTES, libc::PROT_NONE) };
            assert_eq!(protected, 0, "mprotect failed");
        }
        memory.expose_provenance()
    }

    fn free(&mut self, addr: usize, pages: usize) {
        // SAFETY: `alloc` has made this mapping, and nothing uses it any more.
        let done =
            unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(addr), (pages + 1) * PAGE_BYTES) };
        assert_eq!(done, 0, "munmap failed");
    }
}

/// A space of ours.
struct Ours {
    name: &'static str,
    space: SharedSpace,
}

impl Ours {
    /// Returns a space; `None` where the kernel lacks its means.
    fn boxed(
        name: &'static str,
        options: LinuxOptions,
        space_options: SpaceOptions,
    ) -> Option<Box<dyn Traps>> {
        let space = open(options, space_options).ok()?;
        Some(Box::new(Self { name, space }))
    }
}

impl Traps for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn alloc(&mut self, pages: usize) -> usize {
        self.space.raw().alloc(&Request::new(pages * PAGE_BYTES)).expect("memory for every load")
    }

    fn free(&mut self, addr: usize, _pages: usize) {
        // SAFETY: `alloc` has returned it, and nothing uses it any more.
        unsafe { self.space.raw().free(addr) }.expect("an area of ours");
    }
}

/// Returns every design, the one to compare with first.
fn designs() -> Vec<Box<dyn Traps>> {
    let (trap, lazy) = (SpaceOptions::default().trap_on_free(true), SpaceOptions::default().unmap_on_free());
    let with = |guards| LinuxOptions::new().guard_means(guards);
    let userfault = with(GuardMeans::Userfault);
    let mmap: Option<Box<dyn Traps>> = Some(Box::new(Mmap));
    let all = [
        mmap,
        Ours::boxed("at once, userfaultfd", userfault, trap),
        Ours::boxed("at once, userfaultfd without a stash", userfault.stash_bytes(0), trap),
        Ours::boxed("at once, marks", with(GuardMeans::PteMarkers), trap),
        Ours::boxed("at once, mprotect", with(GuardMeans::Mprotect), trap),
        Ours::boxed("after the purge, marks", with(GuardMeans::PteMarkers), lazy),
        Ours::boxed("after the purge, userfaultfd", userfault, lazy),
    ];
    all.into_iter().flatten().collect()
}

fn touch(addr: usize, pages: usize) {
    for page in 0..pages {
        // SAFETY: the caller has just allocated so many pages, and no other thread has them.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(addr + page * PAGE_BYTES).write_volatile(1);
        }
    }
}

fn pairs(design: &mut dyn Traps, (pages, touched): (usize, usize), count: usize) {
    for _ in 0..count {
        let addr = design.alloc(pages);
        touch(addr, touched);
        design.free(addr, pages);
    }
}

/// Areas of random sizes, of which one after the other is replaced.
struct Steady<'a> {
    design: &'a mut dyn Traps,
    live: Vec<(usize, usize)>,
    rng: Rng,
}

impl<'a> Steady<'a> {
    fn new(design: &'a mut dyn Traps) -> Self {
        let mut steady = Self { design, live: Vec::new(), rng: Rng::new(1) };
        for _ in 0..LIVE {
            let one = steady.alloc();
            steady.live.push(one);
        }
        steady.play(3 * LIVE);
        steady
    }

    fn alloc(&mut self) -> (usize, usize) {
        let pages = 1 + self.rng.below(64) as usize;
        let addr = self.design.alloc(pages);
        touch(addr, pages);
        (addr, pages)
    }

    fn play(&mut self, count: usize) {
        for _ in 0..count {
            let victim = self.rng.below(LIVE as u64) as usize;
            let (addr, pages) = self.live[victim];
            self.design.free(addr, pages);
            self.live[victim] = self.alloc();
        }
    }
}

impl Drop for Steady<'_> {
    fn drop(&mut self) {
        self.live.drain(..).for_each(|(addr, pages)| self.design.free(addr, pages));
    }
}

/// Returns the rows of one load: the time of each design, and how often it fits into that of the
/// first.
fn rows(load: &str, designs: &[&'static str], ns: &[f64]) -> Vec<Row> {
    let both = |(&name, &ns): (&&'static str, &f64)| {
        let time = Row::new(load, name, ns / 1e3, "µs a pair");
        [time, Row::new(load, name, 1.0, "times as fast as mmap")]
    };
    let mut rows: Vec<Row> = designs.iter().zip(ns).flat_map(both).collect();
    for (pair, time) in rows.chunks_mut(2).zip(ns) {
        pair[1].value = ns[0] / time;
    }
    rows
}

/// Measures the group.
pub fn run(limits: &Limits) -> Vec<Row> {
    let mut designs = designs();
    let names: Vec<_> = designs.iter().map(|design| design.name()).collect();
    let mut all = Vec::new();
    let shares = |pages| [(pages, pages), (pages, pages / 8)];
    for size @ (pages, touched) in SIZES.into_iter().flat_map(shares).filter(|(_, touched)| *touched != 0) {
        let mut players: Vec<Box<dyn FnMut(usize) + '_>> = Vec::new();
        for design in &mut designs {
            players.push(Box::new(move |count| pairs(&mut **design, size, count)));
        }
        let load = format!("{pages} pages, {touched} touched, freed");
        all.extend(rows(&load, &names, &medians(&mut players, limits)));
    }
    let mut steady: Vec<_> = designs.iter_mut().map(|design| Steady::new(&mut **design)).collect();
    let mut players: Vec<Box<dyn FnMut(usize) + '_>> = Vec::new();
    for steady in &mut steady {
        players.push(Box::new(|count| steady.play(count)));
    }
    let load = format!("1…64 pages, {LIVE} live, replaced at random");
    all.extend(rows(&load, &names, &medians(&mut players, limits)));
    all
}
