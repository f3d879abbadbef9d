//! Scripts of wrong calls and accesses, each with all that the machine reports.

use super::tests::{DEVICE, HERE, LAST, THERE, flush, map, range, shared, unmap, used};
use super::*;
use crate::options::InjectedBug;
use vmalloc::Protection::ReadWrite;
use vmalloc::{Frame, Protection};

/// A step of a script. Pages are from the first to the one behind the last; the caller is on CPU
/// `HERE`.
#[derive(Clone, Copy, Debug)]
enum Do {
    Map(u64, u64),
    Unmap(u64, u64),
    Flush(u64, u64),
    /// Maps two pages that every CPU uses.
    Use,
    /// Moves them to page 150.
    Move,
    /// Hands addresses out without memory.
    HandOut(u64, u64),
    Read(usize, u64),
    Write(usize, u64),
    Zero(usize, u64, u64),
    /// Makes pages read-only.
    Restrict(u64, u64),
    /// Takes so many frames, the lowest last.
    Take(usize),
    Put(u64, &'static [u64]),
    /// Puts frames 1 and 0 at two pages that every CPU uses.
    Share,
    Discard(u64, u64),
    Give(&'static [u64]),
    Run(u64, u64),
    Audit,
    Leaks,
}

impl Do {
    /// Does it. What fails is reported, or is no matter.
    fn run(self, machine: &mut Machine) {
        let frames = |frames: &[u64]| frames.iter().copied().map(Frame).collect::<Vec<_>>();
        match self {
            Self::Map(start, end) => map(machine, start, end),
            Self::Unmap(start, end) => unmap(machine, start, end),
            Self::Flush(start, end) => flush(machine, start, end),
            Self::Use => used(machine),
            Self::Move => _ = machine.relocate(HERE, range(110, 112), range(150, 152)),
            Self::HandOut(start, end) => machine.check_reuse(range(start, end)),
            Self::Read(cpu, page) => _ = machine.read(cpu, page),
            Self::Write(cpu, page) => _ = machine.write(cpu, page, 9),
            Self::Zero(cpu, start, end) => machine.zero(cpu, range(start, end)),
            Self::Restrict(start, end) => _ = machine.protect(HERE, range(start, end), Protection::Read),
            Self::Take(count) => _ = machine.take_frames(&mut vec![Frame(0); count]),
            Self::Put(page, of) => {
                let pages = range(page, page + of.len() as u64);
                _ = machine.map_frames(HERE, pages, &frames(of), ReadWrite);
            }
            Self::Share => _ = shared(machine),
            Self::Discard(start, end) => machine.discard_hint(HERE, range(start, end)),
            Self::Give(of) => machine.give_frames(&frames(of)),
            Self::Run(count, align) => _ = machine.take_run(count, align),
            Self::Audit => _ = machine.audit(),
            Self::Leaks => machine.faults.extend(machine.leaks()),
        }
    }
}

/// A kind of machine, what is done with it, and all that it reports.
type Case = (fn(Options) -> Options, &'static [Do], Vec<Fault>);

fn check(cases: Vec<Case>) {
    for (options, script, faults) in cases {
        let mut machine = Machine::new(&options(tests::options()));
        script.iter().for_each(|step| step.run(&mut machine));
        assert_eq!(machine.faults, faults, "{script:?}");
    }
}

fn usual(options: Options) -> Options {
    options.relocates()
}

fn keeps(options: Options) -> Options {
    options.discard(Discard::Keeps)
}

fn replaces(options: Options) -> Options {
    options.remaps_atomically()
}

fn linear(options: Options) -> Options {
    options.linear(1000)
}

/// Its flushes never reach the last CPU.
fn forgets(options: Options) -> Options {
    options.injected_bug(InjectedBug::ForgottenCpu).relocates()
}

fn recycles_early(options: Options) -> Options {
    options.injected_bug(InjectedBug::EarlyRecycling)
}

fn protects_unflushed(options: Options) -> Options {
    options.injected_bug(InjectedBug::UnflushedProtection)
}

fn reused(page: u64) -> Fault {
    Fault::ReusedBeforeFlush { page }
}

/// Returns the access that has reached frame 0 by an entry of page 110.
fn stale(cpu: usize, now: Option<u64>) -> Fault {
    Fault::StaleAccess { cpu, page: 110, frame: 0, now }
}

fn held(cpu: usize) -> Fault {
    Fault::ReusedWhileHeld { page: 110, cpu, frame: 0 }
}

fn too_little(cpu: usize) -> Fault {
    Fault::FlushedTooLittle { frame: 0, page: 110, cpu }
}

fn alias(page: u64, other: u64, cpu: Option<usize>) -> Fault {
    Fault::Aliased { frame: 0, page, other, cpu }
}

fn not_unmapped(page: u64) -> Fault {
    Fault::NotUnmapped { page }
}

#[test]
fn memory_that_is_used_wrong_is_reported() {
    use Do::*;
    let early = |page, frame| Fault::RecycledBeforeFlush { frame, page };
    let outside = Fault::OutsideSpan { call: Point::Map, range: range(199, 201), span: range(100, 200) };
    let (page, frame) =
        (Fault::LeakedPage { page: 110, frame: 0 }, Fault::LeakedFrame { frame: 1, page: 111 });
    let unflushed = Fault::LeftUnflushed { range: range(111, 113) };
    check(vec![
        (usual, &[Map(110, 112), Map(111, 113)], vec![Fault::DoubleMap { page: 111, frame: 1 }]),
        // No TLB has it.
        (usual, &[Map(110, 112), Unmap(110, 112), Map(111, 112)], vec![reused(111)]),
        // A guard was never mapped.
        (usual, &[Unmap(110, 111), Map(110, 111)], vec![reused(110)]),
        (usual, &[Use, Unmap(110, 112), HandOut(109, 120)], vec![reused(110), held(THERE), held(LAST)]),
        (
            usual,
            &[
                Use,
                Unmap(110, 112),
                Read(HERE, 110),
                Read(THERE, 110),
                Write(THERE, 110),
                Zero(LAST, 110, 111),
            ],
            vec![stale(THERE, None), stale(THERE, None), stale(LAST, None)],
        ),
        (
            usual,
            &[Use, Unmap(110, 112), Map(110, 111), Read(THERE, 110), Read(HERE, 110)],
            vec![reused(110), held(THERE), held(LAST), stale(THERE, Some(2))],
        ),
        // The frame is the same again, but it is another mapping: right by luck alone.
        (
            forgets,
            &[Use, Unmap(110, 112), Flush(110, 112), Map(111, 112), Map(110, 111), Read(LAST, 110)],
            vec![too_little(LAST), held(LAST), stale(LAST, Some(0))],
        ),
        (
            forgets,
            &[Use, Unmap(110, 112), Flush(110, 112), Map(150, 152), Audit],
            vec![
                too_little(LAST),
                alias(151, 110, Some(LAST)),
                alias(151, 110, Some(LAST)),
                too_little(LAST),
            ],
        ),
        (
            recycles_early,
            &[Use, Unmap(110, 112)],
            vec![early(110, 0), too_little(THERE), too_little(LAST), early(111, 1)],
        ),
        (usual, &[Use, Unmap(110, 111), Flush(110, 112)], vec![not_unmapped(111)]),
        (usual, &[Map(110, 111), Zero(HERE, 110, 112)], vec![Fault::ZeroedUnmapped { page: 111 }]),
        (usual, &[Map(199, 201)], vec![outside]),
        (usual, &[Map(110, 112), Unmap(111, 113), Leaks], vec![page, frame, unflushed]),
    ]);
}

#[test]
fn frames_that_are_used_wrong_are_reported() {
    use Do::*;
    let foreign = |page, frame| Fault::MappedForeign { page, frame };
    let given = |frame| Fault::GivenForeign { frame };
    let unused = |page| Fault::DiscardedUnmapped { page };
    let reached = |page, frame| Fault::ReachedGiven { cpu: THERE, page, frame };
    let bad = |count, align| Fault::BadRun { count, align };
    check(vec![
        (
            usual,
            &[Map(110, 111), Put(120, &[0]), Put(130, &[99]), Audit],
            vec![foreign(120, 0), foreign(130, 99), alias(110, 120, None)],
        ),
        (
            usual,
            &[Take(1), Give(&[0]), Put(110, &[0]), Give(&[0, DEVICE, 99])],
            vec![foreign(110, 0), given(0), given(DEVICE), given(99)],
        ),
        (
            usual,
            &[Share, Put(120, &[1, 1]), Discard(110, 112), Discard(121, 122), Give(&[0, 1])],
            vec![Fault::GivenWhileMapped { frame: 1, page: 120 }],
        ),
        (keeps, &[Share, Discard(110, 112), Give(&[0, 1]), Write(THERE, 110)], vec![reached(110, 1)]),
        // The CPU that discards notices, where that unmaps.
        (
            usual,
            &[Share, Discard(110, 112), Read(HERE, 110), Read(THERE, 110)],
            vec![Fault::StaleAccess { cpu: THERE, page: 110, frame: 1, now: None }],
        ),
        (
            usual,
            &[
                Share,
                Map(120, 121),
                Discard(110, 112),
                Discard(110, 111),
                Discard(120, 121),
                Discard(130, 131),
            ],
            vec![unused(110), unused(120), unused(130)],
        ),
        (keeps, &[Share, Discard(110, 112), Flush(110, 112)], vec![not_unmapped(110)]),
        (keeps, &[Share, Discard(110, 112), Put(110, &[0])], vec![Fault::MappedOver { page: 110, frame: 1 }]),
        (usual, &[Take(1), Put(110, &[0]), Unmap(110, 111), Put(110, &[0])], vec![reused(110)]),
        // Memory is never replaced.
        (replaces, &[Map(110, 111), Take(1), Put(110, &[1])], vec![Fault::DoubleMap { page: 110, frame: 0 }]),
        (usual, &[Run(0, 1), Run(1, 3)], vec![bad(0, 1), bad(1, 3)]),
        (
            linear,
            &[Take(1), Write(HERE, 1000), Give(&[0]), Read(THERE, 1000)],
            vec![Fault::ReachedFree { cpu: THERE, frame: 0 }],
        ),
    ]);
}

#[test]
fn protection_and_relocation_that_are_wrong_are_reported() {
    use Do::*;
    let looser = Fault::StaleProtection { cpu: THERE, page: 110, held: ReadWrite, now: Protection::Read };
    let read_only = Fault::ZeroedReadOnly { page: 110, protection: Protection::Read };
    check(vec![
        (
            protects_unflushed,
            &[Use, Restrict(110, 112), Read(THERE, 110), Write(THERE, 110), Audit],
            vec![looser, too_little(HERE), too_little(THERE), too_little(LAST)],
        ),
        (usual, &[Map(110, 112), Restrict(110, 112), Zero(HERE, 110, 111)], vec![read_only]),
        (usual, &[Map(110, 111), Restrict(110, 112)], vec![Fault::ProtectedUnmapped { page: 111 }]),
        (usual, &[Use, Move, Flush(110, 112)], vec![not_unmapped(110)]),
        (usual, &[Use, Move, Map(110, 111)], vec![reused(110), held(THERE), held(LAST)]),
        (usual, &[Map(111, 112), Move], vec![Fault::RelocatedUnmapped { page: 110 }]),
        (usual, &[Map(150, 151), Use, Move], vec![Fault::DoubleMap { page: 150, frame: 0 }]),
        // The frame is recycled before the flush of the page that it has left.
        (usual, &[Use, Move, Unmap(150, 152), Flush(150, 152)], vec![too_little(THERE), too_little(LAST)]),
        (
            forgets,
            &[Use, Move, Unmap(110, 112), Flush(110, 112), Audit],
            vec![alias(150, 110, Some(LAST)), too_little(LAST)],
        ),
    ]);
}
