//! What CPUs see on the machine, and what its calls do that fail.

use super::*;
use crate::options::OnViolation;
use crate::plan::Due;
use vmalloc::Frame;
use vmalloc::Protection::{Read, ReadWrite};

pub(super) const HERE: usize = 0;
pub(super) const THERE: usize = 1;
pub(super) const LAST: usize = 2;
/// The first frame of the devices.
pub(super) const DEVICE: u64 = 16;

pub(super) fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).unwrap()
}

pub(super) fn options() -> Options {
    Options::new(range(100, 200)).cpus(3).frames(DEVICE).devices(4).on_violation(OnViolation::Record)
}

fn machine() -> Machine {
    Machine::new(&options())
}

pub(super) fn map(machine: &mut Machine, start: u64, end: u64) {
    machine.map(range(start, end), ReadWrite).unwrap();
}

pub(super) fn unmap(machine: &mut Machine, start: u64, end: u64) {
    machine.unmap(HERE, &[range(start, end)]).unwrap();
}

pub(super) fn flush(machine: &mut Machine, start: u64, end: u64) {
    machine.flush(HERE, &[range(start, end)]).unwrap();
}

fn end(machine: &mut Machine, start: u64, end: u64) {
    unmap(machine, start, end);
    flush(machine, start, end);
}

/// Maps two pages that every CPU uses.
pub(super) fn used(machine: &mut Machine) {
    map(machine, 110, 112);
    (0..3).for_each(|cpu| machine.write(cpu, 110, 1).unwrap());
}

fn take<const N: usize>(machine: &mut Machine) -> [Frame; N] {
    let mut frames = [Frame(0); N];
    machine.take_frames(&mut frames).unwrap();
    frames
}

fn put(machine: &mut Machine, start: u64, frames: &[Frame]) {
    let pages = range(start, start + frames.len() as u64);
    machine.map_frames(HERE, pages, frames, ReadWrite).unwrap();
}

/// Maps frames 1 and 0 at two pages that every CPU uses.
pub(super) fn shared(machine: &mut Machine) -> [Frame; 2] {
    let frames = take(machine);
    put(machine, 110, &frames);
    (0..3).for_each(|cpu| machine.write(cpu, 110, 1).unwrap());
    frames
}

#[test]
fn ranges_out_of_order_and_too_few_frames_are_reported() {
    let mut it = machine();
    it.unmap(HERE, &[range(110, 112), range(111, 113)]).unwrap();
    assert!(it.map_frames(HERE, range(120, 123), &[Frame(DEVICE); 2], ReadWrite).is_err());
    let count = Fault::WrongCount { range: range(120, 123), frames: 2 };
    let disorder = Fault::NotAscending { call: Point::Unmap, range: range(110, 112), next: range(111, 113) };
    assert_eq!(it.faults, [disorder, count]);
}

/// Calls that fail leave nothing, or half of what they were to do, and can be repeated.
#[test]
fn a_call_that_fails_does_half_or_nothing() {
    let at = range(110, 112);
    type Call = fn(&mut Machine) -> Result<(), PlatformError>;
    /// The step that fails, what is done before, the call, and the pages that are mapped then.
    type Row = (Point, fn(&mut Machine), Call, u64);
    let calls: [Row; 10] = [
        (Point::Map, |_| (), |it| it.map(range(110, 112), ReadWrite), 0),
        (Point::Frame, |_| (), |it| it.map(range(110, 112), ReadWrite), 0),
        (Point::MapHuge, |_| (), |it| it.map_huge(range(110, 112), ReadWrite), 0),
        (Point::TakeFrames, |_| (), |it| it.take_frames(&mut [Frame(0); 3]), 0),
        (Point::TakeRun, |_| (), |it| it.take_run(3, 1).map(|_| ()), 0),
        (Point::MapFrames, |it| _ = take::<2>(it), |it| frames_at(it, 110), 0),
        (Point::MapFrames, |it| _ = shared(it), |it| frames_at(it, 110), 1),
        (Point::Unmap, used, |it| it.unmap(HERE, &[range(110, 112)]), 1),
        (Point::Protect, used, |it| it.protect(HERE, range(110, 112), Read), 2),
        (Point::Relocate, used, |it| it.relocate(HERE, range(110, 112), range(150, 152)), 2),
    ];
    for (point, begin, call, left) in calls {
        let mut it = Machine::new(&options().relocates().remaps_atomically().huge_order(3));
        begin(&mut it);
        it.plan.fail(point, Due::Nth(1));
        assert!(call(&mut it).is_err(), "{point:?}");
        assert_eq!((it.mapped_pages(), it.counts.failed), (left, 1), "{point:?}");
        let writable = (110..112).filter(|page| it.page_table.get(*page).is_some_and(is_writable)).count();
        assert_eq!(writable as u64, if point == Point::Protect { 1 } else { left }, "{point:?}");
        call(&mut it).unwrap_or_else(|error| panic!("{point:?}: {error}"));
        end(&mut it, at.start(), at.end());
        assert_eq!((it.audit(), &*it.faults), (vec![], &[][..]), "{point:?}");
    }
}

fn is_writable(entry: crate::tlb::Entry) -> bool {
    entry.protection == ReadWrite
}

/// Maps the frames that were taken.
fn frames_at(machine: &mut Machine, page: u64) -> Result<(), PlatformError> {
    let frames = machine.taken_frames();
    machine.map_frames(HERE, range(page, page + frames.len() as u64), &frames, ReadWrite)
}

#[test]
fn a_failing_flush_reaches_some_cpus_and_recycles_nothing() {
    let mut left = [0; 3];
    for seed in 0..32 {
        let mut it = Machine::new(&options().seed(seed));
        used(&mut it);
        unmap(&mut it, 110, 112);
        it.plan.fail(Point::Flush, Due::Nth(1));
        assert_eq!(it.flush(LAST, &[range(110, 112)]).unwrap_err().call, "flush");
        for cpu in [THERE, LAST] {
            left[cpu] += u32::from(it.look(cpu, 110) != TlbVisibility::Nothing);
        }
        assert_eq!(it.leaks().len(), 3, "two frames in limbo and their range");
    }
    assert!((1..32).contains(&left[THERE]) && (1..32).contains(&left[LAST]), "{left:?}");
}
