//! Memory: mapped, unmapped, flushed, zeroed.

use super::Clause;
use crate::bench::{Bench, Verdict, done, ensure};
use std::thread;
use vmalloc::{Evict, PageRange, Platform, PlatformError, PlatformFault, Protection};
use vmalloc_programs::Seen;

pub(crate) fn memory<P: Platform>() -> Vec<Clause<P>> {
    vec![
        Clause { promise: "map(): every page is memory of its own, on every CPU", check: own },
        Clause { promise: "map(): new pages read as zero, if Geometry::maps_zeroed", check: zeroed },
        Clause { promise: "map(): recycled pages read as zero, if Geometry::maps_zeroed", check: recycled },
        Clause { promise: "map(): pages next to the range stay as they are", check: neighbours },
        Clause { promise: "map(): a refused range has no page mapped", check: refused },
        Clause { promise: "unmap() and flush(): no CPU reaches the pages any more", check: gone },
        Clause { promise: "unmap() and flush(): pages next to the range stay as they are", check: kept },
        Clause { promise: "unmap(): twice, or of pages never mapped, does no harm", check: twice },
        Clause { promise: "unmap() and flush(): all ranges of a call are treated", check: many },
        Clause { promise: "unmap_now(): no CPU reaches the pages any more", check: gone_now },
        Clause { promise: "unmap_now(): pages next to the range stay as they are", check: kept_now },
        Clause { promise: "unmap_now(): threads do not disturb each other", check: gone_together },
        Clause { promise: "evict_memory(): mapped pages stay, others can be mapped", check: evicted },
        Clause { promise: "zero(): the range reads as zero, and no other page changes", check: zero },
        Clause { promise: "map_huge(): all of the range is memory, parts can be unmapped", check: huge },
        Clause { promise: "mark_altered(): the next unmap replaces the pages by new ones", check: altered },
    ]
}

fn own<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    for range in [bench.pages(0, 1), bench.pages(3, 70), bench.pages(100, 300)] {
        bench.map(range)?;
        bench.write(range, 1);
    }
    [bench.pages(0, 1), bench.pages(3, 70), bench.pages(100, 300)]
        .map(|range| bench.holds(range, 1))
        .into_iter()
        .collect()
}

fn zeroed<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let range = bench.pages(5, 90);
    bench.map(range)?;
    if bench.geometry.maps_zeroed { bench.is_zero(range) } else { Ok(()) }
}

fn recycled<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let range = bench.pages(5, 90);
    for seed in 1..4 {
        bench.map(range)?;
        if bench.geometry.maps_zeroed {
            bench.is_zero(range)?;
        }
        bench.write(range, seed);
        bench.unmap_and_flush(&[range])?;
    }
    Ok(())
}

fn neighbours<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let (before, range, behind) = (bench.pages(10, 2), bench.pages(12, 5), bench.pages(18, 2));
    bench.map(before)?;
    bench.map(behind)?;
    bench.write(before, 1);
    bench.write(behind, 1);
    bench.map(range)?;
    bench.write(range, 2);
    bench.holds(before, 1)?;
    bench.holds(behind, 1)?;
    bench.leads_nowhere(bench.pages(17, 1))?;
    bench.leads_nowhere(bench.pages(9, 1))
}

/// Maps the whole span, which a platform may refuse.
fn refused<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let (first, span) = (bench.pages(0, 1), bench.geometry.span);
    let rest = PageRange::new(span.start() + 1, span.end()).filter(|rest| rest.len() < 1 << 16);
    bench.map(first)?;
    bench.write(first, 1);
    let Some(rest) = rest else { return Ok(()) };
    // SAFETY: the kit owns the whole span, and has mapped nothing of the rest.
    if unsafe { bench.platform.map(rest, Protection::ReadWrite, Default::default()) }.is_err() {
        bench.leads_nowhere(bench.pages(1, 500))?;
    }
    bench.unmap_and_flush(&[rest])?;
    bench.holds(first, 1)?;
    bench.map(bench.pages(1, 20))
}

fn gone<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let range = bench.pages(7, 40);
    bench.leads_nowhere(range)?;
    bench.map(range)?;
    bench.write(range, 1);
    bench.holds(range, 1)?;
    bench.unmap_and_flush(&[range])?;
    bench.leads_nowhere(range)
}

fn kept<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let all = bench.pages(20, 30);
    bench.map(all)?;
    bench.write(all, 1);
    bench.unmap_and_flush(&[bench.pages(30, 10)])?;
    bench.holds(bench.pages(20, 10), 1)?;
    bench.holds(bench.pages(40, 10), 1)?;
    bench.leads_nowhere(bench.pages(30, 10))?;
    bench.map(bench.pages(30, 10))?;
    bench.write(bench.pages(30, 10), 2);
    bench.holds(bench.pages(20, 10), 1)?;
    bench.holds(bench.pages(30, 10), 2)
}

/// Unmaps at once, if the platform can.
fn unmap_now<P: Platform>(bench: &Bench<'_, P>, range: PageRange) -> Result<bool, String> {
    // SAFETY: the kit owns the whole span, and keeps no reference into it.
    let unmapped = unsafe { bench.platform.extras().unmap_now(range, None) };
    match unmapped {
        Err(PlatformError { fault: PlatformFault::Unsupported, .. }) => Ok(false),
        unmapped => done("unmap_now", range, unmapped).map(|()| true),
    }
}

