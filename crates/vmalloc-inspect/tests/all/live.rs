//! A look into a live process.

use crate::common::{Subject, rows_bytes};
use std::process::Command;
use vmalloc_harness::not_run;
use vmalloc_inspect::{AreaState, InspectError, Place, Position, Process, Source, Target};
use vmalloc_linux::{GuardMeans, LinuxOptions, Request, SpaceOptions, open, page_bytes};

fn place(target: &Target<'_>, addr: u64) -> Place {
    target.explain(addr).expect("it is read").place.expect("it is in the space")
}

fn tag(place: &Place) -> Option<&str> {
    place.segment.tag.as_deref()
}

#[test]
fn areas_guards_free_ranges_and_freed_areas_are_told() {
    let subject = Subject::start("still");
    let process = Process::open(subject.pid()).expect("a process");
    let target = Target::find(&process).expect("it is read");
    let (rows, page) = (subject.addr("rows"), page_bytes() as u64);
    let within = rows_bytes() as u64 + 1;
    let found = place(&target, rows + 500);
    assert!(found.is_settled && found.is_whole);
    assert_eq!((found.segment.state, tag(&found)), (AreaState::Busy, Some("rows")));
    assert_eq!((found.segment.addr, found.segment.bytes, found.segment.record), (rows, 25 * page, 0));
    assert_eq!(found.position, Position::Inside(500));
    let residency = found.residency.expect("the system tells");
    assert_eq!((residency.resident, residency.pages), (25, 25), "all of it was written");
    assert_eq!(place(&target, rows + within).position, Position::Inside(within));
    let guard = place(&target, rows + 25 * page + 3);
    assert_eq!((guard.position, tag(&guard)), (Position::Guard(3), Some("rows")));
    let plain = place(&target, subject.addr("plain"));
    assert_eq!((plain.segment.bytes, tag(&plain), plain.segment.guard_bytes), (3 * page, None, page));
    assert_eq!(place(&target, subject.addr("behind")).segment.record, 0xc00c1e);
    let dense = place(&target, subject.addr("dense"));
    assert_eq!((dense.segment.guard_bytes, dense.segment.end - dense.segment.addr), (0, page));
    let free = place(&target, found.span[1] - 1);
    assert_eq!((free.segment.state, free.behind), (AreaState::Free, None));
    let columns = place(&target, subject.addr("columns"));
    let beside = columns.before.expect("one before");
    assert_eq!((beside.segment.tag.as_deref(), beside.distance), (Some("columns"), page));
    for name in ["cached", "large"] {
        let found = place(&target, subject.addr(name));
        assert_eq!((found.segment.state, tag(&found)), (AreaState::Cached, None), "{name}");
    }
    let tally = target.spaces().expect("a space")[0].snapshot().expect("it is read").tally();
    assert_eq!((tally.busy.areas, tally.cached.areas, tally.between.areas), (7, 2, 0));
    let tags: Vec<_> = tally.tags.iter().map(|tag| (tag.tag.as_deref(), tag.areas, tag.bytes)).collect();
    assert_eq!(tags[0], (Some("rows"), 1, 25 * page));
    assert!(
        tags.contains(&(Some("columns"), 3, 6 * page)) && tags.contains(&(None, 1, 3 * page)),
        "{tags:?}"
    );
    let all = tally.busy.bytes + tally.cached.bytes + tally.pooled.bytes + tally.free.bytes;
    assert_eq!(all, tally.span[1] - tally.span[0], "every page has one state");
}

#[test]
fn a_space_of_many_areas_is_read_whole() {
    let subject = Subject::start("many");
    let process = Process::open(subject.pid()).expect("a process");
    let target = Target::find(&process).expect("it is read");
    let tally = target.spaces().expect("a space")[0].snapshot().expect("it is read").tally();
    assert_eq!((tally.busy.areas, tally.is_settled, tally.is_whole), (5001, true, true));
    let areas = |tag: &str| {
        tally.tags.iter().find(|found| found.tag.as_deref() == Some(tag)).map(|found| found.areas)
    };
    assert_eq!((areas("even"), areas("odd"), areas("far")), (Some(5000), None, Some(1)));
    assert_eq!(tag(&place(&target, subject.addr("far"))), Some("far"));
    assert_ne!(place(&target, subject.addr("second")).segment.state, AreaState::Busy);
    assert_eq!(place(&target, subject.addr("lazy")).segment.state, AreaState::Lazy);
    assert_eq!((tally.purges, tally.purged_areas, tally.lazy.areas), (1, 5000, 5000));
}

