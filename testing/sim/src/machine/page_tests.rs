//! Protection, huge pages, the linear map and peeking: a test for each rule.

use super::frame_tests::*;
use super::*;
use crate::fault::Access;
use vmalloc::Protection::{Read, ReadExecute, ReadWrite};
use vmalloc::{Frame, Platform, ReadNofault};

#[test]
fn protection_is_kept() {
    let mut machine = Machine::new(&options());
    machine.map(range(110, 111), Read).unwrap();
    machine.map(range(111, 112), ReadExecute).unwrap();
    let denied = |page, access, protection| Err(Fault::Denied { cpu: THERE, page, access, protection });
    assert_eq!((machine.read(THERE, 110), machine.fetch(THERE, 111)), (Ok(0), Ok(0)));
    assert_eq!(machine.write(THERE, 110, 1), denied(110, Access::Write, Read).map(|_: u64| ()));
    assert_eq!(machine.fetch(THERE, 110), denied(110, Access::Fetch, Read));
    assert_eq!(machine.write(THERE, 111, 1), denied(111, Access::Write, ReadExecute).map(|_: u64| ()));
    machine.protect(HERE, range(110, 112), ReadWrite).unwrap();
    machine.write(THERE, 111, 1).unwrap();
    assert_eq!(machine.fetch(THERE, 111), denied(111, Access::Fetch, ReadWrite));
    assert_eq!((machine.audit(), machine.faults), (vec![], vec![]));
}

#[test]
fn protection_belongs_to_a_page_and_not_to_its_frame() {
    let (mut machine, frames) = mapped(options());
    machine.map_frames(HERE, range(120, 122), &frames, Read).unwrap();
    machine.write(THERE, 110, 3).unwrap();
    assert_eq!(machine.read(THERE, 120), Ok(3));
    assert!(matches!(machine.write(THERE, 120, 4), Err(Fault::Denied { .. })));
}

#[test]
fn protection_that_was_not_flushed_is_caught() {
    let (mut machine, frames) = mapped(options().injected_bug(InjectedBug::UnflushedProtection));
    machine.protect(HERE, range(110, 112), Read).unwrap();
    let fault = Fault::StaleProtection { cpu: THERE, page: 110, held: ReadWrite, now: Read };
    assert_eq!((machine.read(THERE, 110), machine.write(THERE, 110, 2)), (Ok(1), Err(fault)));
    assert_eq!(machine.faults, [fault]);
    let held = |cpu| Fault::FlushedTooLittle { frame: frames[0].0, page: 110, cpu };
    assert_eq!(machine.audit(), [HERE, THERE, LAST].map(held));
}

#[test]
fn protecting_unmapped_pages_is_reported() {
    let mut machine = Machine::new(&options());
    machine.map(range(110, 111), ReadWrite).unwrap();
    machine.protect(HERE, range(110, 112), Read).unwrap();
    assert_eq!(machine.faults, [Fault::ProtectedUnmapped { page: 111 }]);
}

#[test]
fn zeroing_read_only_pages_is_reported() {
    let mut machine = Machine::new(&options());
    machine.map(range(110, 111), ReadExecute).unwrap();
    machine.zero(HERE, range(110, 111));
    assert_eq!(machine.faults, [Fault::ZeroedReadOnly { page: 110, protection: ReadExecute }]);
}

#[test]
fn linear_map_reaches_taken_frames() {
    let mut machine = Machine::new(&options().linear(1000));
    let [Frame(frame)] = take(&mut machine);
    put(&mut machine, range(110, 111), &[Frame(frame)]);
    machine.write(HERE, 1000 + frame, 3).unwrap();
    assert_eq!((machine.read(THERE, 110), machine.read_nofault(THERE, 1000 + frame)), (Ok(3), Some(3)));
    machine.unmap(HERE, &[range(110, 111)]).unwrap();
    machine.give_frames(&[Frame(frame)]);
    let fault = Fault::ReachedFree { cpu: THERE, frame };
    assert_eq!(
        (machine.read(THERE, 1000 + frame), machine.read_nofault(THERE, 1000 + frame)),
        (Err(fault), None)
    );
    assert_eq!(machine.look(THERE, 1000 + frame), TlbVisibility::Nothing);
    let devices = Err(Fault::NotMapped { cpu: HERE, page: 1000 + DEVICE });
    assert_eq!((machine.read(HERE, 1000 + DEVICE), machine.faults), (devices, vec![fault]));
}

