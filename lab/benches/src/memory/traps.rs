//! Frees after which a stale access traps at once.
//!
//! Every design writes a byte to each page that a load touches, so that all of them pay for memory.
//! A guard page lies behind each area.

use super::Row;
use crate::buffers::{Live, Memory, PAGE_BYTES, bounce};
use crate::by_hand::{ACCESS, Mapped};
use crate::rounds::{Limits, medians};
use rustix::mm::MprotectFlags;
use std::ptr::NonNull;
use vmalloc_linux::{GuardMeans, LinuxOptions, SpaceOptions, open};

/// Pages of the areas that are allocated and freed in turn. All of them are touched, or an eighth.
/// The last two are below and above the size from which on no pages go to the stash.
const SIZES: [usize; 8] = [1, 3, 16, 64, 100, 256, 1000, 2000];
/// Areas that live at once under the steady load, of 1 … 64 pages each.
const LIVE: usize = 1000;

/// `mmap`, a mark behind the pages, and `munmap`: what a program does by itself.
struct Mmap;

impl Memory for Mmap {
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        let mapped = Mapped::new(bytes + PAGE_BYTES, ACCESS).expect("a mapping");
        let guard = mapped.addr() + bytes..mapped.end();
        if !mapped.mark_guard(guard.clone()) {
            mapped.protect(guard, MprotectFlags::empty()).expect("a mapping more");
        }
        NonNull::new(std::ptr::with_exposed_provenance_mut(mapped.leak())).expect("no mapping at null")
    }

    unsafe fn free(&mut self, buffer: NonNull<u8>, bytes: usize) {
        // SAFETY: `allocate` has made this mapping, and nothing uses it any more.
        drop(unsafe { Mapped::leaked(buffer.as_ptr().addr(), bytes + PAGE_BYTES) });
    }
}

/// A design: its name, and its memory with a guard page behind each area.
type Design = (&'static str, Box<dyn Memory>);

/// Returns every design that this kernel has the means for, the one to compare with first.
fn designs() -> Vec<Design> {
    let (trap, lazy) = (SpaceOptions::default().trap_on_free(true), SpaceOptions::default().unmap_on_free());
    let with = |guards| LinuxOptions::new().guard_means(guards);
    let userfault = with(GuardMeans::Userfault);
    let spaces = [
        ("at once, userfaultfd", userfault, trap),
        ("at once, userfaultfd without a stash", userfault, trap.unmap_on_free()),
        ("at once, marks", with(GuardMeans::PteMarkers), trap),
        ("at once, mprotect", with(GuardMeans::Mprotect), trap),
        ("after the purge, marks", with(GuardMeans::PteMarkers), lazy),
        ("after the purge, userfaultfd", userfault, lazy),
    ];
    let mut designs: Vec<Design> = vec![("mmap + guard + munmap", Box::new(Mmap))];
    for (name, options, space_options) in spaces {
        designs.extend(
            open(options, space_options).ok().map(|space| (name, Box::new(space) as Box<dyn Memory>)),
        );
    }
    designs
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

/// Areas of random sizes, each of which was replaced some times.
fn steady(memory: &mut dyn Memory) -> Live<&mut dyn Memory> {
    let mut live = Live::new(memory, 1, LIVE, 1..=64);
    live.replace(3 * LIVE);
    live
}

/// Measures the group.
pub fn run(limits: &Limits) -> Vec<Row> {
    let mut designs = designs();
    let names: Vec<_> = designs.iter().map(|(name, _)| *name).collect();
    let mut all = Vec::new();
    let shares = |pages| [(pages, pages), (pages, pages / 8)];
    for (pages, touched) in SIZES.into_iter().flat_map(shares).filter(|(_, touched)| *touched != 0) {
        let mut players: Vec<Box<dyn FnMut(usize) + '_>> = Vec::new();
        for (_, memory) in &mut designs {
            let (bytes, touched) = (pages * PAGE_BYTES, touched * PAGE_BYTES);
            players.push(Box::new(move |count| bounce(&mut **memory, bytes, touched, count)));
        }
        let load = format!("{pages} pages, {touched} touched, freed");
        all.extend(rows(&load, &names, &medians(&mut players, limits)));
    }
    let mut steady: Vec<_> = designs.iter_mut().map(|(_, memory)| steady(&mut **memory)).collect();
    let mut players: Vec<Box<dyn FnMut(usize) + '_>> = Vec::new();
    for steady in &mut steady {
        players.push(Box::new(|count| steady.replace(count)));
    }
    let load = format!("1…64 pages, {LIVE} live, replaced at random");
    all.extend(rows(&load, &names, &medians(&mut players, limits)));
    all
}
