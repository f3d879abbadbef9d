//! Mappings of the caller's frames, and of devices.

use crate::mappings::support::{
    PAGE, devices, everywhere, everywhere_in, faults, fill, finish, forgotten, give, kind, page, pages,
    plain, shows, space, take, vunmap, write,
};
use vmalloc::{Config, Kind, MapFrames, Protection, Space};
use vmalloc_sim::{Access, Fault, Point, Sim};

const RW: Protection = Protection::ReadWrite;

#[test]
fn frame_is_the_same_at_every_address() {
    everywhere(|space| {
        let frames = take(space, 3);
        let [a, b, c] = [frames[0], frames[1], frames[2]];
        let four = space.raw().map(&[a, b, a, c], RW, None).expect("room");
        let one = space.raw().map(&[a], RW, None).expect("room");
        [(0, 7), (1, 8), (3, 9)].into_iter().for_each(|(nth, word)| write(space, four, nth, word));
        shows(space, four, &[7, 8, 7, 9]);
        shows(space, one, &[7]);
        write(space, one, 0, 5);
        shows(space, four, &[5, 8, 5, 9]);
        vunmap(space, four);
        shows(space, one, &[5]);
        vunmap(space, one);
        give(space, &frames);
    });
}

#[test]
fn a_guard_page_follows_and_faults_on_every_cpu() {
    everywhere(|space| {
        let frames = take(space, 3);
        let addr = space.raw().map(&frames, RW, Some("guarded")).expect("room");
        fill(space, addr, 3);
        faults(space, addr + 3 * PAGE, 1);
        let area = space.find(addr + 3 * PAGE).expect("the guard is the area's");
        assert_eq!((area.addr, area.bytes, area.pages, area.guard), (addr, 3 * PAGE, 3, true));
        assert_eq!((area.kind, area.tag), (Kind::Vmap, Some("guarded".into())));
        vunmap(space, addr);
        give(space, &frames);
    });
}

#[test]
fn without_guards_there_is_none() {
    let space = space(plain(64, 2), Config::default().guard(false));
    let frames = take(&space, 64);
    let addr = space.raw().map(&frames[..32], RW, None).expect("the upper half");
    let rest = space.raw().map(&frames[32..], RW, None).expect("the lower half");
    assert_eq!(space.stats().free_pages, 0);
    assert_eq!([addr, rest].map(|addr| space.find(addr).map(|area| area.guard)), [Some(false); 2]);
    [addr, rest].into_iter().for_each(|addr| vunmap(&space, addr));
    give(&space, &frames);
    finish(&space);
}

#[test]
fn frames_may_be_given_back_as_soon_as_their_area_is_unmapped() {
    everywhere(|space| {
        let frames = take(space, 5);
        let addr = space.raw().map(&frames, RW, None).expect("room");
        fill(space, addr, 5);
        vunmap(space, addr);
        give(space, &frames);
        // Others have them now, at other addresses.
        let again = take(space, 5);
        let other = space.raw().map(&again, RW, None).expect("room");
        fill(space, other, 5);
        vunmap(space, other);
        give(space, &again);
    });
}

#[test]
fn no_tlb_holds_unmapped_pages_after_flush_or_purge() {
    let calls: [fn(&Space<Sim>); 2] =
        [|space| space.flush().expect("nothing fails"), |space| space.purge().expect("nothing fails")];
    for call in calls {
        everywhere(|space| {
            let frames = take(space, 4);
            let addr = space.raw().map(&frames, RW, None).expect("room");
            fill(space, addr, 4);
            Sim::run_on(1);
            vunmap(space, addr);
            call(space);
            forgotten(space, addr, 5);
            give(space, &frames);
        });
    }
}

#[test]
fn addresses_are_flushed_before_they_are_mapped_again() {
    everywhere_in(64, |space| {
        let frames = take(space, 8);
        for round in 0..60 {
            Sim::run_on(round);
            let count = 1 + round % 7;
            let addr = space.raw().map(&frames[..count], RW, None).expect("a purge makes room");
            fill(space, addr, count);
            space.platform().prefetch(round % space.geometry().cpus, pages(addr, count + 1));
            Sim::run_on(round + 1);
            vunmap(space, addr);
        }
        give(space, &frames);
    });
}

#[test]
fn protection_denies_other_accesses() {
    everywhere(|space| {
        let frames = take(space, 2);
        for protection in [Protection::Read, Protection::ReadExecute] {
            let addr = space.raw().map(&frames, protection, None).expect("room");
            let denied = Fault::Denied { cpu: 0, page: page(addr), access: Access::Write, protection };
            assert_eq!(space.platform().write(0, page(addr), 1), Err(denied));
            assert!(space.platform().read(0, page(addr)).is_ok());
            vunmap(space, addr);
        }
        give(space, &frames);
    });
}

#[test]
fn device_memory_is_mapped_as_such() {
    everywhere(|space| {
        let device = devices(3);
        let [first, second] =
            [None, Some("again")].map(|tag| space.raw().map_device(&device, RW, tag).expect("room"));
        let words = fill(space, first, 3);
        shows(space, second, &words);
        faults(space, first + 3 * PAGE, 1);
        assert_eq!(kind(space, second), Some(Kind::IoMap));
        vunmap(space, first);
        shows(space, second, &words);
        vunmap(space, second);
        space.flush().expect("nothing fails");
        forgotten(space, second, 3);
    });
}

#[test]
fn map_purges_when_mappings_run_out() {
    everywhere(|space| {
        let frames = take(space, 2);
        let first = space.raw().map(&frames, RW, None).expect("room");
        fill(space, first, 2);
        vunmap(space, first);
        space.platform().fail_nth(Point::MapFrames, 1);
        let second = space.raw().map(&frames, RW, None).expect("the second try is not made to fail");
        forgotten(space, first, usize::from(first != second) * 2);
        fill(space, second, 2);
        vunmap(space, second);
        give(space, &frames);
    });
}

#[test]
fn mappings_and_memory_share_one_span() {
    everywhere_in(64, |space| {
        let frames = take(space, 20);
        let mut areas = Vec::new();
        while let Ok(addr) = space.raw().map(&frames[..3], RW, None) {
            areas.push(addr);
        }
        assert!(areas.len() >= 15, "{} areas", areas.len());
        let last = areas.pop().expect("some");
        vunmap(space, last);
        let memory = space.raw().alloc(&vmalloc::Request::new(3 * PAGE)).expect("a purge makes room");
        assert_eq!(kind(space, memory), Some(Kind::Vmalloc));
        assert_eq!(space.platform().frame_at(page(memory)), None);
        fill(space, memory, 3);
        crate::mappings::support::free(space, memory);
        areas.into_iter().for_each(|addr| vunmap(space, addr));
        give(space, &frames);
    });
}
