//! Physical pages.

use super::Clause;
use crate::bench::{Bench, Verdict, ensure};
use std::collections::BTreeSet;
use vmalloc::Translate;

pub(crate) fn translate<P: Translate>() -> Vec<Clause<P>> {
    vec![Clause { promise: "physical_page(): each mapped page has a physical page of its own", check: own }]
}

fn own<P: Translate>(bench: &Bench<'_, P>) -> Verdict {
    let range = bench.pages(80, 30);
    bench.map(range)?;
    bench.write(range, 1);
    let told = || (range.start()..range.end()).filter_map(|page| bench.platform.physical_page(page));
    let (all, distinct): (Vec<_>, BTreeSet<_>) = (told().collect(), told().collect());
    if all.is_empty() {
        bench.not_seen("physical pages, which the machine does not tell");
    }
    ensure(all.len() == distinct.len(), || format!("{} pages share {}", all.len(), distinct.len()))?;
    bench.unmap_and_flush(&[range])?;
    let left = bench.platform.physical_page(range.start());
    ensure(left.is_none(), || format!("an unmapped page has the physical page {left:x?}"))
}
