//! Threads that meet on one design.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use vmalloc::PageRange;
use vmalloc_harness::env;
use vmalloc_lab::designs::Name;
use vmalloc_lab::{Ask, Design, Segment, Setup, State, cpu};
use vmalloc_model::{Seeded, Source};

fn setup(pages: u64, lazy_max: u64) -> Setup {
    Setup::with_cpus(3).span(PageRange::from_len(1, pages).expect("a span")).lazy_max(lazy_max)
}

/// Each page has one owner at a time.
struct Owners(Vec<AtomicU8>);

impl Owners {
    fn new(pages: u64) -> Self {
        Self((0..=pages).map(|_| AtomicU8::new(0)).collect())
    }

    fn change(&self, (start, pages): (u64, u64), from: u8, to: u8) {
        for page in start..start + pages {
            let was = self.0[page as usize].swap(to, SeqCst);
            assert_eq!(was, from, "page {page} was {was}'s when it went from {from} to {to}");
        }
    }
}

fn whole_at_the_end(design: &dyn Design) {
    design.verify().expect("sound at rest");
    design.settle();
    design.verify().expect("sound when settled");
    assert_eq!(
        design.segments(),
        [Segment { range: design.span(), state: State::Free }],
        "{}",
        design.name()
    );
}

/// Areas of random sizes, each freed by the thread that made it or by another.
fn hammer(design: &dyn Design, owners: &Owners, exchange: &Mutex<Vec<(u64, u64)>>, thread: u8, seed: u64) {
    cpu::play(Some(usize::from(thread)));
    let (mut source, mut held) = (Seeded::new(seed + u64::from(thread)), Vec::new());
    for _ in 0..env::ops(20_000) {
        match source.below(16) {
            0..=7 if held.len() < 40 => {
                let pages = source.between(1, 20);
                let Ok(start) = design.alloc(&Ask::new(pages).align(1 << source.below(3))) else { continue };
                owners.change((start, pages), 0, 1);
                held.push((start, pages));
            }
            8..=9 if !held.is_empty() => {
                let area = held.swap_remove(source.below(held.len() as u64) as usize);
                let other = std::mem::replace(&mut *exchange.lock().expect("no panic"), vec![area]);
                held.extend(other);
            }
            10 => design.purge(),
            11 => {
                let (offsets, sizes) = ([0, 9], [3, 5]);
                let Ok(base) = design.alloc_congruent(&offsets, &sizes, 2) else { continue };
                let parts = [(base, 3), (base + 9, 5)];
                parts.into_iter().for_each(|part| owners.change(part, 0, 2));
                parts.into_iter().for_each(|part| owners.change(part, 2, 0));
                design.free_congruent(base, &offsets, &sizes).expect("a group");
            }
            _ if !held.is_empty() => {
                let area = held.swap_remove(source.below(held.len() as u64) as usize);
                owners.change(area, 1, 0);
                design.free(area.0).expect("an area");
            }
            _ => {}
        }
    }
    exchange.lock().expect("no panic").extend(held);
    cpu::play(None);
}

#[test]
fn threads_never_hold_the_same_page_and_leave_a_whole_span() {
    let seed = env::seed(7);
    for &name in Name::ALL {
        println!("{name}, VMALLOC_SEED={seed}");
        // Room for three threads with forty areas each, most of the time; often nothing is lazy but
        // what is needed.
        for (pages, lazy_max) in [(1000, 100), (8000, 1000)] {
            let (design, owners) = (name.build(&setup(pages, lazy_max)), Owners::new(pages));
            let exchange = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let (design, owners, exchange) = (&*design, &owners, &exchange);
                    scope.spawn(move || hammer(design, owners, exchange, thread, seed));
                }
            });
            for (start, _) in exchange.into_inner().expect("no panic") {
                design.free(start).expect("an area");
            }
            whole_at_the_end(&*design);
        }
    }
}

/// Each thread holds at most one area, and there is room for one each: a thread that asks may count
/// on it.
fn take_and_return(design: &dyn Design, thread: usize, rounds: usize) {
    cpu::play(Some(thread));
    for round in 0..rounds {
        let area = design.alloc(&Ask::new(8));
        let start = area.unwrap_or_else(|no| panic!("{}: round {round}: {no}", design.name()));
        design.free(start).expect("an area");
    }
    cpu::play(None);
}

#[test]
fn alloc_is_not_refused_while_freed_space_is_in_flight() {
    for &name in Name::ALL {
        for threads in 2..=4 {
            // Nothing is purged before a thread needs it.
            let design = name.build(&setup(8 * threads as u64, 1 << 20));
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let design = &*design;
                    scope.spawn(move || take_and_return(design, thread, env::ops(6_000)));
                }
            });
            whole_at_the_end(&*design);
        }
    }
}
