//! Guarded stacks: made, touched at the top, dropped; and how many can live at once.

use super::Row;
use crate::by_hand::{ACCESS, Mapped, PAGE, kernel_mappings};
use crate::rounds::{Limits, cpu_ns, medians, pace};
use corosensei::stack::{DefaultStack, Stack as _};
use crossbeam_queue::ArrayQueue;
use rustix::mm::MprotectFlags;
use std::ptr::with_exposed_provenance_mut;
use vmalloc_kit::stats::median;
use vmalloc_stacks::{Stack, Stacks, StacksOptions};

/// Sizes, and how tables name them.
const SIZES: [(usize, &str); 2] = [(64 << 10, "64 KiB"), (1 << 20, "1 MiB")];
/// Stacks that are in use together, in the loads that have several.
const TOGETHER: usize = 500;
/// Live stacks: as many as wanted, and in a quick look.
const LIVE: usize = 1_000_000;
const LIVE_QUICKLY: usize = 50_000;

/// A way to make guarded stacks.
trait Design: Sync {
    type Stack;
    const NAME: &'static str;

    fn make(&self) -> Option<Self::Stack>;
    fn top(stack: &Self::Stack) -> usize;
}

impl Design for Stacks {
    type Stack = Stack;
    const NAME: &'static str = "vmalloc-stacks";

    #[inline]
    fn make(&self) -> Option<Stack> {
        self.stack().ok()
    }

    #[inline]
    fn top(stack: &Stack) -> usize {
        stack.top()
    }
}

/// Stacks of the crate `corosensei`, of so many bytes.
struct Corosensei(usize);

impl Design for Corosensei {
    type Stack = DefaultStack;
    const NAME: &'static str = "corosensei DefaultStack";

    fn make(&self) -> Option<DefaultStack> {
        DefaultStack::new(self.0).ok()
    }

    fn top(stack: &DefaultStack) -> usize {
        stack.base().get()
    }
}

/// Stacks of so many bytes by system calls, as coroutine libraries make them.
struct Mmap(usize);

impl Design for Mmap {
    type Stack = Mapped;
    const NAME: &'static str = "mmap, guard, munmap";

    fn make(&self) -> Option<Mapped> {
        let stack = Mapped::new(self.0 + PAGE, ACCESS).ok()?;
        stack.protect(stack.addr()..stack.addr() + PAGE, MprotectFlags::empty()).ok()?;
        Some(stack)
    }

    fn top(stack: &Mapped) -> usize {
        stack.end()
    }
}

/// Stacks of so many bytes that wait in a queue between their uses, as a library that pools them
/// by hand has them: with a guard mark in place of a mapping for the guard page (Linux 6.13). They
/// keep all their memory.
struct Queued {
    bytes: usize,
    waiting: &'static ArrayQueue<Mapped>,
}

/// A stack of a queue, to which it goes back.
struct Pooled {
    stack: Option<Mapped>,
    home: &'static ArrayQueue<Mapped>,
}

impl Queued {
    fn new(bytes: usize) -> Self {
        // Stacks refer to it without a count. It stays, and is empty in the end.
        Self { bytes, waiting: Box::leak(Box::new(ArrayQueue::new(2 * TOGETHER))) }
    }

    fn map(&self) -> Option<Mapped> {
        let stack = Mapped::new(self.bytes + PAGE, ACCESS).ok()?;
        stack.mark_guard(stack.addr()..stack.addr() + PAGE).then_some(stack)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        while self.waiting.pop().is_some() {}
    }
}

impl Design for Queued {
    type Stack = Pooled;
    const NAME: &'static str = "ArrayQueue, guard mark";

    #[inline]
    fn make(&self) -> Option<Pooled> {
        let stack = self.waiting.pop().or_else(|| self.map())?;
        Some(Pooled { stack: Some(stack), home: self.waiting })
    }

    #[inline]
    fn top(stack: &Pooled) -> usize {
        stack.stack.as_ref().map_or(0, Mmap::top)
    }
}

impl Drop for Pooled {
    #[inline]
    fn drop(&mut self) {
        if let Some(stack) = self.stack.take() {
            // One for which the queue has no room ends here.
            drop(self.home.push(stack));
        }
    }
}

/// Writes a word to each of the top `pages` pages.
#[inline]
fn touch(top: usize, pages: usize) {
    for page in 0..pages {
        let word = with_exposed_provenance_mut::<usize>(top - page * PAGE - size_of::<usize>());
        // SAFETY: inside of a stack that the caller has just made, and not dropped.
        unsafe { word.write_volatile(page + 1) };
    }
}

/// Plays a load so many times, and returns the ns of a thread.
type Player<'a> = Box<dyn Fn(usize) -> f64 + 'a>;

/// How stacks are used.
#[derive(Clone, Copy)]
struct Load {
    threads: usize,
    /// Stacks of a thread at once.
    together: usize,
    pages: usize,
}

