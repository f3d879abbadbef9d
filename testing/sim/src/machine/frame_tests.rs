//! One test for each detection about frames of users: it fails if the detection is taken out.

use super::*;
use crate::options::OnViolation;
use vmalloc::Protection::ReadWrite;
use vmalloc::{Frame, Origin};

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

pub(super) fn take<const N: usize>(machine: &mut Machine) -> [Frame; N] {
    let mut frames = [Frame(0); N];
    machine.take_frames(&mut frames).unwrap();
    frames
}

pub(super) fn put(machine: &mut Machine, range: PageRange, frames: &[Frame]) {
    machine.map_frames(HERE, range, frames, ReadWrite).unwrap();
}

/// A machine on which two frames are behind pages 110 to 112, which every CPU has used.
pub(super) fn mapped(options: Options) -> (Machine, [Frame; 2]) {
    let mut machine = Machine::new(&options);
    let frames = take(&mut machine);
    put(&mut machine, range(110, 112), &frames);
    (0..3).for_each(|cpu| machine.write(cpu, 110, 1).unwrap());
    (machine, frames)
}

/// Returns a machine with mapped frames whose pages were discarded.
fn gone(options: Options) -> (Machine, [Frame; 2]) {
    let (mut machine, frames) = mapped(options);
    machine.discard_hint(HERE, range(110, 112));
    (machine, frames)
}

pub(super) fn unmap_and_flush(machine: &mut Machine, range: PageRange) {
    machine.unmap(HERE, &[range]).unwrap();
    machine.flush(HERE, &[range]).unwrap();
}

#[test]
fn correct_use_has_no_fault() {
    for discard in [Discard::Unmaps, Discard::Keeps] {
        let (mut machine, frames) = mapped(options().discard(discard));
        put(&mut machine, range(120, 124), &[frames[0], Frame(DEVICE), frames[0], frames[1]]);
        machine.write(THERE, 122, 7).unwrap();
        assert_eq!([110, 120].map(|page| machine.read(LAST, page)), [Ok(7), Ok(7)], "the same frame");
        machine.discard_hint(HERE, range(110, 112));
        machine.discard_hint(THERE, range(120, 124));
        machine.give_frames(&frames);
        unmap_and_flush(&mut machine, range(109, 125));
        let frames = take::<2>(&mut machine);
        put(&mut machine, range(111, 113), &frames);
        machine.read(LAST, 111).unwrap();
        unmap_and_flush(&mut machine, range(111, 113));
        machine.give_frames(&frames);
        assert_eq!((machine.audit(), machine.leaks(), machine.faults), (vec![], vec![], vec![]));
    }
}

#[test]
fn origin_tells_supply_device_and_foreign_frames() {
    let mut machine = Machine::new(&options());
    let [taken] = take(&mut machine);
    machine.map(range(110, 111), ReadWrite).unwrap();
    let own = Frame(machine.frame(110).unwrap());
    let origins = [taken, Frame(DEVICE), own, Frame(DEVICE - 1), Frame(DEVICE + 4), Frame(u64::MAX)];
    let [foreign, device] = [Origin::Foreign, Origin::Device];
    let expected = [Origin::Supply, device, foreign, foreign, foreign, foreign];
    assert_eq!(origins.map(|frame| machine.origin(frame)), expected);
    assert_eq!((machine.taken_frames(), machine.frame_at(110)), (vec![taken], None));
    put(&mut machine, range(120, 121), &[taken]);
    assert_eq!(machine.frame_at(120), Some(taken));
}

#[test]
fn taken_frames_are_dirty_and_no_leak() {
    let mut machine = Machine::new(&options());
    let frames = take::<2>(&mut machine);
    put(&mut machine, range(110, 112), &frames);
    assert_ne!(machine.read(HERE, 110), Ok(0));
    unmap_and_flush(&mut machine, range(110, 112));
    assert_eq!((machine.leaks(), machine.taken_frames().len()), (vec![], 2));
}

