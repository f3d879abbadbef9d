//! One test for each detection: it fails if the detection is taken out.

use super::*;
use crate::options::OnViolation;
use vmalloc::Protection;

const HERE: usize = 0;
const THERE: usize = 1;
const LAST: usize = 2;

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).unwrap()
}

fn options() -> Options {
    Options::new(range(100, 200)).cpus(3).on_violation(OnViolation::Record)
}

fn map(machine: &mut Machine, range: PageRange) -> Result<(), PlatformError> {
    machine.map(range, Protection::ReadWrite)
}

fn machine() -> Machine {
    Machine::new(&options())
}

/// A machine on which pages 110 to 112 were mapped and used by every CPU, then unmapped by `HERE`.
fn unmapped(options: Options) -> Machine {
    let mut machine = Machine::new(&options);
    map(&mut machine, range(110, 112)).unwrap();
    for cpu in 0..3 {
        assert_eq!(machine.read(cpu, 110), Ok(0));
    }
    machine.unmap(HERE, &[range(110, 112)]).unwrap();
    machine
}

/// Returns a machine whose unmapped range is flushed.
fn flushed(options: Options) -> Machine {
    let mut machine = unmapped(options);
    machine.flush(HERE, &[range(110, 112)]).unwrap();
    machine
}

#[test]
fn correct_use_has_no_fault() {
    let mut machine = flushed(options());
    map(&mut machine, range(111, 114)).unwrap();
    machine.write(THERE, 111, 5).unwrap();
    assert_eq!(machine.read(HERE, 111), Ok(5));
    machine.zero(HERE, range(111, 114));
    assert_eq!(machine.read(THERE, 111), Ok(0));
    machine.unmap(HERE, &[range(111, 112), range(112, 114)]).unwrap();
    machine.flush(THERE, &[range(111, 114)]).unwrap();
    assert_eq!((machine.audit(), machine.leaks(), machine.faults), (vec![], vec![], vec![]));
}

#[test]
fn an_access_without_translation_is_answered_and_not_recorded() {
    let mut machine = machine();
    assert_eq!(machine.read(THERE, 110), Err(Fault::NotMapped { cpu: THERE, page: 110 }));
    assert_eq!(machine.write(THERE, 110, 1), Err(Fault::NotMapped { cpu: THERE, page: 110 }));
    assert_eq!(machine.faults, []);
}

#[test]
fn a_double_map_is_reported() {
    let mut machine = machine();
    map(&mut machine, range(110, 112)).unwrap();
    map(&mut machine, range(111, 113)).unwrap();
    assert_eq!(machine.faults, [Fault::DoubleMap { page: 111, frame: 1 }]);
    assert_eq!(machine.leaks().last(), Some(&Fault::LeakedFrame { frame: 1, page: 111 }));
}

#[test]
fn reuse_before_flush_is_reported_without_stale_tlb() {
    let mut machine = machine();
    map(&mut machine, range(110, 112)).unwrap();
    machine.unmap(HERE, &[range(110, 112)]).unwrap();
    map(&mut machine, range(111, 112)).unwrap();
    assert_eq!(machine.faults, [Fault::ReusedBeforeFlush { page: 111 }]);
}

#[test]
fn addresses_handed_out_without_memory_are_reuse_too() {
    let mut machine = unmapped(options());
    machine.check_reuse(range(109, 120));
    let held = |cpu| Fault::ReusedWhileHeld { page: 110, cpu, frame: 0 };
    assert_eq!(machine.faults, [Fault::ReusedBeforeFlush { page: 110 }, held(THERE), held(LAST)]);
}

#[test]
fn a_guard_is_unmapped_and_flushed_like_other_pages() {
    let mut machine = machine();
    machine.unmap(HERE, &[range(110, 111)]).unwrap();
    map(&mut machine, range(110, 111)).unwrap();
    assert_eq!(machine.faults, [Fault::ReusedBeforeFlush { page: 110 }]);
}

#[test]
fn the_cpu_that_unmaps_notices_at_once_and_the_others_do_not() {
    let mut machine = unmapped(options());
    machine.memory.fill(0, 7);
    assert_eq!(machine.read(HERE, 110), Err(Fault::NotMapped { cpu: HERE, page: 110 }));
    assert_eq!(
        (machine.look(HERE, 110), machine.look(THERE, 110)),
        (TlbVisibility::Nothing, TlbVisibility::Stale(7))
    );
    assert_eq!(machine.faults, []);
}

#[test]
fn stale_access_is_reported_and_carried_out() {
    let mut machine = unmapped(options());
    let fault = Fault::StaleAccess { cpu: THERE, page: 110, frame: 0, now: None };
    assert_eq!(machine.read(THERE, 110), Err(fault));
    assert_eq!(machine.write(THERE, 110, 9), Err(fault));
    assert_eq!(machine.faults, [fault, fault]);
    assert_eq!(machine.memory.content(0), 9);
}

