//! Pages moved to another address.

use super::Clause;
use crate::bench::{Bench, Verdict, ensure};
use vmalloc::{PlatformFault, Relocate};

pub(crate) fn relocate<P: Relocate>() -> Vec<Clause<P>> {
    vec![Clause {
        promise: "relocate(): the new range shows the old bytes, or nothing changes",
        check: moved,
    }]
}

fn moved<P: Relocate>(bench: &Bench<'_, P>) -> Verdict {
    for len in [1, 9, 70] {
        let (from, to, beside) = (bench.pages(20, len), bench.pages(200, len), bench.pages(20 + len, 2));
        bench.map(from)?;
        bench.map(beside)?;
        bench.write(from, 1);
        bench.write(beside, 1);
        // SAFETY: the kit owns both ranges; `from` is mapped, and `to` is not.
        match unsafe { bench.platform.relocate(from, to) } {
            Ok(()) => {
                bench.shows_those(to, from.start(), 1)?;
                bench.unmap_and_flush(&[from])?;
                bench.leads_nowhere(from)?;
                bench.write(to, 2);
                bench.holds(to, 2)?;
            }
            Err(error) => {
                if error.fault != PlatformFault::Unsupported {
                    ensure(len > 1, || format!("relocate of one page failed: {error}"))?;
                }
                bench.holds(from, 1)?;
                bench.leads_nowhere(to)?;
                bench.unmap_and_flush(&[from])?;
            }
        }
        bench.holds(beside, 1)?;
        bench.unmap_and_flush(&[beside, to])?;
    }
    Ok(())
}
