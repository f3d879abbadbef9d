//! Protection of mapped pages.

use super::Clause;
use crate::bench::{Bench, Verdict, done, ensure};
use vmalloc::{PageRange, Protect, Protection};

pub(crate) fn protect<P: Protect>() -> Vec<Clause<P>> {
    vec![
        Clause { promise: "protect(): pages keep their bytes, neighbours their protection", check: kept },
        Clause { promise: "protect(): a read-only page can't be written", check: enforced },
    ]
}

fn set<P: Protect>(bench: &Bench<'_, P>, range: PageRange, protection: Protection) -> Verdict {
    // SAFETY: the kit owns the whole span, and has mapped the range.
    done("protect", range, unsafe { bench.platform.protect(range, protection) })
}

fn kept<P: Protect>(bench: &Bench<'_, P>) -> Verdict {
    let (all, part) = (bench.pages(10, 12), bench.pages(14, 4));
    let beside = [bench.pages(10, 4), bench.pages(18, 4)];
    bench.map(all)?;
    bench.write(all, 1);
    for (protection, seed) in [(Protection::Read, 2), (Protection::ReadExecute, 3)] {
        set(bench, part, protection)?;
        bench.holds(part, 1)?;
        beside.iter().for_each(|&range| bench.write(range, seed));
        beside.iter().try_for_each(|&range| bench.holds(range, seed))?;
    }
    set(bench, part, Protection::ReadWrite)?;
    bench.write(all, 2);
    bench.holds(all, 2)
}

fn enforced<P: Protect>(bench: &Bench<'_, P>) -> Verdict {
    let (all, part) = (bench.pages(10, 3), bench.pages(11, 1));
    bench.map(all)?;
    bench.write(all, 1);
    set(bench, part, Protection::Read)?;
    for cpu in 0..bench.cpus() {
        match bench.look.can_write(&bench.platform, cpu, part.start()) {
            Some(writes) => ensure(!writes, || format!("CPU {cpu} writes to a read-only page"))?,
            None => bench.not_seen("whether a page can be written"),
        }
        let beside = bench.look.can_write(&bench.platform, cpu, all.start());
        ensure(beside != Some(false), || format!("CPU {cpu} can't write to the page beside"))?;
    }
    Ok(())
}