/// Makes, touches and drops stacks, `batches` times as many as are used together. Returns the CPU
/// time of the calling thread in ns.
fn alone<D: Design>(design: &D, load: Load, batches: usize) -> f64 {
    let make = || design.make().expect("a stack");
    let touch = |stack: &D::Stack| touch(D::top(stack), load.pages);
    if load.together == 1 {
        return cpu_ns(|| (0..batches).for_each(|_| touch(&make())));
    }
    let mut all = Vec::with_capacity(load.together);
    cpu_ns(|| {
        for _ in 0..batches {
            all.extend((0..load.together).map(|_| make()));
            all.iter().for_each(touch);
            all.clear();
        }
    })
}

/// Plays a load. Returns the CPU time of a thread in ns, the mean of all.
fn play<D: Design>(design: &D, load: Load, batches: usize) -> f64 {
    if load.threads == 1 {
        return alone(design, load, batches);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..load.threads).map(|_| scope.spawn(|| alone(design, load, batches))).collect();
        let spent = threads.into_iter().map(|thread| thread.join().expect("a thread without a panic"));
        spent.sum::<f64>() / load.threads as f64
    })
}

/// Measures the group.
///
/// # Panics
/// When the machine has no memory or no addresses for the stacks.
pub fn run(limits: &Limits) -> Vec<Row> {
    let mut rows = Vec::new();
    for (bytes, size) in SIZES {
        let settings = StacksOptions::new().stack_bytes(bytes);
        let stacks = Stacks::open(&settings).expect("addresses for the stacks");
        for (threads, together, pages) in [(1, 1, 1), (2, 1, 1), (1, 1, 4), (1, 1, 16), (1, TOGETHER, 1)] {
            let load = Load { threads, together, pages };
            rows.extend(contest(&stacks, bytes, &name(size, load), load, limits));
        }
        rows.push(chosen(&stacks, bytes, size, limits));
    }
    let count = if limits.rounds <= 3 { LIVE_QUICKLY } else { LIVE };
    rows.extend(live(count));
    rows
}

fn name(size: &str, load: Load) -> String {
    let Load { threads, together, pages } = load;
    match (threads, together, pages) {
        (1, 1, 1) => format!("{size}, made, touched, dropped"),
        (1, 1, _) => format!("{size}, {pages} pages touched"),
        (1, ..) => format!("{size}, {together} at once"),
        _ => format!("{size}, {threads} threads"),
    }
}

fn contest(stacks: &Stacks, bytes: usize, name: &str, load: Load, limits: &Limits) -> Vec<Row> {
    let (mmap, corosensei, queued) = (Mmap(bytes), Corosensei(bytes), Queued::new(bytes));
    let mut players: Vec<(&str, Player<'_>)> = vec![
        (Stacks::NAME, Box::new(|batches| play(stacks, load, batches))),
        (Mmap::NAME, Box::new(|batches| play(&mmap, load, batches))),
        (Corosensei::NAME, Box::new(|batches| play(&corosensei, load, batches))),
    ];
    // Kernels before 6.13 have no guard marks.
    if queued.make().is_some() {
        players.push((Queued::NAME, Box::new(|batches| play(&queued, load, batches))));
    }
    let batches: Vec<_> = players.iter_mut().map(|(_, play)| pace(limits.window, play)).collect();
    let mut rounds = vec![Vec::new(); players.len()];
    for _ in 0..limits.rounds {
        for (((_, play), &batches), rounds) in players.iter().zip(&batches).zip(&mut rounds) {
            rounds.push(play(batches) / (batches * load.together) as f64);
        }
    }
    let row = |((design, _), rounds): (&(&str, _), &Vec<f64>)| {
        Row::new(name, *design, median(rounds), "ns a stack")
    };
    players.iter().zip(&rounds).map(row).collect()
}

/// Measures stacks of a size that is not the pool's.
fn chosen(stacks: &Stacks, bytes: usize, size: &str, limits: &Limits) -> Row {
    let play = |count: usize| {
        for _ in 0..count {
            touch(stacks.request().bytes(bytes / 2).stack().expect("a stack").top(), 1);
        }
    };
    let times = medians(&mut [Box::new(play) as Box<dyn FnMut(usize)>], limits);
    Row::new(format!("half of {size}, chosen"), Stacks::NAME, times[0], "ns a stack")
}

/// Makes and touches as many live stacks of 64 KiB as each design can have, `count` at most.
fn live(count: usize) -> Vec<Row> {
    let bytes = SIZES[0].0;
    let stacks = Stacks::open(&StacksOptions::new().stack_bytes(bytes)).expect("addresses for the stacks");
    let ours = live_of(&stacks, count);
    let peer = live_of(&Mmap(bytes), count);
    ours.into_iter().chain(peer).collect()
}

fn live_of<D: Design>(design: &D, count: usize) -> [Row; 3] {
    let before = kernel_mappings();
    let mut all = Vec::with_capacity(count);
    let spent = cpu_ns(|| {
        all.extend(std::iter::from_fn(|| design.make()).take(count).inspect(|stack| touch(D::top(stack), 1)));
    });
    let (live, added) = (all.len() as f64, kernel_mappings().saturating_sub(before) as f64);
    drop(all);
    [(live, "stacks"), (added, "mappings"), (spent / live, "ns a stack")]
        .map(|(value, unit)| Row::new(format!("live, up to {count}"), D::NAME, value, unit))
}