#[test]
fn foreign_frames_are_reported_when_they_are_mapped() {
    let mut machine = Machine::new(&options());
    machine.map(range(110, 111), ReadWrite).unwrap();
    put(&mut machine, range(120, 121), &[Frame(0)]);
    let own = Fault::MappedForeign { page: 120, frame: 0 };
    assert_eq!(machine.faults, [own]);
    let alias = Fault::Aliased { frame: 0, page: 110, other: 120, cpu: None };
    assert_eq!(machine.audit(), [alias], "an alias of a frame that `map` owns");
    let beyond = machine.map_frames(HERE, range(130, 131), &[Frame(99)], ReadWrite).unwrap_err();
    assert_eq!((beyond.fault, machine.frame(130)), (PlatformFault::Other, None));
    assert_eq!(machine.faults.last(), Some(&Fault::MappedForeign { page: 130, frame: 99 }));
}

#[test]
fn frames_that_were_given_back_are_foreign() {
    let mut machine = Machine::new(&options());
    let frames = take::<1>(&mut machine);
    machine.give_frames(&frames);
    put(&mut machine, range(110, 111), &frames);
    machine.give_frames(&frames);
    let [Frame(frame)] = frames;
    assert_eq!(machine.faults, [Fault::MappedForeign { page: 110, frame }, Fault::GivenForeign { frame }]);
}

#[test]
fn giving_back_what_was_not_taken_is_reported() {
    let mut machine = Machine::new(&options());
    machine.map(range(110, 111), ReadWrite).unwrap();
    let [Frame(taken)] = take(&mut machine);
    machine.give_frames(&[Frame(taken), Frame(0), Frame(DEVICE), Frame(taken), Frame(99)]);
    let faults = [0, DEVICE, taken, 99].map(|frame| Fault::GivenForeign { frame });
    assert_eq!(machine.faults, faults);
}

#[test]
fn giving_back_what_is_mapped_is_reported() {
    for discard in [Discard::Unmaps, Discard::Keeps] {
        let (mut machine, frames) = mapped(options().discard(discard));
        put(&mut machine, range(120, 122), &[frames[0], frames[0]]);
        machine.discard_hint(HERE, range(110, 112));
        machine.discard_hint(HERE, range(121, 122));
        machine.give_frames(&frames);
        assert_eq!(machine.faults, [Fault::GivenWhileMapped { frame: frames[0].0, page: 120 }]);
    }
}

#[test]
fn unmapping_frames_discards_them() {
    let (mut machine, frames) = mapped(options());
    machine.unmap(HERE, &[range(110, 112)]).unwrap();
    machine.give_frames(&frames);
    assert_eq!((machine.audit(), machine.faults), (vec![], vec![]));
}

#[test]
fn stale_reach_of_returned_frame_is_reported() {
    for discard in [Discard::Unmaps, Discard::Keeps] {
        let (mut machine, frames) = gone(options().discard(discard));
        machine.give_frames(&frames);
        assert_eq!(take::<2>(&mut machine), frames);
        let fault = Fault::ReachedGiven { cpu: THERE, page: 110, frame: frames[0].0 };
        assert_eq!((machine.write(THERE, 110, 9), machine.read_nofault(THERE, 110)), (Err(fault), Some(9)));
        assert_eq!(machine.faults, [fault, fault]);
    }
}

#[test]
fn discard_is_noticed_on_this_cpu_or_on_none() {
    let (mut machine, frames) = gone(options());
    assert_eq!(machine.read(HERE, 110), Err(Fault::NotMapped { cpu: HERE, page: 110 }));
    let stale = Fault::StaleAccess { cpu: THERE, page: 110, frame: frames[0].0, now: None };
    assert_eq!((machine.read(THERE, 110), machine.frame_at(110)), (Err(stale), None));
    let (mut machine, frames) = gone(options().discard(Discard::Keeps));
    assert_eq!((machine.read(HERE, 110), machine.frame_at(110)), (Ok(1), Some(frames[0])));
}

