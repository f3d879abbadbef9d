//! Pages in and out at fixed addresses: a buffer pool in a reserved area of 64 GiB.
//!
//! Two threads bring random pages in, by a touch, and evict the oldest ones in batches. Evicted
//! pages read as zero, or trap.

use super::Row;
use crate::by_hand::{
    ACCESS, Mapped, PAGE, drop_range, drop_ranges, flush_interrupts, kernel_mappings, touch,
};
use crate::rounds::{Limits, cpu_ns};
use rustix::mm::{MprotectFlags, ProtFlags};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use vmalloc::{Request, SpaceOptions};
use vmalloc_kit::rng::Rng;
use vmalloc_kit::stats::median;
use vmalloc_linux::{LinuxOptions, open};

/// Bytes of the area.
const AREA: usize = 64 << 30;
/// Threads, each with its own part of the area.
const THREADS: usize = 2;
/// Pages that are evicted together.
const BATCH: usize = 512;
/// The span of one table of pages: in each, a page is touched before anything is measured.
const TABLE: usize = 2 << 20;

/// Does something with pages of the calling thread's part, of no more use when they are evicted.
type Act = Box<dyn Fn(&[Range<usize>]) + Sync>;

/// A way to bring batches of pages in, and to evict them.
struct Way {
    name: &'static str,
    /// The first address of the area.
    addr: usize,
    bring_in: Act,
    evict: Act,
}

