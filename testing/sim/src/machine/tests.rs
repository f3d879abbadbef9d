//! What CPUs see on the machine, and what its calls do that fail.

use super::*;
use crate::fault::Access;
use crate::options::OnViolation;
use crate::plan::Due;
use vmalloc::Protection::{self, Read, ReadExecute, ReadWrite};
use vmalloc::{Frame, Origin, ReadNofault};

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

fn discard(machine: &mut Machine, start: u64, end: u64) {
    machine.discard_hint(HERE, range(start, end));
}

/// Maps frames 1 and 0 at two pages that every CPU uses.
pub(super) fn shared(machine: &mut Machine) -> [Frame; 2] {
    let frames = take(machine);
    put(machine, 110, &frames);
    (0..3).for_each(|cpu| machine.write(cpu, 110, 1).unwrap());
    frames
}

/// Discards those pages.
fn discarded(machine: &mut Machine) -> [Frame; 2] {
    let frames = shared(machine);
    discard(machine, 110, 112);
    frames
}

/// Moves two pages that every CPU uses.
fn relocated(machine: &mut Machine) {
    used(machine);
    machine.relocate(HERE, range(110, 112), range(150, 152)).unwrap();
}

/// Nothing is mapped, unflushed, aliased or reported.
fn is_clean(machine: &mut Machine) {
    assert_eq!((machine.audit(), machine.leaks(), &*machine.faults), (vec![], vec![], &[][..]));
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

#[test]
fn what_is_used_right_is_not_reported() {
    for keep in [Discard::Unmaps, Discard::Keeps] {
        let mut it = Machine::new(&options().discard(keep).relocates());
        let frames = discarded(&mut it);
        put(&mut it, 120, &[frames[0], Frame(DEVICE), frames[1]]);
        it.write(THERE, 120, 7).unwrap();
        discard(&mut it, 120, 123);
        it.give_frames(&frames);
        // Memory may get the frame of a discarded page.
        map(&mut it, 130, 132);
        assert!(frames.contains(&Frame(it.frame(130).unwrap())));
        end(&mut it, 109, 132);
        relocated(&mut it);
        assert_eq!((it.read(LAST, 150), it.read(HERE, 110).is_err()), (Ok(1), true));
        end(&mut it, 110, 112);
        map(&mut it, 110, 112);
        end(&mut it, 110, 112);
        end(&mut it, 150, 152);
        is_clean(&mut it);
    }
}

#[test]
fn a_machine_that_replaces_flushes_every_cpu() {
    for keep in [Discard::Unmaps, Discard::Keeps] {
        let mut it = Machine::new(&options().remaps_atomically().discard(keep));
        let (frames, fresh) = (shared(&mut it), take::<2>(&mut it));
        put(&mut it, 110, &fresh[..1]);
        discard(&mut it, 111, 112);
        put(&mut it, 111, &fresh[1..]);
        it.give_frames(&frames);
        it.write(HERE, 110, 5).unwrap();
        assert_eq!([HERE, THERE, LAST].map(|cpu| it.read(cpu, 110)), [Ok(5); 3]);
        assert_eq!((it.counts.replaced_pages, it.counts.interrupts), (2, 2));
        end(&mut it, 110, 112);
        is_clean(&mut it);
    }
}

#[test]
fn accesses_go_by_the_protection_of_the_page() {
    let mut it = machine();
    it.map(range(110, 111), Read).unwrap();
    it.map(range(111, 112), ReadExecute).unwrap();
    let denied =
        |page, access, protection: Protection| Fault::Denied { cpu: THERE, page, access, protection };
    assert_eq!((it.read(THERE, 110), it.fetch(THERE, 111)), (Ok(0), Ok(0)));
    assert_eq!(it.write(THERE, 110, 1), Err(denied(110, Access::Write, Read)));
    assert_eq!(it.fetch(THERE, 110), Err(denied(110, Access::Fetch, Read)));
    assert_eq!(it.write(THERE, 111, 1), Err(denied(111, Access::Write, ReadExecute)));
    it.protect(HERE, range(110, 112), ReadWrite).unwrap();
    it.write(THERE, 111, 1).unwrap();
    assert_eq!(it.fetch(THERE, 111), Err(denied(111, Access::Fetch, ReadWrite)));
    assert_eq!(it.read(THERE, 120), Err(Fault::NotMapped { cpu: THERE, page: 120 }));
    assert_eq!((it.audit(), it.faults), (vec![], vec![]));
}

#[test]
fn frames_tell_whose_they_are() {
    let mut it = machine();
    let [taken] = take(&mut it);
    map(&mut it, 110, 111);
    let own = Frame(it.frame(110).unwrap());
    let origins = [taken, Frame(DEVICE), own, Frame(DEVICE - 1), Frame(DEVICE + 4), Frame(u64::MAX)];
    let (foreign, device) = (Origin::Foreign, Origin::Device);
    let expected = [Origin::Supply, device, foreign, foreign, foreign, foreign];
    assert_eq!(origins.map(|frame| it.origin(frame)), expected);
    put(&mut it, 120, &[taken]);
    assert_eq!((it.frame_at(110), it.frame_at(120), it.taken_frames()), (None, Some(taken), vec![taken]));
    assert_ne!(it.read(HERE, 120), Ok(0), "what is taken is dirty");
}

#[test]
fn a_flush_interrupts_each_cpu_that_may_hold_a_page_once() {
    let mut it = Machine::new(&options().tlb_entries(4));
    map(&mut it, 110, 120);
    // Of ten entries six were replaced, which no software can know.
    it.prefetch(THERE, range(110, 120));
    assert_eq!(it.tlbs[THERE].entries().count(), 4);
    let ranges = [range(110, 112), range(114, 116), range(118, 119)];
    it.unmap(HERE, &ranges).unwrap();
    it.flush(HERE, &ranges).unwrap();
    end(&mut it, 113, 114);
    it.unmap(HERE, &[range(112, 113)]).unwrap();
    it.flush(THERE, &[range(112, 113)]).unwrap();
    let told = |cpu, ranges, pages, interrupts| Flush { cpu, ranges, pages, interrupts };
    assert_eq!(it.flushes, [told(HERE, 3, 5, 1), told(HERE, 1, 1, 1), told(THERE, 1, 1, 0)]);
}

#[test]
fn huge_pages_are_used_where_frames_are_consecutive() {
    let mut it = Machine::new(&options().frames(17).huge_order(2));
    it.map_huge(range(101, 113), ReadWrite).unwrap();
    take::<1>(&mut it);
    assert_eq!((it.counts.huge_pages, it.frame(104).map(|frame| frame % 4)), (2, Some(0)));
    it.map_huge(range(120, 124), ReadWrite).unwrap();
    assert_eq!(it.counts.huge_pages, 2, "four frames are left, and no run");
    assert!(it.map_huge(range(130, 131), ReadWrite).is_err());
    end(&mut it, 101, 113);
    end(&mut it, 120, 124);
    is_clean(&mut it);
}

#[test]
fn reads_without_a_fault_stop_at_pages_that_are_not_mapped() {
    let sim = options().linear(1000).build();
    sim.step(|machine| machine.map(range(110, 112), Read)).unwrap();
    sim.step(|machine| machine.memory.fill(1, 0x0807_0605_0403_0201));
    let mut bytes = [0xff; 9000];
    let copied = sim.read_nofault((111 << 12) - 2, &mut bytes);
    assert_eq!((copied, &bytes[..6], bytes[copied]), (4098, &[0, 0, 1, 2, 3, 4][..], 0xff));
    assert_eq!((sim.read_nofault(112 << 12, &mut bytes), sim.read_nofault(usize::MAX, &mut bytes)), (0, 0));
    assert_eq!((sim.read_nofault(1001 << 12, &mut bytes), sim.faults()), (4096, vec![]));
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
fn a_map_without_frames_is_undone() {
    let mut it = Machine::new(&options().frames(4));
    map(&mut it, 110, 112);
    let error = it.map(range(120, 123), ReadWrite).unwrap_err();
    assert_eq!((error.call, error.fault), ("map", PlatformFault::OutOfMemory));
    assert_eq!((it.page_table.len(), it.counts.failed, it.counts.out_of_frames), (2, 1, 1));
    assert!(it.take_frames(&mut [Frame(0); 3]).is_err() && it.taken_frames().is_empty());
    map(&mut it, 120, 122);
    assert_eq!((it.audit(), it.faults), (vec![], vec![]));
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