#[test]
fn huge_pages_are_used_where_frames_are_consecutive() {
    let mut machine = Machine::new(&options().frames(17).huge_order(2));
    machine.map_huge(range(101, 113), ReadWrite).unwrap();
    take::<1>(&mut machine);
    assert_eq!((machine.counts.huge_pages, machine.frame(104).map(|frame| frame % 4)), (2, Some(0)));
    machine.map_huge(range(120, 124), ReadWrite).unwrap();
    assert_eq!(machine.counts.huge_pages, 2, "four frames are left, and no run");
    assert!(machine.map_huge(range(130, 131), ReadWrite).is_err());
    unmap_and_flush(&mut machine, range(101, 113));
    unmap_and_flush(&mut machine, range(120, 124));
    assert_eq!((machine.audit(), machine.leaks(), machine.faults), (vec![], vec![], vec![]));
}

#[test]
fn failed_huge_map_is_undone() {
    let mut machine = Machine::new(&options().frames(6).huge_order(2));
    let error = machine.map_huge(range(120, 127), ReadWrite).unwrap_err();
    assert_eq!((error.call, machine.page_table.len(), machine.memory.owned().count()), ("map_huge", 0, 0));
    machine.plan.fail_nth(Point::HugePage, 1);
    machine.map_huge(range(120, 124), ReadWrite).unwrap();
    assert_eq!(
        (machine.counts.huge_pages, machine.plan.fired(Point::HugePage)),
        (1, 1),
        "the one that was undone"
    );
    machine.plan.fail_nth(Point::MapHuge, 1);
    assert!(machine.map_huge(range(130, 131), ReadWrite).is_err());
    assert_eq!((machine.audit(), machine.faults), (vec![], vec![]));
}

#[test]
fn a_failing_protect_does_half() {
    let (mut machine, _) = mapped(options());
    machine.plan.fail_nth(Point::Protect, 1);
    assert!(machine.protect(HERE, range(110, 112), Read).is_err());
    let now = [110, 111].map(|page| machine.page_table.get(page).map(|entry| entry.protection));
    assert_eq!((now, machine.audit()), ([Some(Read), Some(ReadWrite)], vec![]));
}

#[test]
fn machine_without_frames_has_no_huge_pages_and_no_linear_map() {
    let sim = options().build();
    assert_eq!(
        (sim.geometry().huge_order, sim.geometry().linear_map, sim.geometry().remaps_atomically),
        (None, None, false)
    );
    let sim = options().huge_order(3).linear(1000).remaps_atomically().build();
    assert_eq!(
        (sim.geometry().huge_order, sim.geometry().linear_map, sim.geometry().remaps_atomically),
        (Some(3), PageRange::new(1000, 1016), true)
    );
}

#[test]
fn read_nofault_stops_at_unmapped_pages() {
    let sim = options().linear(1000).build();
    sim.step(|machine| machine.map(range(110, 112), Read)).unwrap();
    sim.step(|machine| machine.memory.fill(1, 0x0807_0605_0403_0201));
    let mut bytes = [0xff; 9000];
    let copied = sim.read_nofault((111 << 12) - 2, &mut bytes);
    assert_eq!((copied, &bytes[..6], bytes[copied]), (4098, &[0, 0, 1, 2, 3, 4][..], 0xff));
    assert_eq!(sim.read_nofault((111 << 12) + 4093, &mut bytes[..2]), 2);
    assert_eq!(bytes[..2], [6, 7]);
    assert_eq!((sim.read_nofault(112 << 12, &mut bytes), sim.read_nofault(usize::MAX, &mut bytes)), (0, 0));
    assert_eq!(sim.read_nofault(1001 << 12, &mut bytes), 4096, "the frame behind has nobody");
    assert_eq!(sim.faults(), []);
}