#[test]
fn a_space_that_changes_all_the_time_is_read() {
    let subject = Subject::start("busy");
    let process = Process::open(subject.pid()).expect("a process");
    let (mut read, mut settled) = (0, 0);
    for _ in 0..50 {
        let target = Target::find(&process).expect("it is read");
        match target.explain(subject.addr("stays") + 7) {
            Ok(found) => {
                let found = found.place.expect("it is in the space");
                assert_eq!((tag(&found), found.position), (Some("stays"), Position::Inside(7)));
                (read, settled) = (read + 1, settled + u32::from(found.is_settled));
            }
            Err(InspectError::Damaged { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    println!("of 50 looks {read} told the area, {settled} of one moment");
    assert_ne!(read, 0);
}

#[test]
fn recorded_frees_are_told_and_others_are_not() {
    for (role, count) in [("traps", Some(1)), ("still", None)] {
        let subject = Subject::start(role);
        let process = Process::open(subject.pid()).expect("a process");
        let target = Target::find(&process).expect("it is read");
        assert_eq!(target.recorded_frees().expect("it is read"), count, "{role}");
        let found = target.explain(subject.addr("rows") + 16).expect("it is read");
        assert_eq!(found.freed.is_some(), count.is_some());
        if let Some(freed) = found.freed {
            let place = found.place.expect("it is in the space");
            assert_ne!(place.segment.state, AreaState::Busy);
            assert_eq!((freed.addr, freed.bytes), (subject.addr("rows"), 65_536));
            assert_eq!((freed.tag.as_deref(), freed.thread != 0), (Some("freed rows"), true));
            assert!(freed.milliseconds_ago.is_some());
        }
        subject.end();
        assert!(target.recorded_frees().is_err(), "it has ended");
    }
}

#[test]
fn processes_that_can_not_be_read_have_their_own_errors() {
    let bare = Subject::start("bare");
    let process = Process::open(bare.pid()).expect("a process");
    let found = Target::find(&process).expect("it is read");
    assert_eq!(found.spaces().map(<[_]>::len), Err(InspectError::NoSpace));
    bare.end();
    let subject = Subject::start("still");
    let process = Process::open(subject.pid()).expect("a process");
    let (pid, rows) = (subject.pid(), subject.addr("rows"));
    let target = Target::find(&process).expect("it is read");
    subject.end();
    assert_eq!(target.explain(rows).map(|_| ()), Err(InspectError::Ended { pid }));
    assert_eq!(process.counters().map(|_| ()), Err(InspectError::Ended { pid }));
    assert_eq!(process.read_at(rows, &mut [0; 8]), Err(InspectError::Ended { pid }));
    assert_eq!(Process::open(pid).map(|_| ()), Err(InspectError::NoProcess { pid }));
    let mut zombie = Command::new("true").spawn().expect("a child");
    let pid = zombie.id() as i32;
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z ")) {
        std::thread::yield_now();
    }
    let refused = Process::open(pid).map(|_| ());
    assert!(
        matches!(
            refused,
            Err(InspectError::NoMemory { .. }
                | InspectError::NoPermission { .. }
                | InspectError::Ended { .. })
        ),
        "{refused:?}"
    );
    zombie.wait().expect("its end");
}

/// The kernel tells of a guard mark as of a page in swap.
#[test]
fn pages_with_guard_marks_are_closed_and_not_in_swap() {
    let options = LinuxOptions::new().max_bytes(1 << 30).guard_means(GuardMeans::PteMarkers);
    let Ok(space) = open(options, SpaceOptions::default().unmap_on_free()) else {
        return not_run("pages_with_guard_marks_are_closed_and_not_in_swap", "the kernel has none");
    };
    let [first, second] =
        [(); 2].map(|()| space.raw().alloc(&Request::new(28 * page_bytes())).expect("room"));
    for nth in 0..28 * page_bytes() {
        // SAFETY: the area is the test's.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(first + nth).write(1) };
    }
    let process = Process::open(std::process::id() as i32).expect("this one");
    let residency = |addr: usize| {
        let place = place(&Target::find(&process).expect("it is read"), addr as u64);
        place.residency.map(|found| (found.resident, found.swapped, found.closed, found.pages))
    };
    assert_eq!(residency(first), Some((28, 0, 0, 28)));
    // SAFETY: nothing uses it.
    unsafe { space.raw().free(first) }.expect("it is freed");
    let _ = space.drain().expect("the kernel agrees");
    assert_eq!(residency(first), Some((0, 0, 28, 28)));
    assert_eq!(residency(second), Some((0, 0, 0, 28)), "never touched");
}