/// A reserved area of ours.
fn ours(traps: bool) -> Way {
    let space = open(LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space");
    let addr = space.raw().reserve(&Request::new(AREA).align(TABLE)).expect("addresses for the area");
    let evicting = Arc::clone(&space);
    if traps {
        // SAFETY: the pages are the calling thread's, and not committed.
        let bring_in = move |pages: &[_]| unsafe { space.raw().commit(pages) }.expect("memory for a batch");
        // SAFETY: they are committed, and of no more use.
        let evict = move |pages: &[_]| unsafe { evicting.raw().decommit(pages) }.expect("plain memory");
        let name = "vmalloc, evicted pages trap";
        return Way { name, addr, bring_in: Box::new(bring_in), evict: Box::new(evict) };
    }
    let all = addr..addr + AREA;
    // SAFETY: the area is the bench's, and nothing is committed in it.
    unsafe { space.raw().commit(&[all]) }.expect("addresses for the area");
    // SAFETY: the pages are the calling thread's, and of no more use.
    let evict = move |pages: &[_]| unsafe { evicting.raw().discard(pages) }.expect("plain memory");
    let name = "vmalloc, evicted pages read as zero";
    Way { name, addr, bring_in: Box::new(|_| ()), evict: Box::new(evict) }
}

/// Memory of the kernel's, which reads as zero where it was evicted, and its calls.
fn zeroed(name: &'static str, drop: impl Fn(&[Range<usize>]) + Sync + 'static) -> Way {
    let memory = Mapped::new(AREA, ACCESS).expect("addresses for the area");
    let addr = memory.addr();
    let evict = move |pages: &[_]| {
        // It lives as long as the way.
        let _memory = &memory;
        drop(pages);
    };
    Way { name, addr, bring_in: Box::new(|_| ()), evict: Box::new(evict) }
}

/// Memory of the kernel's, whose pages trap when they were evicted.
fn protected() -> Way {
    let memory = Arc::new(Mapped::new(AREA, ProtFlags::empty()).expect("addresses for the area"));
    let (addr, own) = (memory.addr(), Arc::clone(&memory));
    let protect = |memory: &Mapped, page: &Range<usize>, access| {
        memory.protect(page.clone(), access).expect("a mapping more");
    };
    let bring_in = move |pages: &[Range<usize>]| {
        pages.iter().for_each(|page| protect(&own, page, MprotectFlags::READ | MprotectFlags::WRITE));
    };
    let evict = move |pages: &[Range<usize>]| {
        for page in pages {
            // SAFETY: the pages are the calling thread's, and of no more use.
            unsafe { drop_range(page) };
            protect(&memory, page, MprotectFlags::empty());
        }
    };
    Way { name: "mprotect each by hand, trap", addr, bring_in: Box::new(bring_in), evict: Box::new(evict) }
}

const WAYS: [fn() -> Way; 5] = [
    || ours(false),
    || ours(true),
    // SAFETY: the pages are the calling thread's, and of no more use: here and below.
    || zeroed("process_madvise by hand, read as zero", |pages| unsafe { drop_ranges(pages) }),
    || {
        zeroed("madvise each by hand, read as zero", |pages| {
            // SAFETY: as above.
            pages.iter().for_each(|page| unsafe { drop_range(page) });
        })
    },
    protected,
];

/// Draws a batch of pages of a thread's part, no page twice.
fn draw(rng: &mut Rng, part: &Range<usize>) -> Vec<Range<usize>> {
    let mut pages = HashSet::with_capacity(BATCH);
    while pages.len() < BATCH {
        pages.insert(part.start + rng.below((part.len() / PAGE) as u64) as usize * PAGE);
    }
    pages.into_iter().map(|addr| addr..addr + PAGE).collect()
}

fn play(way: &Way, batches: &[Vec<Range<usize>>]) {
    for pages in batches {
        (way.bring_in)(pages);
        for page in pages {
            // SAFETY: the page is accessible, and this thread's.
            unsafe { touch(page.clone()) };
        }
        (way.evict)(pages);
    }
}

/// Lets all threads bring pages in and evict them. Returns CPU µs and interrupts, each for a page.
fn measure(way: &Way, seed: u64, batches: usize) -> [f64; 2] {
    let part = AREA / THREADS;
    let parts = (0..THREADS).map(|nth| {
        let (mut rng, start) = (Rng::new(seed + nth as u64), way.addr + nth * part);
        (0..batches).map(|_| draw(&mut rng, &(start..start + part))).collect::<Vec<_>>()
    });
    let parts: Vec<_> = parts.collect();
    let before = flush_interrupts();
    // Each thread counts its own time.
    let ns: f64 = std::thread::scope(|scope| {
        let threads: Vec<_> =
            parts.iter().map(|part| scope.spawn(move || cpu_ns(|| play(way, part)))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let interrupts = flush_interrupts() - before;
    let pages = (THREADS * batches * BATCH) as f64;
    [ns / 1e3 / pages, interrupts as f64 / pages]
}

/// Touches a page in each table of pages, so that none is made while it is measured.
fn warm_up(way: &Way) {
    let firsts: Vec<_> = (way.addr..way.addr + AREA).step_by(TABLE).map(|addr| addr..addr + PAGE).collect();
    firsts.chunks(BATCH).for_each(|pages| play(way, std::slice::from_ref(&pages.to_vec())));
}

/// Returns how many mappings the kernel has for the way, with a batch of pages in.
fn mappings(way: &Way, before: usize) -> usize {
    let pages = draw(&mut Rng::new(1), &(way.addr..way.addr + AREA));
    (way.bring_in)(&pages);
    // SAFETY: the pages are accessible, and the bench's.
    pages.iter().for_each(|page| unsafe { touch(page.clone()) });
    let count = kernel_mappings().saturating_sub(before);
    (way.evict)(&pages);
    count
}

/// Measures the group.
///
/// # Panics
/// Where there are no addresses for the area.
pub fn run(limits: &Limits) -> Vec<Row> {
    let batches = (limits.window.as_micros() as usize / (3 * BATCH)).max(4);
    let mut rows = Vec::new();
    let make = |make: fn() -> Way| {
        let before = kernel_mappings();
        let way = make();
        warm_up(&way);
        let count = mappings(&way, before);
        (way, count)
    };
    let ways = WAYS.map(make);
    let mut rounds = vec![[Vec::new(), Vec::new()]; ways.len()];
    for seed in 0..limits.rounds {
        for ((way, _), round) in ways.iter().zip(&mut rounds) {
            let figures = measure(way, seed as u64, batches);
            round.iter_mut().zip(figures).for_each(|(round, figure)| round.push(figure));
        }
    }
    for ((way, mappings), [us, interrupts]) in ways.iter().zip(&rounds) {
        let mut push = |value, unit| rows.push(Row::new("random 4 KiB pages, 64 GiB", way.name, value, unit));
        push(median(us), "µs a page");
        push(interrupts.iter().sum::<f64>() / interrupts.len() as f64, "interrupts a page");
        push(*mappings as f64, "kernel mappings, a batch in");
    }
    rows
}
