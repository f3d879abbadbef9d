//! Frames: the supply, and pages that lead to given frames.

use super::Clause;
use crate::bench::{Bench, Verdict, done, ensure, word};
use std::collections::BTreeSet;
use vmalloc::{Frame, FrameRun, FrameSupply, MapFrames, Origin, PageRange, Protection};

pub(crate) fn supply<P: FrameSupply>() -> Vec<Clause<P>> {
    vec![
        Clause { promise: "take_frames(): no frame is handed out twice", check: distinct },
        Clause { promise: "take_run(): frames are consecutive, the first is aligned", check: run },
        Clause { promise: "origin(): taken frames are the supply's, others are not", check: origin },
    ]
}

pub(crate) fn frames<P: MapFrames>() -> Vec<Clause<P>> {
    vec![
        Clause {
            promise: "map_frames(): two pages that lead to one frame show the same bytes",
            check: aliases,
        },
        Clause { promise: "map_frames(): page i of the range leads to frame i", check: order },
        Clause { promise: "frame_at() tells the pages that map_frames mapped", check: told },
        Clause { promise: "unmap(): frames keep their bytes and their owner", check: survive },
        Clause { promise: "discard_hint(): no other page changes, and unmap may follow", check: discarded },
        Clause { promise: "map_runs(): page i of the range leads to frame i of the runs", check: runs },
        Clause {
            promise: "map_runs(): a part of a huge run can be unmapped and mapped again",
            check: huge_runs,
        },
        Clause { promise: "Geometry::remaps_atomically: a mapping replaces the old one", check: replaced },
        Clause { promise: "Geometry::linear_map: page n shows frame n", check: linear },
        Clause { promise: "map_frames() with Protection::Read: the bytes can be read", check: readable },
    ]
}

pub(super) fn take<P: FrameSupply>(bench: &Bench<'_, P>, count: usize) -> Result<Vec<Frame>, String> {
    let mut frames = vec![Frame(u64::MAX); count];
    done("take_frames", count, bench.platform.take_frames(&mut frames))?;
    Ok(frames)
}

fn give<P: FrameSupply>(bench: &Bench<'_, P>, frames: &[Frame]) {
    // SAFETY: the caller has taken them, and no page leads to them any more.
    unsafe { bench.platform.give_frames(frames) };
}

pub(super) fn map<P: MapFrames>(bench: &Bench<'_, P>, range: PageRange, frames: &[Frame]) -> Verdict {
    let protection = Protection::ReadWrite;
    // SAFETY: the kit owns the whole span, and has taken the frames.
    done("map_frames", range, unsafe { bench.platform.map_frames(range, frames, protection) })
}

fn distinct<P: FrameSupply>(bench: &Bench<'_, P>) -> Verdict {
    for _ in 0..3 {
        let (one, other) = (take(bench, 40)?, take(bench, 1)?);
        let all: BTreeSet<_> = one.iter().chain(&other).collect();
        ensure(all.len() == 41, || format!("{} frames of 41: {one:?}, {other:?}", all.len()))?;
        give(bench, &one);
        give(bench, &other);
    }
    Ok(())
}

fn run<P: FrameSupply>(bench: &Bench<'_, P>) -> Verdict {
    let single = take(bench, 1)?;
    for (count, align) in [(1, 1), (7, 1), (8, 8), (3, 16)] {
        let Ok(first) = bench.platform.take_run(count, align) else {
            bench.not_seen("runs of frames: the supply refused a short one");
            continue;
        };
        let frames: Vec<_> = (0..count).map(|nth| first.plus(nth)).collect();
        ensure(first.0.is_multiple_of(align), || format!("{first:?} is no multiple of {align}"))?;
        ensure(!frames.contains(&single[0]), || format!("{:?} is taken already", single[0]))?;
        ensure(bench.platform.are_taken(first, count), || format!("{frames:?} are not all the supply's"))?;
        give(bench, &frames);
    }
    give(bench, &single);
    Ok(())
}

