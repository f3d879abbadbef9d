//! The supply of frames: who has which, what they hold, and where it ends.

use crate::common::*;
use std::collections::BTreeSet;
use std::sync::Mutex;
use vmalloc::{Frame, FrameSupply, MapFrames, Origin, Platform, PlatformFault, Protection};
use vmalloc_linux::{Linux, LinuxOptions, SpaceOptions};

fn span() -> usize {
    page_bytes() << 14
}
/// The memory that given-back frames may keep, in pages, see `frames/supply.rs`.
fn most_kept() -> u64 {
    (64 << 20) / page_bytes() as u64
}

fn with_frames(pages: usize) -> Linux {
    reserved(LinuxOptions::new().max_bytes(span()).frame_bytes(pages * page_bytes()))
}

/// Pages of memory behind the linear map, as the kernel counts them.
fn backed_pages(linux: &Linux) -> u64 {
    let first = page_ptr(linux, linux.geometry().linear_map.unwrap().start());
    told_bytes(&smaps_at(first.addr()), "Rss:") as u64 / page_bytes() as u64
}

#[test]
fn every_frame_can_be_taken_once_and_comes_back() {
    let linux = with_frames(5000);
    assert_eq!(linux.geometry().linear_map.unwrap().len(), 5000);
    for _ in 0..2 {
        let (some, rest) = (take(&linux, 1234), take(&linux, 5000 - 1234));
        let all: BTreeSet<_> = some.iter().chain(&rest).copied().collect();
        assert_eq!(all, (0..5000).map(Frame).collect());
        let mut one = [Frame(7)];
        let refused = linux.take_frames(&mut one).unwrap_err();
        assert_eq!(refused.fault, PlatformFault::OutOfMemory);
        assert!(linux.take_run(1, 1).is_err());
        give(&linux, &some);
        let mut too_many = vec![Frame(0); 1235];
        assert!(linux.take_frames(&mut too_many).is_err(), "all or none");
        assert!(some.iter().all(|frame| linux.origin(*frame) == Origin::Foreign));
        assert!(rest.iter().all(|frame| linux.origin(*frame) == Origin::Supply));
        give(&linux, &rest);
    }
    assert_eq!(linux.origin(Frame(5000)), Origin::Foreign);
    assert_eq!(linux.origin(Frame(u64::MAX)), Origin::Foreign);
    linux.take_frames(&mut []).unwrap();
}

#[test]
fn runs_that_can_t_be_had_are_refused() {
    let linux = with_frames(1 << 14);
    // The first, which is aligned to everything.
    let _taken = take(&linux, 1);
    let refused = |count, align| linux.take_run(count, align).unwrap_err().fault;
    for (count, align) in [(1 << 14, 1), (u64::MAX, 1), (1, 1 << 63)] {
        assert_eq!(refused(count, align), PlatformFault::OutOfMemory);
    }
    for (count, align) in [(0, 1), (1, 0), (1, 3)] {
        assert_eq!(refused(count, align), PlatformFault::Other);
    }
}

/// The first run that does, always, against a list of what is taken.
#[test]
fn the_lowest_run_is_found_whatever_came_and_went() {
    const FRAMES: u64 = 3000;
    let linux = with_frames(FRAMES as usize);
    let mut taken = vec![false; FRAMES as usize];
    let mut seed = vmalloc_harness::env::seed(20_261_125);
    eprintln!("VMALLOC_SEED={seed}");
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for _ in 0..10_000 {
        let (count, align) = (1 + random(30), 1 << random(5));
        let fits = |start: &u64| (*start..start + count).all(|frame| !taken[frame as usize]);
        let first = (0..=FRAMES - count).step_by(align as usize).find(fits);
        assert_eq!(linux.take_run(count, align).ok(), first.map(Frame));
        if let Some(first) = first {
            taken[first as usize..(first + count) as usize].fill(true);
        }
        let (start, most) = (random(FRAMES), random(40) as usize);
        let gone: Vec<_> =
            (start..FRAMES).filter(|frame| taken[*frame as usize]).take(most).map(Frame).collect();
        gone.iter().for_each(|frame| taken[frame.0 as usize] = false);
        give(&linux, &gone);
    }
}

