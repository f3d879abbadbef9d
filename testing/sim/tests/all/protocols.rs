//! Flush protocols that are wrong on purpose: the simulator catches each of them under a space.

use crate::PAGE;
use std::panic::{AssertUnwindSafe, catch_unwind};
use vmalloc::{PageRange, Request, Space, SpaceOptions};
use vmalloc_model::{Seeded, env};
use vmalloc_programs::{Blind, Program};
use vmalloc_sim::{Fault, InjectedBug, OnViolation, Options, Sim};

const CPUS: usize = 4;

fn span() -> PageRange {
    PageRange::new(0x100, 0x180).expect("not empty")
}

fn options() -> Options {
    Options::new(span()).cpus(CPUS).on_violation(OnViolation::Record)
}

fn space_options() -> SpaceOptions {
    SpaceOptions::default().unmap_on_free()
}

/// Returns an area of `pages` pages that every CPU has written to.
fn used(space: &Space<Sim>, pages: usize) -> Option<usize> {
    let addr = space.raw().alloc(&Request::new(pages * PAGE)).ok()?;
    for page in (0..pages).map(|nth| (addr / PAGE + nth) as u64) {
        for cpu in 0..CPUS {
            // What goes wrong is recorded.
            let _ = space.platform().write(cpu, page, page);
        }
    }
    Some(addr)
}

fn free(space: &Space<Sim>, addr: Option<usize>) {
    let addr = addr.expect("it was allocated");
    // SAFETY: nothing keeps the address.
    unsafe { space.raw().free(addr) }.expect("it was allocated");
}

/// Uses five areas, frees every other one, purges, and uses addresses and frames again: two areas
/// in the gaps, one behind.
fn program(space: &Space<Sim>) -> Vec<Fault> {
    let areas: Vec<_> = (0..5).map(|_| used(space, 3)).collect();
    areas.iter().step_by(2).for_each(|&addr| free(space, addr));
    let _ = space.purge();
    let again = [3, 3, 5].map(|pages| used(space, pages));
    areas.iter().skip(1).step_by(2).chain(&again).for_each(|&addr| free(space, addr));
    let _ = space.purge();
    space.platform().check_end();
    space.platform().faults()
}

fn with_bug(injected_bug: InjectedBug) -> Vec<Fault> {
    let space =
        Space::new(options().injected_bug(injected_bug).build(), space_options()).expect("an empty space");
    program(&space)
}

fn has(faults: &[Fault], is: impl Fn(&Fault) -> bool) -> bool {
    faults.iter().any(is)
}

#[test]
fn correct_protocol_has_no_fault() {
    let space = Space::new(options().build(), space_options()).expect("an empty space");
    assert_eq!(program(&space), []);
    let flushes = space.platform().flushes();
    assert_eq!(flushes.iter().map(|flush| flush.interrupts).collect::<Vec<_>>(), [3, 3]);
}

#[test]
fn a_dropped_flush_is_caught() {
    let faults = with_bug(InjectedBug::DroppedFlush);
    assert!(has(&faults, |fault| matches!(fault, Fault::ReusedBeforeFlush { .. })), "{faults:?}");
    assert!(has(&faults, |fault| matches!(fault, Fault::ReusedWhileHeld { .. })), "{faults:?}");
    assert!(has(&faults, |fault| matches!(fault, Fault::StaleAccess { now: Some(_), .. })), "{faults:?}");
    assert!(has(&faults, |fault| matches!(fault, Fault::LeftUnflushed { .. })), "{faults:?}");
}

#[test]
fn a_flush_of_the_lowest_range_alone_is_caught() {
    let faults = with_bug(InjectedBug::LowestFlushedOnly);
    let second = |page: u64| page >= 0x108;
    let reused = |fault: &Fault| matches!(*fault, Fault::ReusedBeforeFlush { page } if second(page));
    assert!(has(&faults, reused), "{faults:?}");
    assert!(!has(&faults, |fault| matches!(fault, Fault::ReusedBeforeFlush { page } if !second(*page))));
}

#[test]
fn a_delayed_flush_is_caught() {
    let faults = with_bug(InjectedBug::DelayedFlush);
    assert!(has(&faults, |fault| matches!(fault, Fault::ReusedBeforeFlush { .. })), "{faults:?}");
    assert!(has(&faults, |fault| matches!(fault, Fault::NotUnmapped { .. })), "{faults:?}");
}

#[test]
fn flush_that_skips_a_cpu_is_caught() {
    let faults = with_bug(InjectedBug::ForgottenCpu);
    let last = CPUS - 1;
    assert!(has(&faults, |fault| matches!(*fault, Fault::FlushedTooLittle { cpu, .. } if cpu == last)));
    assert!(has(&faults, |fault| matches!(*fault, Fault::ReusedWhileHeld { cpu, .. } if cpu == last)));
    assert!(has(&faults, |fault| matches!(*fault, Fault::StaleAccess { cpu, .. } if cpu == last)));
    assert!(has(&faults, |fault| matches!(fault, Fault::Aliased { .. })), "{faults:?}");
    assert!(!has(&faults, |fault| matches!(fault, Fault::ReusedBeforeFlush { .. })), "{faults:?}");
}

#[test]
fn early_recycling_is_caught() {
    let faults = with_bug(InjectedBug::EarlyRecycling);
    assert!(has(&faults, |fault| matches!(fault, Fault::RecycledBeforeFlush { .. })), "{faults:?}");
    assert!(has(&faults, |fault| matches!(fault, Fault::FlushedTooLittle { .. })), "{faults:?}");
}

/// A program from a seed runs into every mistake, at once and as a panic, without a look behind the
/// addresses.
#[test]
fn every_injected_bug_stops_a_random_program() {
    for bug in [InjectedBug::DroppedFlush, InjectedBug::LowestFlushedOnly, InjectedBug::DelayedFlush] {
        let sim = options().on_violation(OnViolation::Panic).injected_bug(bug).build();
        let space = Space::new(sim, space_options()).expect("an empty space");
        let program = Program::new(Blind).without_failures();
        let run = AssertUnwindSafe(|| program.play(space, &mut Seeded::new(env::seed(1)), 2_000));
        assert!(catch_unwind(run).is_err(), "{bug:?} was not caught");
    }
}