#[test]
fn discard_of_pages_without_frames_is_reported() {
    for discard in [Discard::Unmaps, Discard::Keeps] {
        let (mut machine, _) = gone(options().discard(discard));
        machine.map(range(120, 121), ReadWrite).unwrap();
        [110, 120, 130].into_iter().for_each(|page| machine.discard_hint(HERE, range(page, page + 1)));
        assert_eq!(machine.faults, [110, 120, 130].map(|page| Fault::DiscardedUnmapped { page }));
    }
}

#[test]
fn flush_of_discarded_page_before_unmap_is_reported() {
    for discard in [Discard::Unmaps, Discard::Keeps] {
        let (mut machine, _) = gone(options().discard(discard));
        machine.flush(HERE, &[range(110, 112)]).unwrap();
        assert_eq!(machine.faults, [Fault::NotUnmapped { page: 110 }]);
    }
}

#[test]
fn memory_may_get_the_frame_of_a_discarded_page() {
    for discard in [Discard::Unmaps, Discard::Keeps] {
        let (mut machine, frames) = gone(options().discard(discard));
        machine.give_frames(&frames);
        machine.map(range(120, 122), ReadWrite).unwrap();
        assert!(frames.contains(&Frame(machine.frame(120).unwrap())));
        assert_eq!((machine.audit(), machine.faults), (vec![], vec![]));
    }
}

#[test]
fn memory_with_a_mapped_frame_is_reported() {
    let (mut machine, frames) = mapped(options());
    machine.give_frames(&frames);
    machine.faults.clear();
    machine.map(range(120, 122), ReadWrite).unwrap();
    let page = if machine.frame(120) == Some(frames[0].0) { 120 } else { 121 };
    let alias = |cpu| Fault::Aliased { frame: frames[0].0, page, other: 110, cpu: Some(cpu) };
    assert_eq!(machine.faults, [HERE, THERE, LAST].map(alias));
    assert_eq!(machine.audit().len(), 5, "two pages, and one of them on three CPUs");
}

#[test]
fn remap_without_remap_mode_is_reported() {
    for discard in [Discard::Unmaps, Discard::Keeps] {
        let (mut machine, frames) = gone(options().discard(discard));
        put(&mut machine, range(110, 111), &frames[1..]);
        let fault = match discard {
            Discard::Keeps => Fault::MappedOver { page: 110, frame: frames[0].0 },
            Discard::Unmaps => Fault::ReusedBeforeFlush { page: 110 },
        };
        assert_eq!(machine.faults[0], fault);
    }
}

#[test]
fn map_frames_over_unflushed_page_is_reported() {
    for options in [options(), options().remaps_atomically()] {
        let (mut machine, frames) = mapped(options);
        machine.unmap(HERE, &[range(110, 112)]).unwrap();
        put(&mut machine, range(110, 111), &frames[..1]);
        let held = |cpu| Fault::ReusedWhileHeld { page: 110, cpu, frame: frames[0].0 };
        assert_eq!(machine.faults, [Fault::ReusedBeforeFlush { page: 110 }, held(THERE), held(LAST)]);
    }
}

#[test]
fn remapping_machine_flushes_every_cpu() {
    for discard in [Discard::Unmaps, Discard::Keeps] {
        let (mut machine, frames) = mapped(options().remaps_atomically().discard(discard));
        let fresh = take::<2>(&mut machine);
        put(&mut machine, range(110, 111), &fresh[..1]);
        machine.discard_hint(HERE, range(111, 112));
        put(&mut machine, range(111, 112), &fresh[1..]);
        machine.give_frames(&frames);
        machine.write(HERE, 110, 5).unwrap();
        assert_eq!([HERE, THERE, LAST].map(|cpu| machine.read(cpu, 110)), [Ok(5); 3]);
        assert_eq!((machine.counts.replaced_pages, machine.counts.interrupts), (2, 2));
        assert!(
            machine.leaks().iter().all(|leak| matches!(leak, Fault::LeakedPage { .. })),
            "all is flushed"
        );
        unmap_and_flush(&mut machine, range(110, 112));
        assert_eq!((machine.audit(), machine.leaks(), machine.faults), (vec![], vec![], vec![]));
    }
}