#[test]
fn frames_come_consecutive_while_there_are_some() {
    let linux = with_frames(4096);
    let frames = take(&linux, 1000);
    assert!(frames.is_sorted_by(|first, next| next.0 == first.0 + 1));
    // Those given back last are not forgotten, although others were never used.
    give(&linux, &frames[100..200]);
    assert_eq!(take(&linux, 100), frames[100..200]);
}

#[test]
fn given_frames_keep_memory_up_to_the_budget() {
    let linux = with_frames(4 * most_kept() as usize);
    for _ in 0..2 {
        let frames = take(&linux, 3 * most_kept() as usize);
        frames.iter().for_each(|frame| set_frame(&linux, *frame, 1));
        assert_eq!(backed_pages(&linux), 3 * most_kept());
        for part in frames.chunks(1000) {
            give(&linux, part);
        }
        assert_eq!(backed_pages(&linux), most_kept());
    }
    // Frames given back to the machine come back as zeros, kept ones as they were; all count again.
    let frames = take(&linux, 2 * most_kept() as usize);
    let kept = frames.iter().filter(|frame| frame_value(&linux, **frame) == 1).count();
    assert_eq!(kept as u64, most_kept());
    give(&linux, &frames);
    assert_eq!(backed_pages(&linux), most_kept());
}

#[test]
fn without_a_supply_frames_are_unsupported() {
    let linux = with_frames(0);
    assert_eq!(linux.geometry().linear_map, None);
    assert_eq!(linux.take_frames(&mut [Frame(0)]).unwrap_err().fault, PlatformFault::Unsupported);
    assert_eq!(linux.take_run(1, 1).unwrap_err().fault, PlatformFault::Unsupported);
    assert_eq!(linux.origin(Frame(0)), Origin::Foreign);
    // SAFETY: the test owns the range; there are no frames.
    let refused = unsafe { linux.map_frames(pages(&linux, 0, 1), &[Frame(0)], Protection::ReadWrite) };
    assert_eq!(refused.unwrap_err().fault, PlatformFault::Unsupported);
    map(&linux, pages(&linux, 0, 1));
    let odd =
        Linux::reserve(LinuxOptions::new().max_bytes(span()).frame_bytes(5000), &SpaceOptions::default());
    assert!(odd.is_err());
}

#[test]
fn threads_never_get_the_same_frame() {
    let linux = with_frames(20_000);
    let owners = Mutex::new(vec![0_u8; 20_000]);
    std::thread::scope(|scope| {
        for thread in 1..=4_u8 {
            let (linux, owners) = (&linux, &owners);
            scope.spawn(move || {
                for round in 0..200 {
                    let mut frames = take(linux, 1 + (round * 7 + usize::from(thread)) % 90);
                    if let Ok(first) = linux.take_run(9, 4) {
                        frames.extend((0..9).map(|index| first.plus(index)));
                    }
                    for frame in &frames {
                        let before = std::mem::replace(&mut owners.lock().unwrap()[frame.0 as usize], thread);
                        assert_eq!(before, 0);
                        set_frame(linux, *frame, thread);
                    }
                    for frame in &frames {
                        assert_eq!(frame_value(linux, *frame), thread);
                        owners.lock().unwrap()[frame.0 as usize] = 0;
                    }
                    give(linux, &frames);
                }
            });
        }
    });
    assert_eq!(take(&linux, 20_000).len(), 20_000);
}

