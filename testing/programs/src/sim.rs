//! Looks at simulated machines, as their CPUs do.

use crate::look::{self, Look, Seen};
use vmalloc::PageRange;
use vmalloc_sim::harness::Simulated;
use vmalloc_sim::heap::{self, Shortage};
use vmalloc_sim::{Direct, Point, Sim, TlbVisibility};

/// Looks at a simulated machine with a word in each page, or at a part of one.
#[derive(Clone, Copy, Debug)]
pub struct SimLook;

impl<P: Simulated> Look<P> for SimLook {
    fn fill(&self, platform: &P, cpu: usize, page: u64, word: u64) {
        let written = platform.machine().write(cpu, page, word);
        written.unwrap_or_else(|fault| panic!("page {page:#x}: {fault}"));
    }

    fn read(&self, platform: &P, cpu: usize, page: u64) -> Seen {
        platform.machine().read(cpu, page).map_or(Seen::Fault, Seen::Word)
    }

    fn leads(&self, platform: &P, cpu: usize, page: u64) -> Option<bool> {
        Some(platform.machine().look(cpu, page) != TlbVisibility::Nothing)
    }

    fn can_write(&self, platform: &P, cpu: usize, page: u64) -> Option<bool> {
        let held = platform.machine().read(cpu, page).ok()?;
        Some(platform.machine().write(cpu, page, held).is_ok())
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

    fn fail_nth(&self, platform: &P, call: Point, nth: u64) {
        match point(call, nth) {
            Point::Heap => heap::fail(Shortage::Nth(nth)),
            point => platform.machine().fail_nth(point, nth),
        }
    }

    fn fail_from(&self, platform: &P, call: Point, nth: u64) {
        match point(call, nth) {
            Point::Heap => heap::fail(Shortage::From(nth)),
            point => platform.machine().fail_from(point, nth),
        }
    }

    fn heal(&self, platform: &P) {
        platform.machine().heal();
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

/// Looks at a simulated machine with memory at its addresses.
#[derive(Clone, Copy, Debug)]
pub struct DirectLook;

impl Look<Direct> for DirectLook {
    fn fill(&self, direct: &Direct, cpu: usize, page: u64, word: u64) {
        SimLook.fill(direct, cpu, page, word);
        look::Direct.fill(direct, cpu, page, word);
    }

    fn read(&self, direct: &Direct, cpu: usize, page: u64) -> Seen {
        match SimLook.read(direct, cpu, page) {
            Seen::Fault => Seen::Fault,
            _ => look::Direct.read(direct, cpu, page),
        }
    }

    fn can_write(&self, direct: &Direct, cpu: usize, page: u64) -> Option<bool> {
        SimLook.can_write(direct, cpu, page)
    }

    fn leads(&self, direct: &Direct, cpu: usize, page: u64) -> Option<bool> {
        SimLook.leads(direct, cpu, page)
    }

    fn run_on(&self, direct: &Direct, cpu: usize) {
        SimLook.run_on(direct, cpu);
    }

    fn faults(&self, direct: &Direct) -> Vec<String> {
        SimLook.faults(direct)
    }

    fn leaks(&self, direct: &Direct) -> Vec<String> {
        SimLook.leaks(direct)
    }

    fn handed_out(&self, direct: &Direct, range: PageRange) {
        SimLook.handed_out(direct, range);
    }

    fn fail_nth(&self, direct: &Direct, call: Point, nth: u64) {
        SimLook.fail_nth(direct, call, nth);
    }

    fn fail_from(&self, direct: &Direct, call: Point, nth: u64) {
        SimLook.fail_from(direct, call, nth);
    }

    fn heal(&self, direct: &Direct) {
        SimLook.heal(direct);
    }

    fn on_heap(&self, call: &mut dyn FnMut()) {
        heap::counted(call);
    }

    fn failed(&self, direct: &Direct) -> u64 {
        SimLook.failed(direct)
    }

    fn failed_on_request(&self, direct: &Direct) -> u64 {
        SimLook.failed_on_request(direct)
    }
}
