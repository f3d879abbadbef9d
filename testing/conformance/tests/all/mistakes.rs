//! The kit catches every mistake, and names the promise that it breaks.

use crate::common::wrong::{Mistake, Wrong};
use crate::common::{direct, sim};
use lock_api::{GuardSend, RawMutex};
use vmalloc_conformance::{Blind, Conformance, Failure, Look, Nofault, Report, Seen};
use vmalloc_programs::SimLook;
use vmalloc_sim::{Direct, OnViolation, Options, Sim};

/// Looks at the machine below a mistake. What the machine itself finds is left out: the kit has to
/// see the mistake.
struct Below;

impl Look<Wrong<Sim>> for Below {
    fn fill(&self, wrong: &Wrong<Sim>, cpu: usize, page: u64, word: u64) {
        // A fault is seen by the read that follows.
        let _ = wrong.inner.write(cpu, page, word);
    }

    fn read(&self, wrong: &Wrong<Sim>, cpu: usize, page: u64) -> Seen {
        SimLook(Blind).read(&wrong.inner, cpu, page)
    }

    fn leads(&self, wrong: &Wrong<Sim>, cpu: usize, page: u64) -> Option<bool> {
        SimLook(Blind).leads(&wrong.inner, cpu, page)
    }

    fn can_write(&self, wrong: &Wrong<Sim>, cpu: usize, page: u64) -> Option<bool> {
        SimLook(Blind).can_write(&wrong.inner, cpu, page)
    }
}

fn recording(options: Options) -> Options {
    options.on_violation(OnViolation::Record)
}

fn failures(result: Result<Report, vmalloc_conformance::Breaches>) -> Vec<Failure> {
    result.err().map_or_else(Vec::new, |breaches| breaches.0.failures)
}

/// On simulated memory at its addresses.
fn on_memory(mistake: Mistake) -> Vec<Failure> {
    let options = |options| recording(options).relocates().huge_order(3);
    let kit = Conformance::new(move || Wrong::new(direct(options), mistake), Nofault);
    failures(kit.protect().relocate().discard().read_nofault().translate().check())
}

/// On a simulated machine with frames and TLBs.
fn on_machine(mistake: Mistake) -> Vec<Failure> {
    let options = |options| recording(options).linear(1 << 30).remaps_atomically();
    let kit = Conformance::new(move || Wrong::new(sim(options), mistake), Below);
    failures(kit.frames().protect().read_nofault().translate().check())
}

fn is_caught(mistake: Mistake, failures: &[Failure], promise: &str) {
    let all: Vec<_> = failures.iter().map(ToString::to_string).collect();
    let named = failures.iter().any(|failure| failure.promised.starts_with(promise));
    assert!(named, "{mistake:?} breaks {promise:?}, and this was found: {all:#?}");
}

#[test]
fn mistakes_with_memory_are_caught() {
    for (mistake, promise) in [
        (Mistake::SpanFromZero, "geometry(): the span"),
        (Mistake::ChangingGeometry, "geometry() returns the same"),
        (Mistake::CpuTooHigh, "cpu()"),
        (Mistake::Longer("map", 1), "map(): pages next"),
        (Mistake::Longer("map", -1), "map(): every page"),
        (Mistake::RefusalLeavesPages, "map(): a refused"),
        (Mistake::Longer("map_huge", -2), "map_huge()"),
        (Mistake::Nothing("unmap"), "unmap() and flush(): no CPU"),
        (Mistake::UnmapFirstRange, "unmap() and flush(): all ranges"),
        (Mistake::Longer("unmap", 1), "unmap() and flush(): pages next"),
        (Mistake::UnmapTwicePanics, "unmap(): twice"),
        (Mistake::Nothing("unmap_now"), "unmap_now(): no CPU"),
        (Mistake::Longer("unmap_now", 1), "unmap_now(): pages next"),
        (Mistake::Nothing("zero"), "zero()"),
        (Mistake::ZeroFirstPage, "zero()"),
        (Mistake::Longer("zero", 1), "zero()"),
        (Mistake::RelocateLoses, "relocate()"),
        (Mistake::Nothing("discard"), "discard(): pages read"),
        (Mistake::Longer("discard", 1), "discard(): pages next"),
        (Mistake::TouchedInPart, "touched()"),
        (Mistake::ReadTooMuch, "read_nofault()"),
        (Mistake::OnePhysicalPage, "physical_page()"),
    ] {
        is_caught(mistake, &on_memory(mistake), promise);
    }
}

#[test]
fn mistakes_with_frames_and_tlbs_are_caught() {
    for (mistake, promise) in [
        (Mistake::Nothing("flush"), "unmap() and flush(): no CPU"),
        (Mistake::Nothing("protect"), "protect(): a read-only"),
        (Mistake::Longer("protect", 1), "protect(): pages keep"),
        (Mistake::FramesTwice, "take_frames()"),
        (Mistake::RunUnaligned, "take_run()"),
        (Mistake::WildFrames, "origin()"),
        (Mistake::FramesReversed, "map_frames(): page i"),
        (Mistake::FrameAtOff, "frame_at()"),
        (Mistake::Longer("discard_hint", 1), "discard_hint()"),
        (Mistake::LinearOff, "Geometry::linear_map"),
        (Mistake::RemapNothing, "Geometry::remaps_atomically"),
    ] {
        is_caught(mistake, &on_machine(mistake), promise);
    }
}

/// A lock that lets every thread in.
struct NoLock;

// SAFETY: none: it does not exclude, on purpose.
unsafe impl RawMutex for NoLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self;
    type GuardMarker = GuardSend;

    fn lock(&self) {}
    fn try_lock(&self) -> bool {
        true
    }
    unsafe fn unlock(&self) {}
}

#[test]
fn a_lock_that_does_not_exclude_is_caught() {
    let kit = Conformance::new(|| Direct::<NoLock>::new_with(1 << 11, recording), Nofault);
    let failures = failures(kit.check());
    assert!(failures.iter().any(|failure| failure.promised.starts_with("RawLock excludes")), "{failures:?}");
}

#[test]
fn without_a_mistake_nothing_is_found() {
    // A mistake that this machine has no occasion for.
    assert_eq!(on_memory(Mistake::LinearOff), []);
}
