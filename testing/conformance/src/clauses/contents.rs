//! Zero means zero: whatever the pages are, however large the range, by each way to clear it.

use super::Clause;
use super::frames::{map, take};
use crate::bench::{Bench, Verdict, done};
use vmalloc::{Discard, MapFrames, PageRange, Protect, Protection, Relocate};

/// The powers with which pages come to have every kind of content.
pub trait Contents: MapFrames + Protect + Relocate + Discard {}

impl<P: MapFrames + Protect + Relocate + Discard> Contents for P {}

pub(crate) fn contents<P: Contents>() -> Vec<Clause<P>> {
    vec![
        Clause { promise: "zero(): pages of every content read as zero", check: zeroed },
        Clause { promise: "discard(): pages of every content read as zero", check: discarded },
        Clause { promise: "zero(): frames read as zero wherever they are mapped", check: zeroed_frames },
        Clause { promise: "discard(): frames that a page showed keep their bytes", check: kept_frames },
        Clause {
            promise: "unmap() and map(): pages that had any content read as zero, if Geometry::maps_zeroed",
            check: recycled,
        },
    ]
}

/// Makes pages of one content, readable and writable.
type Make<P> = fn(&Bench<'_, P>, PageRange) -> Verdict;

fn every_content<P: Contents>() -> [Make<P>; 6] {
    [fresh, reused, executed, read_only, framed, moved]
}

fn fresh<P: Contents>(bench: &Bench<'_, P>, range: PageRange) -> Verdict {
    bench.map(range)
}

fn reused<P: Contents>(bench: &Bench<'_, P>, range: PageRange) -> Verdict {
    bench.map(range)?;
    bench.write(range, 7);
    // SAFETY: the kit owns the whole span.
    if unsafe { bench.platform.extras().unmap_now(range, None) }.is_err() {
        bench.unmap_and_flush(&[range])?;
    }
    bench.map(range)
}

/// Maps pages, and has the middle of them with another protection for a while.
fn protected_once<P: Contents>(bench: &Bench<'_, P>, range: PageRange, protection: Protection) -> Verdict {
    bench.map(range)?;
    bench.write(range, 7);
    let middle = PageRange::new(range.start() + range.len() / 3, range.end()).unwrap_or(range);
    for protection in [protection, Protection::ReadWrite] {
        // SAFETY: the kit owns the whole span, and has mapped the range.
        done("protect", middle, unsafe { bench.platform.protect(middle, protection) })?;
    }
    Ok(())
}

fn executed<P: Contents>(bench: &Bench<'_, P>, range: PageRange) -> Verdict {
    protected_once(bench, range, Protection::ReadExecute)
}

fn read_only<P: Contents>(bench: &Bench<'_, P>, range: PageRange) -> Verdict {
    protected_once(bench, range, Protection::Read)
}

fn framed<P: Contents>(bench: &Bench<'_, P>, range: PageRange) -> Verdict {
    let frames = take(bench, range.len() as usize)?;
    map(bench, range, &frames)
}

fn moved<P: Contents>(bench: &Bench<'_, P>, range: PageRange) -> Verdict {
    let from = PageRange::from_len(range.end() + 5, range.len());
    let Some(from) = from.filter(|from| bench.geometry.span.covers(from)) else {
        return bench.map(range);
    };
    bench.map(from)?;
    bench.write(from, 7);
    // SAFETY: the kit owns both, and has mapped the first alone.
    let is_moved = unsafe { bench.platform.relocate(from, range) }.is_ok();
    bench.unmap_and_flush(&[from])?;
    if is_moved { Ok(()) } else { bench.map(range) }
}

/// Returns the ranges to try: small and large ones, as far as the span has room.
fn ranges<P: Contents>(bench: &Bench<'_, P>) -> Vec<PageRange> {
    let start = bench.geometry.span.start();
    let ranges =
        [(10, 1), (20, 9), (40, 70), (150, 1100)].map(|(at, len)| PageRange::from_len(start + at, len));
    ranges.into_iter().flatten().filter(|range| bench.geometry.span.end() > range.end() + 4).collect()
}

/// Clears a part of pages of every content by `clear`, and looks at all of them.
fn clears<P: Contents>(bench: &Bench<'_, P>, clear: impl Fn(PageRange) -> Verdict) -> Verdict {
    for (make, range) in
        every_content().into_iter().flat_map(|make| ranges(bench).into_iter().map(move |it| (make, it)))
    {
        make(bench, range)?;
        bench.write(range, 1);
        let part =
            PageRange::new(range.start() + range.len() / 8, range.end() - range.len() / 5).unwrap_or(range);
        clear(part)?;
        bench.is_zero(part)?;
        let beside = [PageRange::new(range.start(), part.start()), PageRange::new(part.end(), range.end())];
        beside.into_iter().flatten().try_for_each(|beside| bench.holds(beside, 1))?;
        bench.write(part, 2);
        bench.holds(part, 2)?;
        clear(range)?;
        bench.is_zero(range)?;
        bench.unmap_and_flush(&[range])?;
        bench.leads_nowhere(range)?;
    }
    Ok(())
}

fn zeroed<P: Contents>(bench: &Bench<'_, P>) -> Verdict {
    clears(bench, |range| {
        bench.zero(range);
        Ok(())
    })
}

fn discarded<P: Contents>(bench: &Bench<'_, P>) -> Verdict {
    clears(bench, |range| {
        // SAFETY: the kit owns the whole span, and has mapped the range.
        done("discard", range, unsafe { bench.platform.discard(&[range]) })
    })
}

fn zeroed_frames<P: Contents>(bench: &Bench<'_, P>) -> Verdict {
    let (one, other) = (bench.pages(4, 9), bench.pages(200, 9));
    let frames = take(bench, 9)?;
    map(bench, one, &frames)?;
    map(bench, other, &frames)?;
    bench.write(one, 1);
    bench.zero(one);
    bench.is_zero(one)?;
    bench.is_zero(other)?;
    bench.unmap_and_flush(&[one])?;
    map(bench, one, &frames)?;
    bench.is_zero(one)
}

fn kept_frames<P: Contents>(bench: &Bench<'_, P>) -> Verdict {
    let (one, other) = (bench.pages(4, 9), bench.pages(200, 9));
    let frames = take(bench, 9)?;
    map(bench, one, &frames)?;
    bench.write(one, 1);
    // SAFETY: the kit owns the whole span, and has mapped the range.
    done("discard", one, unsafe { bench.platform.discard(&[one]) })?;
    bench.is_zero(one)?;
    map(bench, other, &frames)?;
    bench.shows_those(other, one.start(), 1)
}

fn recycled<P: Contents>(bench: &Bench<'_, P>) -> Verdict {
    for make in every_content() {
        for range in ranges(bench) {
            make(bench, range)?;
            bench.write(range, 1);
            bench.unmap_and_flush(&[range])?;
            bench.map(range)?;
            if bench.geometry.maps_zeroed {
                bench.is_zero(range)?;
            }
            bench.write(range, 3);
            bench.zero(range);
            bench.is_zero(range)?;
            bench.unmap_and_flush(&[range])?;
        }
    }
    Ok(())
}