/// A child shares what was taken before it, and only that.
#[test]
fn a_child_takes_frames_of_its_own() {
    in_own_process(|| {
        let linux = with_frames(10_000);
        let before = take(&linux, 20);
        let (window, other) = (pages(&linux, 3, 20), pages(&linux, 40, 20));
        map_frames(&linux, window, &before);
        fill(&linux, window, 1);
        let half = before[10..].to_vec();
        in_forked_child(|| {
            assert_reads(&linux, window, 1);
            // Given back before anything is taken: the parent's frames are left alone.
            give(&linux, &before[..5]);
            assert_eq!(linux.origin(before[0]), Origin::Foreign);
            assert_eq!(linux.origin(before[6]), Origin::Supply);
            let own = take(&linux, 10_000 - 20);
            assert!(own.iter().all(|frame| !before.contains(frame)));
            assert!(linux.take_run(1, 1).is_err());
            map_frames(&linux, other, &own[..20]);
            fill(&linux, other, 9);
            assert_eq!(frame_value(&linux, own[3]), 9);
            // Shared frames can be mapped on, and the parent sees them.
            map_frames(&linux, pages(&linux, 80, 10), &half);
            fill(&linux, pages(&linux, 80, 10), 5);
            assert_reads(&linux, pages(&linux, 13, 10), 5);
            // A child of the child.
            in_forked_child(|| {
                assert_reads(&linux, other, 9);
                assert!(linux.take_run(1, 1).is_err());
                give(&linux, &own);
                assert!(linux.take_run(1, 1).is_err());
                true
            });
            give(&linux, &own[100..]);
            in_forked_child(|| linux.take_run(1, 1).is_err());
            linux.do_unmap(&[window, other]).unwrap();
            assert_traps(&linux, other);
            true
        });
        assert_reads(&linux, pages(&linux, 3, 10), 1);
        assert_reads(&linux, pages(&linux, 13, 10), 5);
        let after = take(&linux, 2000);
        assert!(
            after.iter().all(|frame| frame_value(&linux, *frame) == 0),
            "the child's writes are the child's"
        );
        map_frames(&linux, other, &after[..20]);
        assert_reads(&linux, other, 0);
        give(&linux, &before);
        assert_eq!(take(&linux, 20), before);
    });
}

/// A window that shows frames of an ancestor's file, and then of the child's own, which is another.
#[test]
fn a_child_maps_its_own_frames_over_an_ancestor_s_and_back() {
    in_own_process(|| {
        let linux = with_frames(1000);
        let (before, window) = (scattered_frames(&linux, 8), pages(&linux, 3, 8));
        let values = |frames: &[Frame], first: u8| {
            frames.iter().zip(first..).for_each(|(frame, value)| set_frame(&linux, *frame, value));
        };
        values(&before, 1);
        let shows = |frames: &[Frame], first: u8| {
            map_frames(&linux, window, frames);
            let all: Vec<_> = (window.start()..window.end()).map(|page| peek(&linux, page)).collect();
            assert_eq!(all, (first..first + 8).map(Some).collect::<Vec<_>>());
        };
        shows(&before, 1);
        in_forked_child(|| {
            // Nothing of its own yet: the numbers are the parent's.
            map_frames(&linux, window, &before[..1].repeat(8));
            assert_reads(&linux, window, 1);
            shows(&before, 1);
            true
        });
        in_forked_child(|| {
            let own = scattered_frames(&linux, 16);
            values(&own, 101);
            shows(&own[..8], 101);
            shows(&own[8..], 109);
            shows(&before, 1);
            shows(&own[4..12], 105);
            fill(&linux, window, 50);
            own[4..12].iter().all(|frame| frame_value(&linux, *frame) == 50)
        });
        shows(&before, 1);
    });
}

#[test]
fn a_fork_while_others_take_and_map_leaves_a_working_child() {
    in_own_process(|| {
        let linux = with_frames(100_000);
        let take_and_map = |at: u64| {
            let (frames, range) = (scattered_frames(&linux, 20), pages(&linux, at, 20));
            map_frames(&linux, range, &frames);
            linux.do_unmap(&[range]).unwrap();
            give(&linux, &frames);
        };
        forks_amid(50, &[&|| take_and_map(0), &|| take_and_map(100), &|| take_and_map(200)], || {
            let (frames, range) = (scattered_frames(&linux, 100), pages(&linux, 5000, 100));
            map_frames(&linux, range, &frames);
            fill(&linux, range, 3);
            linux.do_unmap(&[range]).unwrap();
            frames.iter().all(|frame| frame_value(&linux, *frame) == 3)
        });
    });
}