#[test]
fn access_to_the_earlier_frame_is_stale() {
    let mut machine = unmapped(options());
    map(&mut machine, range(110, 111)).unwrap();
    machine.faults.clear();
    let fault = Fault::StaleAccess { cpu: THERE, page: 110, frame: 0, now: Some(2) };
    assert_eq!((machine.read(THERE, 110), &*machine.faults), (Err(fault), &[fault][..]));
    assert_eq!((machine.read(HERE, 110), machine.look(HERE, 110)), (Ok(0), TlbVisibility::Right(0)));
}

/// The frame is the same again, but it is another mapping: right by luck alone.
#[test]
fn an_entry_of_an_earlier_mapping_is_stale_even_if_it_agrees() {
    let mut machine = flushed(options().injected_bug(InjectedBug::ForgottenCpu));
    map(&mut machine, range(111, 112)).unwrap();
    map(&mut machine, range(110, 111)).unwrap();
    let fault = Fault::StaleAccess { cpu: LAST, page: 110, frame: 0, now: Some(0) };
    assert_eq!(machine.read(LAST, 110), Err(fault));
}

#[test]
fn flush_that_skips_a_cpu_is_reported_at_recycling() {
    let machine = flushed(options().injected_bug(InjectedBug::ForgottenCpu));
    assert_eq!(machine.faults, [Fault::FlushedTooLittle { frame: 0, page: 110, cpu: LAST }]);
}

#[test]
fn reuse_of_a_page_in_a_tlb_is_reported() {
    let mut machine = flushed(options().injected_bug(InjectedBug::ForgottenCpu));
    machine.faults.clear();
    map(&mut machine, range(110, 111)).unwrap();
    assert!(machine.faults.contains(&Fault::ReusedWhileHeld { page: 110, cpu: LAST, frame: 0 }));
}

#[test]
fn reuse_of_a_frame_in_a_tlb_is_reported() {
    let mut machine = flushed(options().injected_bug(InjectedBug::ForgottenCpu));
    machine.faults.clear();
    map(&mut machine, range(150, 152)).unwrap();
    assert_eq!(machine.faults, [Fault::Aliased { frame: 0, page: 151, other: 110, cpu: Some(LAST) }]);
}

#[test]
fn recycling_before_the_flush_is_reported() {
    let machine = unmapped(options().injected_bug(InjectedBug::EarlyRecycling));
    let early = |page, frame| Fault::RecycledBeforeFlush { frame, page };
    let reached = |cpu| Fault::FlushedTooLittle { frame: 0, page: 110, cpu };
    assert_eq!(machine.faults, [early(110, 0), reached(THERE), reached(LAST), early(111, 1)]);
}

#[test]
fn flush_of_mapped_pages_is_reported() {
    let mut machine = unmapped(options());
    map(&mut machine, range(120, 121)).unwrap();
    machine.flush(HERE, &[range(110, 113), range(120, 121)]).unwrap();
    assert_eq!(machine.faults, [Fault::NotUnmapped { page: 112 }, Fault::NotUnmapped { page: 120 }]);
}

#[test]
fn zeroing_unmapped_pages_is_reported() {
    let mut machine = machine();
    map(&mut machine, range(110, 111)).unwrap();
    machine.zero(HERE, range(110, 112));
    assert_eq!(machine.faults, [Fault::ZeroedUnmapped { page: 111 }]);
}

#[test]
fn zeroing_through_a_stale_entry_is_reported() {
    let mut machine = unmapped(options());
    machine.zero(THERE, range(110, 111));
    assert_eq!(machine.faults, [Fault::StaleAccess { cpu: THERE, page: 110, frame: 0, now: None }]);
}

#[test]
fn ranges_out_of_the_span_or_out_of_order_are_reported() {
    let mut machine = machine();
    map(&mut machine, range(199, 201)).unwrap();
    machine.unmap(HERE, &[range(110, 112), range(111, 113)]).unwrap();
    machine.flush(HERE, &[range(112, 113), range(110, 111)]).unwrap();
    let outside = Fault::OutsideSpan { call: Point::Map, range: range(199, 201), span: range(100, 200) };
    let disorder = |call, range, next| Fault::NotAscending { call, range, next };
    let unmap = disorder(Point::Unmap, range(110, 112), range(111, 113));
    let flush = disorder(Point::Flush, range(112, 113), range(110, 111));
    assert_eq!(machine.faults, [outside, unmap, flush]);
}

#[test]
fn leaks_are_reported_by_stage() {
    let mut machine = machine();
    map(&mut machine, range(110, 112)).unwrap();
    machine.unmap(HERE, &[range(111, 113)]).unwrap();
    let page = Fault::LeakedPage { page: 110, frame: 0 };
    let frame = Fault::LeakedFrame { frame: 1, page: 111 };
    assert_eq!(machine.leaks(), [page, frame, Fault::LeftUnflushed { range: range(111, 113) }]);
    assert_eq!(machine.audit(), []);
}