fn origin<P: FrameSupply>(bench: &Bench<'_, P>) -> Verdict {
    let frames = take(bench, 20)?;
    let other = frames.iter().find(|&&frame| bench.platform.origin(frame) != Origin::Supply);
    ensure(other.is_none(), || format!("{other:?} was taken, and is not the supply's"))?;
    let wild = Frame(u64::MAX - 1);
    ensure(bench.platform.origin(wild) != Origin::Supply, || format!("{wild:?} is the supply's"))?;
    ensure(!bench.platform.are_taken(wild, 2), || format!("two frames from {wild:?} on are the supply's"))?;
    give(bench, &frames);
    Ok(())
}

fn aliases<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let frames = take(bench, 12)?;
    let (one, other) = (bench.pages(4, 12), bench.pages(200, 12));
    map(bench, one, &frames)?;
    map(bench, other, &frames)?;
    for (from, to, seed) in [(one, other, 1), (other, one, 2)] {
        bench.write(from, seed);
        bench.shows_those(to, from.start(), seed)?;
    }
    Ok(())
}

fn order<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let frames = take(bench, 10)?;
    let (one, other) = (bench.pages(4, 10), bench.pages(100, 10));
    map(bench, one, &frames)?;
    bench.write(one, 1);
    // Page by page, and from the other end: a wrong order of the first mapping shows.
    for (nth, frame) in frames.iter().rev().enumerate() {
        map(bench, bench.pages(100 + nth as u64, 1), std::slice::from_ref(frame))?;
    }
    (0..10).try_for_each(|nth| bench.shows(other.start() + nth, word(one.end() - 1 - nth, 1)))
}

fn told<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let (frames, range, all) = (take(bench, 6)?, bench.pages(40, 6), bench.pages(0, 300));
    let first = || (all.start()..all.end()).find(|&page| bench.platform.frame_at(page).is_some());
    ensure(first().is_none(), || format!("page {:x?} leads to a frame at the start", first()))?;
    bench.map(bench.pages(10, 3))?;
    map(bench, range, &frames)?;
    for (page, &frame) in (range.start()..).zip(&frames) {
        let told = bench.platform.frame_at(page);
        ensure(told == Some(frame), || format!("frame_at({page:#x}) is {told:?}, not {frame:?}"))?;
    }
    for page in [bench.pages(10, 1).start(), range.start() - 1, range.end()] {
        let told = bench.platform.frame_at(page);
        ensure(told.is_none(), || format!("frame_at({page:#x}) is {told:?}, where none was mapped"))?;
    }
    bench.unmap_and_flush(&[range])?;
    ensure(first().is_none(), || format!("page {:x?} leads to a frame after unmap", first()))
}

fn survive<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let frames = take(bench, 8)?;
    let (one, other) = (bench.pages(4, 8), bench.pages(60, 8));
    map(bench, one, &frames)?;
    bench.write(one, 1);
    bench.unmap_and_flush(&[one])?;
    bench.leads_nowhere(one)?;
    let lost = frames.iter().find(|&&frame| bench.platform.origin(frame) != Origin::Supply);
    ensure(lost.is_none(), || format!("{lost:?} is no longer taken"))?;
    let more = take(bench, 20)?;
    let twice = more.iter().find(|frame| frames.contains(frame));
    ensure(twice.is_none(), || format!("{twice:?} is handed out again"))?;
    map(bench, other, &frames)?;
    bench.shows_those(other, one.start(), 1)
}

fn discarded<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let (frames, all) = (take(bench, 9)?, bench.pages(4, 9));
    map(bench, all, &frames)?;
    bench.write(all, 1);
    // SAFETY: the kit owns the range, which was mapped by `map_frames`.
    unsafe { bench.platform.discard_hint(bench.pages(7, 3)) };
    bench.holds(bench.pages(4, 3), 1)?;
    bench.holds(bench.pages(10, 3), 1)?;
    bench.unmap_and_flush(&[bench.pages(7, 3)])?;
    bench.leads_nowhere(bench.pages(7, 3))?;
    map(bench, bench.pages(7, 3), &frames[3..6])?;
    bench.holds(all, 1)
}

