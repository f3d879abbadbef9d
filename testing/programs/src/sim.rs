//! Looks at simulated machines, as their CPUs do.

use crate::look::{Look, Seen};
use vmalloc::PageRange;
use vmalloc_sim::harness::Simulated;
use vmalloc_sim::{Due, Point, Sim, TlbVisibility, heap};

/// Looks at a simulated machine with a word in each page, or at a part of one; and at the memory
/// behind its addresses by another look, which is [`Blind`](crate::Blind) where there is none.
#[derive(Clone, Copy, Debug)]
pub struct SimLook<M>(pub M);

impl<P: Simulated, M: Look<P>> Look<P> for SimLook<M> {
    fn fill(&self, platform: &P, cpu: usize, page: u64, word: u64) {
        let written = platform.machine().write(cpu, page, word);
        written.unwrap_or_else(|fault| panic!("page {page:#x}: {fault}"));
        self.0.fill(platform, cpu, page, word);
    }

    fn read(&self, platform: &P, cpu: usize, page: u64) -> Seen {
        let Ok(word) = platform.machine().read(cpu, page) else { return Seen::Fault };
        match self.0.read(platform, cpu, page) {
            Seen::Unknown => Seen::Word(word),
            seen => seen,
        }
    }

    fn leads(&self, platform: &P, cpu: usize, page: u64) -> Option<bool> {
        Some(platform.machine().look(cpu, page) != TlbVisibility::Nothing)
    }

    fn can_write(&self, platform: &P, cpu: usize, page: u64) -> Option<bool> {
        let held = platform.machine().read(cpu, page).ok()?;
        Some(platform.machine().write(cpu, page, held).is_ok())
    }

    fn can_fetch(&self, platform: &P, cpu: usize, page: u64) -> Option<bool> {
        Some(platform.machine().fetch(cpu, page).is_ok())
    }

    fn run_on(&self, _: &P, cpu: usize) {
        Sim::run_on(cpu);
    }

    fn faults(&self, platform: &P) -> Vec<String> {
        let sim = platform.machine();
        sim.faults().iter().chain(&sim.audit()).map(|fault| format!("{fault:?}")).collect()
    }

    fn leaks(&self, platform: &P) -> Vec<String> {
        let sim = platform.machine();
        let taken = sim.taken_frames();
        let taken = (!taken.is_empty()).then(|| format!("taken: {taken:?}"));
        sim.check_end().iter().map(|fault| format!("{fault:?}")).chain(taken).collect()
    }

    fn speculate(&self, platform: &P, cpu: usize) {
        platform.machine().prefetch(cpu, platform.geometry().span);
    }

    fn handed_out(&self, platform: &P, range: PageRange) {
        platform.machine().handed_out(range);
    }

    fn fail(&self, platform: &P, call: Point, due: Due) {
        match point(call, due.first()) {
            Point::Heap => heap::fail(due),
            point => platform.machine().fail(point, due),
        }
    }

    fn refuse(&self, platform: &P, point: Point, pages: PageRange) -> bool {
        platform.machine().refuse(point, pages);
        true
    }

    fn heal(&self, platform: &P) {
        platform.machine().heal();
        platform.machine().relent();
        heap::heal();
    }

    fn on_heap(&self, call: &mut dyn FnMut()) {
        heap::counted(call);
    }

    fn failed(&self, platform: &P) -> u64 {
        platform.machine().counts().failed + heap::refused()
    }

    fn failed_on_request(&self, platform: &P) -> u64 {
        let injected = Point::ALL.into_iter().map(|point| platform.machine().injected(point));
        injected.sum::<u64>() + heap::refused()
    }
}

/// Returns the step that fails for the `nth` call: every second time a part of it.
fn point(call: Point, nth: u64) -> Point {
    match call {
        Point::Map if nth.is_multiple_of(2) => Point::Frame,
        Point::MapHuge if nth.is_multiple_of(2) => Point::HugePage,
        call => call,
    }
}