fn relocated(options: Options) -> Machine {
    let mut machine = Machine::new(&options.relocates());
    machine.map(range(110, 112), ReadWrite).unwrap();
    (0..3).for_each(|cpu| machine.write(cpu, 110, 5).unwrap());
    machine.relocate(HERE, range(110, 112), range(150, 152)).unwrap();
    machine
}

#[test]
fn relocated_pages_move_and_leave_unflushed_sources() {
    let mut machine = relocated(options());
    assert_eq!((machine.read(LAST, 150), machine.audit()), (Ok(5), vec![]));
    assert_eq!(machine.read(HERE, 110), Err(Fault::NotMapped { cpu: HERE, page: 110 }));
    assert_eq!(machine.faults, []);
    let stale = Fault::StaleAccess { cpu: THERE, page: 110, frame: 0, now: None };
    assert_eq!((machine.read(THERE, 110), &*machine.faults), (Err(stale), &[stale][..]));
    machine.faults.clear();
    unmap_and_flush(&mut machine, range(110, 112));
    machine.map(range(110, 112), ReadWrite).unwrap();
    unmap_and_flush(&mut machine, range(110, 112));
    unmap_and_flush(&mut machine, range(150, 152));
    assert_eq!((machine.audit(), machine.leaks(), machine.faults), (vec![], vec![], vec![]));
}

#[test]
fn relocation_source_is_unflushed() {
    let mut machine = relocated(options());
    machine.flush(HERE, &[range(110, 112)]).unwrap();
    assert_eq!(machine.faults, [Fault::NotUnmapped { page: 110 }]);
    let mut machine = relocated(options());
    machine.map(range(110, 111), ReadWrite).unwrap();
    assert_eq!(machine.faults[0], Fault::ReusedBeforeFlush { page: 110 });
}

#[test]
fn recycling_before_flush_of_relocation_source_is_reported() {
    let mut machine = relocated(options());
    unmap_and_flush(&mut machine, range(150, 152));
    let held = |cpu| Fault::FlushedTooLittle { frame: 0, page: 110, cpu };
    assert_eq!(machine.faults, [held(THERE), held(LAST)]);
}

#[test]
fn stale_tlb_after_flush_is_reported() {
    let mut machine = relocated(options().injected_bug(InjectedBug::ForgottenCpu));
    unmap_and_flush(&mut machine, range(110, 112));
    let alias = Fault::Aliased { frame: 0, page: 150, other: 110, cpu: Some(LAST) };
    assert_eq!(machine.audit(), [alias, Fault::FlushedTooLittle { frame: 0, page: 110, cpu: LAST }]);
}

#[test]
fn wrong_relocation_ranges_are_reported() {
    let mut machine = relocated(options());
    machine.map(range(160, 161), ReadWrite).unwrap();
    let mut fails = |from, to| machine.relocate(HERE, from, to).is_err();
    assert!(fails(range(159, 161), range(170, 172)) && fails(range(160, 161), range(170, 172)));
    assert!(!fails(range(160, 161), range(150, 151)), "it goes on as the hardware would");
    let uneven = Fault::WrongCount { range: range(170, 172), frames: 1 };
    let taken = Fault::DoubleMap { page: 150, frame: 0 };
    assert_eq!(machine.faults, [Fault::RelocatedUnmapped { page: 159 }, uneven, taken]);
}

#[test]
fn failed_relocation_changes_nothing() {
    let mut machine = Machine::new(&options().relocates());
    machine.map(range(110, 112), ReadWrite).unwrap();
    machine.plan.fail_nth(Point::Relocate, 1);
    assert!(machine.relocate(HERE, range(110, 112), range(150, 152)).is_err());
    assert_eq!((machine.frame(110), machine.frame(150), machine.audit()), (Some(0), None, vec![]));
    let mut machine = Machine::new(&options());
    let error = machine.relocate(HERE, range(110, 112), range(150, 152)).unwrap_err();
    assert_eq!((error.fault, machine.faults), (PlatformFault::Unsupported, vec![]));
}