/// Maps `runs`, and checks that the pages lead to their frames.
fn map_runs<P: MapFrames>(bench: &Bench<'_, P>, range: PageRange, runs: &[FrameRun]) -> Verdict {
    let protection = Protection::ReadWrite;
    // SAFETY: the kit owns the whole span, and has taken the frames.
    done("map_runs", range, unsafe { bench.platform.map_runs(range, runs, protection) })?;
    check_leads(bench, range, &runs.iter().flat_map(|run| run.frames()).collect::<Vec<_>>())
}

fn check_leads<P: MapFrames>(bench: &Bench<'_, P>, range: PageRange, frames: &[Frame]) -> Verdict {
    (range.start()..).zip(frames).try_for_each(|(page, &frame)| {
        let told = bench.platform.frame_at(page);
        ensure(told == Some(frame), || format!("frame_at({page:#x}) is {told:?}, not {frame:?}"))
    })
}

fn runs<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let Ok(first) = bench.platform.take_run(9, 1) else {
        bench.not_seen("runs of frames: the supply refused a short one");
        return Ok(());
    };
    let run = |from, count| FrameRun { first: first.plus(from), count };
    let (range, other) = (bench.pages(4, 9), bench.pages(100, 9));
    map_runs(bench, range, &[run(6, 3), run(0, 1), run(1, 5)])?;
    bench.write(range, 1);
    map_runs(bench, other, &[run(0, 9)])?;
    let places = [3, 4, 5, 6, 7, 8, 0, 1, 2];
    (other.start()..)
        .zip(places)
        .try_for_each(|(page, place)| bench.shows(page, word(range.start() + place, 1)))?;
    bench.unmap_and_flush(&[range, other])?;
    bench.leads_nowhere(range)
}

fn huge_runs<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let (span, size) = (bench.geometry.span, 1 << bench.geometry.huge_order.unwrap_or(4));
    let start = span.start().next_multiple_of(size);
    let range = PageRange::from_len(start, size).filter(|range| span.covers(range));
    let (Some(range), Ok(first)) = (range, bench.platform.take_run(size, size)) else {
        bench.not_seen("huge runs of frames: too few frames or pages");
        return Ok(());
    };
    let run = FrameRun { first, count: size };
    let frames: Vec<_> = run.frames().collect();
    map_runs(bench, range, &[run])?;
    bench.write(range, 1);
    let (part, at) = (PageRange::from_len(start + 5, 3).expect("pages"), 5..8);
    bench.unmap_and_flush(&[part])?;
    bench.leads_nowhere(part)?;
    check_leads(bench, range, &frames[..5])?;
    let rest = PageRange::new(part.end(), range.end()).expect("pages");
    check_leads(bench, rest, &frames[8..])?;
    map(bench, part, &frames[at])?;
    bench.holds(range, 1)
}

fn replaced<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    if !bench.geometry.remaps_atomically {
        return Ok(());
    }
    let (frames, range, other) = (take(bench, 12)?, bench.pages(4, 6), bench.pages(90, 6));
    map(bench, range, &frames[..6])?;
    bench.write(range, 1);
    bench.holds(range, 1)?;
    map(bench, range, &frames[6..])?;
    bench.write(range, 2);
    bench.holds(range, 2)?;
    map(bench, other, &frames[..6])?;
    bench.shows_those(other, range.start(), 1)
}

fn linear<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let Some(linear) = bench.geometry.linear_map else { return Ok(()) };
    let (frames, range) = (take(bench, 6)?, bench.pages(4, 6));
    map(bench, range, &frames)?;
    bench.write(range, 1);
    for (page, frame) in (range.start()..).zip(&frames).filter(|(_, frame)| frame.0 < linear.len()) {
        bench.shows(linear.start() + frame.0, word(page, 1))?;
    }
    Ok(())
}

fn readable<P: MapFrames>(bench: &Bench<'_, P>) -> Verdict {
    let (frames, range, other) = (take(bench, 5)?, bench.pages(4, 5), bench.pages(30, 5));
    map(bench, range, &frames)?;
    bench.write(range, 1);
    // SAFETY: the kit owns the whole span, and has taken the frames.
    done("map_frames", other, unsafe { bench.platform.map_frames(other, &frames, Protection::Read) })?;
    bench.shows_those(other, range.start(), 1)
}
