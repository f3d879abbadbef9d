//! Memory that reads as zero again.

use super::Clause;
use crate::bench::{Bench, Verdict, done, ensure, word};
use vmalloc::{Discard, PageRange};

pub(crate) fn discard<P: Discard>() -> Vec<Clause<P>> {
    vec![
        Clause { promise: "discard(): pages read as zero, and stay memory", check: cleared },
        Clause { promise: "discard(): pages next to the ranges keep their bytes", check: narrow },
        Clause { promise: "touched(): every page that was written is reported", check: reported },
    ]
}

fn discarded<P: Discard>(bench: &Bench<'_, P>, ranges: &[PageRange]) -> Verdict {
    // SAFETY: the kit owns the whole span, and has mapped the ranges.
    done("discard", ranges, unsafe { bench.platform.discard(ranges) })
}

fn cleared<P: Discard>(bench: &Bench<'_, P>) -> Verdict {
    let ranges = [bench.pages(10, 1), bench.pages(20, 70), bench.pages(200, 3)];
    for range in ranges {
        bench.map(range)?;
        bench.write(range, 1);
    }
    discarded(bench, &ranges)?;
    for range in ranges {
        bench.is_zero(range)?;
        bench.write(range, 2);
        bench.holds(range, 2)?;
    }
    Ok(())
}

fn narrow<P: Discard>(bench: &Bench<'_, P>) -> Verdict {
    let (all, part) = (bench.pages(10, 12), bench.pages(14, 4));
    bench.map(all)?;
    bench.write(all, 1);
    discarded(bench, &[part])?;
    bench.holds(bench.pages(10, 4), 1)?;
    bench.holds(bench.pages(18, 4), 1)
}

fn reported<P: Discard>(bench: &Bench<'_, P>) -> Verdict {
    let all = bench.pages(10, 100);
    bench.map(all)?;
    let written = |page: u64| word(page, 9).is_multiple_of(3);
    for page in (all.start()..all.end()).filter(|page| written(*page)) {
        bench.write(PageRange::from_len(page, 1).unwrap_or(all), 1);
    }
    let mut found = Vec::new();
    // SAFETY: the kit owns the whole span, and has mapped the range.
    unsafe { bench.platform.touched(all, &mut |run| found.push(run)) };
    let ordered = found.windows(2).all(|pair| pair[0].end() <= pair[1].start());
    ensure(ordered && found.iter().all(|run| all.covers(run)), || {
        format!("the runs {found:x?} of {all:x?}")
    })?;
    let missed =
        (all.start()..all.end()).find(|page| written(*page) && !found.iter().any(|run| run.contains(*page)));
    ensure(missed.is_none(), || format!("page {missed:x?} was written, and the runs are {found:x?}"))
}