fn gone_now<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    for range in [bench.pages(7, 1), bench.pages(9, 40), bench.pages(9, 300), bench.pages(9, 40)] {
        bench.map(range)?;
        bench.write(range, 1);
        bench.holds(range, 1)?;
        if !unmap_now(bench, range)? {
            return bench.unmap_and_flush(&[range]);
        }
        bench.leads_nowhere(range)?;
    }
    // Once more, and pages that were never mapped.
    unmap_now(bench, bench.pages(5, 50))?;
    bench.map(bench.pages(9, 300))?;
    bench.write(bench.pages(9, 300), 2);
    bench.holds(bench.pages(9, 300), 2)
}

fn kept_now<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let (all, part) = (bench.pages(20, 30), bench.pages(30, 10));
    bench.map(all)?;
    bench.write(all, 1);
    if unmap_now(bench, part)? {
        bench.leads_nowhere(part)?;
        bench.map(part)?;
        bench.write(part, 2);
        bench.holds(part, 2)?;
    }
    bench.holds(bench.pages(20, 10), 1)?;
    bench.holds(bench.pages(40, 10), 1)
}

fn gone_together<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let (platform, start) = (&bench.platform, bench.geometry.span.start());
    let turns = |first: u64| {
        (0..60).try_for_each(|turn| {
            let Some(range) = PageRange::from_len(start + first + turn % 3, 1 + turn * 7 % 90) else {
                return Ok(());
            };
            // SAFETY: each thread has pages of its own, and keeps no reference into them.
            unsafe {
                platform.map(range, Protection::ReadWrite, Default::default())?;
                platform.extras().unmap_now(range, None)
            }
        })
    };
    if !unmap_now(bench, bench.pages(0, 1))? {
        return Ok(());
    }
    let results = thread::scope(|scope| {
        let threads = [0, 100, 200].map(|first| scope.spawn(move || turns(first)));
        threads.map(|thread| thread.join().map_err(|_| "a panic".to_owned()))
    });
    for result in results {
        done("unmap_now of several threads", "pages", result?)?;
    }
    bench.leads_nowhere(bench.pages(0, 300))
}

fn evicted<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let (stays, goes) = (bench.pages(0, 30), bench.pages(40, 60));
    bench.map(stays)?;
    bench.write(stays, 1);
    for part in [Evict::Quarter, Evict::All, Evict::All] {
        bench.map(goes)?;
        bench.write(goes, 2);
        if !unmap_now(bench, goes)? {
            bench.unmap_and_flush(&[goes])?;
        }
        let is_left = bench.platform.extras().evict_memory(part);
        ensure(!is_left || part != Evict::All, || "memory is left after all was to go".to_owned())?;
    }
    bench.holds(stays, 1)?;
    bench.leads_nowhere(goes)
}

fn twice<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let (mapped, all) = (bench.pages(50, 4), bench.pages(48, 10));
    bench.map(mapped)?;
    bench.write(mapped, 1);
    bench.unmap(&[all])?;
    bench.unmap(&[mapped])?;
    bench.unmap(&[all])?;
    bench.flush(&[all])?;
    bench.unmap_and_flush(&[all])?;
    bench.map(all)?;
    bench.write(all, 2);
    bench.holds(all, 2)
}

fn many<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let ranges: Vec<_> = (0..40).map(|nth| bench.pages(10 * nth, 7)).collect();
    for &range in &ranges {
        bench.map(range)?;
        bench.write(range, 1);
    }
    let odd: Vec<_> = ranges.iter().copied().skip(1).step_by(2).collect();
    bench.unmap_and_flush(&odd)?;
    odd.iter().try_for_each(|&range| bench.leads_nowhere(range))?;
    ranges.iter().step_by(2).try_for_each(|&range| bench.holds(range, 1))
}

fn zero<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let all = bench.pages(60, 30);
    bench.map(all)?;
    bench.write(all, 1);
    bench.zero(bench.pages(70, 10));
    bench.is_zero(bench.pages(70, 10))?;
    bench.holds(bench.pages(60, 10), 1)?;
    bench.holds(bench.pages(80, 10), 1)
}

/// Maps two huge pages and odd ends, if the span has room for them.
fn huge<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let Some(order) = bench.geometry.huge_order else { return Ok(()) };
    let span = bench.geometry.span;
    let first = span.start().next_multiple_of(1 << order);
    let range = PageRange::from_len(first, (2 << order) + 3).filter(|range| span.covers(range));
    let Some(range) = range.filter(|_| order <= 10) else {
        bench.not_seen("huge pages, for which the span is too small");
        return Ok(());
    };
    // SAFETY: the kit owns the whole span, and has mapped nothing.
    done("map_huge", range, unsafe {
        bench.platform.map_huge(range, Protection::ReadWrite, Default::default())
    })?;
    if bench.geometry.maps_zeroed {
        bench.is_zero(range)?;
    }
    bench.write(range, 1);
    let part = PageRange::from_len(first + 5, 3).ok_or("no part")?;
    bench.unmap_and_flush(&[part])?;
    bench.leads_nowhere(part)?;
    for rest in [PageRange::new(first, first + 5), PageRange::new(first + 8, range.end())] {
        bench.holds(rest.ok_or("no rest")?, 1)?;
    }
    bench.unmap_and_flush(&[range])?;
    bench.leads_nowhere(range)
}

fn altered<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let range = bench.pages(33, 9);
    bench.map(range)?;
    bench.write(range, 1);
    // SAFETY: the kit owns the whole span; the range is mapped, and used no more.
    done("mark_altered", range, unsafe { bench.platform.extras().mark_altered(range) })?;
    bench.unmap_and_flush(&[range])?;
    bench.map(range)?;
    let shown = bench.look.read(&bench.platform, 0, range.start());
    let is_new = !bench.geometry.maps_zeroed || matches!(shown, Seen::Word(0) | Seen::Unknown);
    ensure(is_new, || format!("a new page shows {shown:x?}"))
}