#[test]
fn an_audit_finds_aliases_stale_entries_and_lost_frames() {
    let mut machine = flushed(options().injected_bug(InjectedBug::ForgottenCpu));
    let held = Fault::FlushedTooLittle { frame: 0, page: 110, cpu: LAST };
    assert_eq!(machine.audit(), [held]);
    map(&mut machine, range(150, 152)).unwrap();
    let alias = |cpu, other| Fault::Aliased { frame: 0, page: 151, other, cpu };
    assert_eq!(machine.audit(), [alias(Some(LAST), 110), held]);
    let twin = machine.page_table.get(151).unwrap();
    machine.page_table.insert(160, twin);
    assert_eq!(machine.audit(), [alias(None, 160), alias(Some(LAST), 110), held]);
    machine.page_table.remove(150);
    assert_eq!(machine.audit().last(), Some(&Fault::LeakedFrame { frame: 1, page: 150 }));
}

#[test]
fn flush_interrupts_each_holding_cpu_once() {
    let mut machine = machine();
    map(&mut machine, range(110, 120)).unwrap();
    machine.prefetch(THERE, range(110, 120));
    let ranges = [range(110, 112), range(114, 116), range(118, 119)];
    machine.unmap(HERE, &ranges).unwrap();
    machine.flush(HERE, &ranges).unwrap();
    assert_eq!(machine.flushes, [Flush { cpu: HERE, ranges: 3, pages: 5, interrupts: 1 }]);
    machine.unmap(HERE, &[range(112, 113)]).unwrap();
    machine.flush(THERE, &[range(112, 113)]).unwrap();
    assert_eq!(machine.flushes[1].interrupts, 0, "nobody else holds it");
    let counts = &machine.counts;
    assert_eq!(
        (counts.flushes, counts.flushed_ranges, counts.flushed_pages, counts.interrupts),
        (2, 4, 6, 1)
    );
}

#[test]
fn full_tlb_replaces_entries_and_is_still_interrupted() {
    let mut machine = Machine::new(&options().tlb_entries(1));
    map(&mut machine, range(110, 112)).unwrap();
    machine.prefetch(THERE, range(110, 112));
    machine.unmap(HERE, &[range(110, 111)]).unwrap();
    assert_eq!(machine.look(THERE, 110), TlbVisibility::Nothing);
    machine.flush(HERE, &[range(110, 111)]).unwrap();
    assert_eq!(machine.counts.interrupts, 1);
}

#[test]
fn failed_map_is_undone() {
    let mut machine = Machine::new(&options().frames(4));
    map(&mut machine, range(110, 112)).unwrap();
    let error = map(&mut machine, range(120, 123)).unwrap_err();
    assert_eq!((error.call, error.fault), ("map", PlatformFault::OutOfMemory));
    assert_eq!((machine.page_table.len(), machine.memory.owned().count()), (2, 2));
    assert_eq!((machine.counts.failed, machine.counts.out_of_frames), (1, 1));
    map(&mut machine, range(120, 122)).unwrap();
    assert_eq!(machine.faults, []);
}

#[test]
fn the_nth_frame_or_map_fails_once_and_leaves_nothing() {
    let mut machine = machine();
    machine.plan.fail_nth(Point::Frame, 3);
    let mut nth = |start, end| map(&mut machine, range(start, end)).is_ok();
    assert_eq!([nth(110, 112), nth(120, 122), nth(120, 122)], [true, false, true]);
    machine.plan.fail_nth(Point::Map, 2);
    let mut nth = |start, end| map(&mut machine, range(start, end)).is_ok();
    assert_eq!([nth(130, 131), nth(140, 141), nth(140, 141)], [true, false, true]);
    machine.plan.fail_nth(Point::Map, 1);
    machine.plan.heal();
    map(&mut machine, range(150, 151)).unwrap();
    assert_eq!((machine.counts.failed, machine.counts.out_of_frames), (2, 0));
    assert_eq!((machine.page_table.len(), machine.audit()), (7, vec![]));
}

#[test]
fn a_failing_unmap_does_half_and_can_be_repeated() {
    let mut machine = machine();
    map(&mut machine, range(110, 114)).unwrap();
    machine.plan.fail_nth(Point::Unmap, 1);
    let ranges = [range(110, 114)];
    assert_eq!(machine.unmap(HERE, &ranges).unwrap_err().call, "unmap");
    assert_eq!(machine.page_table.len(), 2);
    machine.unmap(HERE, &ranges).unwrap();
    machine.flush(HERE, &ranges).unwrap();
    assert_eq!((machine.leaks(), machine.faults), (vec![], vec![]));
}

#[test]
fn a_failing_flush_reaches_some_cpus_and_recycles_nothing() {
    let mut left = [0; 3];
    for seed in 0..32 {
        let mut machine = unmapped(options().seed(seed));
        machine.plan.fail_nth(Point::Flush, 1);
        assert_eq!(machine.flush(LAST, &[range(110, 112)]).unwrap_err().call, "flush");
        for cpu in [THERE, LAST] {
            left[cpu] += u32::from(machine.look(cpu, 110) != TlbVisibility::Nothing);
        }
        assert_eq!(machine.leaks().len(), 3, "two frames in limbo and their range");
        map(&mut machine, range(110, 111)).unwrap();
        assert_eq!(machine.faults[0], Fault::ReusedBeforeFlush { page: 110 });
    }
    assert!((1..32).contains(&left[THERE]) && (1..32).contains(&left[LAST]), "{left:?}");
}