#[test]
fn remap_that_skips_a_cpu_is_caught() {
    let (mut machine, frames) = mapped(options().remaps_atomically().injected_bug(InjectedBug::ForgottenCpu));
    let [fresh] = take(&mut machine);
    put(&mut machine, range(110, 111), &[fresh]);
    let stale = Fault::StaleAccess { cpu: LAST, page: 110, frame: frames[0].0, now: Some(fresh.0) };
    assert_eq!(machine.read(LAST, 110), Err(stale));
    assert_eq!(machine.audit(), [Fault::FlushedTooLittle { frame: frames[0].0, page: 110, cpu: LAST }]);
}

#[test]
fn memory_is_never_remapped() {
    let mut machine = Machine::new(&options().remaps_atomically());
    machine.map(range(110, 111), ReadWrite).unwrap();
    let frames = take::<1>(&mut machine);
    put(&mut machine, range(110, 111), &frames);
    assert_eq!(machine.faults, [Fault::DoubleMap { page: 110, frame: 0 }]);
}

#[test]
fn frames_and_pages_are_as_many() {
    let mut machine = Machine::new(&options());
    let frames = take::<2>(&mut machine);
    assert!(machine.map_frames(HERE, range(110, 113), &frames, ReadWrite).is_err());
    assert!(machine.map_frames(HERE, range(199, 201), &frames, ReadWrite).is_ok());
    let outside =
        Fault::OutsideSpan { call: Point::MapFrames, range: range(199, 201), span: range(100, 200) };
    assert_eq!(machine.faults, [Fault::WrongCount { range: range(110, 113), frames: 2 }, outside]);
}

#[test]
fn runs_are_checked() {
    let mut machine = Machine::new(&options());
    assert!(machine.take_run(0, 1).is_err() && machine.take_run(1, 3).is_err());
    assert_eq!(machine.faults, [(0, 1), (1, 3)].map(|(count, align)| Fault::BadRun { count, align }));
    machine.map(range(110, 111), ReadWrite).unwrap();
    assert_eq!((machine.take_run(4, 4), machine.take_run(9, 1).is_err()), (Ok(Frame(4)), true));
    assert_eq!((machine.counts.out_of_frames, machine.taken_frames().len()), (1, 4));
}

#[test]
fn calls_for_frames_fail_on_request_and_leave_nothing() {
    let mut machine = Machine::new(&options());
    machine.plan.fail_nth(Point::TakeFrames, 1);
    machine.plan.fail_nth(Point::TakeRun, 1);
    machine.plan.fail_nth(Point::MapFrames, 1);
    assert!(machine.take_frames(&mut [Frame(0); 3]).is_err() && machine.take_run(3, 1).is_err());
    assert_eq!(machine.taken_frames(), []);
    let frames = take::<2>(&mut machine);
    assert!(machine.map_frames(HERE, range(110, 112), &frames, ReadWrite).is_err());
    assert_eq!(
        (machine.page_table.len(), machine.plan.fired(Point::MapFrames), machine.counts.failed),
        (0, 1, 3)
    );
    put(&mut machine, range(110, 112), &frames);
    assert_eq!(machine.faults, []);
}

/// Half of what was there is gone, and its place is the caller's as before.
#[test]
fn a_failing_replacement_can_be_repeated_or_given_up() {
    for repeats in 0..2 {
        let (mut machine, frames) = mapped(options().remaps_atomically());
        let fresh = take::<2>(&mut machine);
        machine.plan.fail_nth(Point::MapFrames, 1);
        assert!(machine.map_frames(HERE, range(110, 112), &fresh, ReadWrite).is_err());
        assert_eq!([110, 111].map(|page| machine.frame_at(page)), [None, Some(frames[1])]);
        (0..repeats).for_each(|_| put(&mut machine, range(110, 112), &fresh));
        unmap_and_flush(&mut machine, range(110, 112));
        assert_eq!((machine.audit(), machine.leaks(), machine.faults), (vec![], vec![], vec![]));
    }
}
