//! The four tests that the free list was published with (2018): three ways to cut a free range, and
//! a long list of areas.

use super::cases::long_busy_list;
use super::{Case, Run};
use crate::design::Refusal;

/// All four, by the names of the publication.
///
/// It describes the loops of `le_fit` and `long_busy_list`. Those of the other two follow from
/// their names here: *both* edges of a free range are the request's, or *no* edge is.
pub const FITS: &[Case] = &[
    Case { name: "le_fit", about: "3 pages, cut off the left edge", run: left_edge },
    Case { name: "b_fit", about: "3 pages, in holes of exactly that", run: both_edges },
    Case {
        name: "ne_fit",
        about: "3 pages at multiples of 8, which leave a rest on both sides",
        run: no_edge,
    },
    Case { name: "long_busy_list", about: "100 pages and 1 page above 15,000 areas", run: long_busy_list },
];

/// Holes that `b_fit` makes.
const HOLES: u64 = 1000;

fn left_edge(run: &mut Run<'_>) -> Result<(), Refusal> {
    run.turns(|run| run.pair(3, 1))
}

fn both_edges(run: &mut Run<'_>) -> Result<(), Refusal> {
    let areas = || (0..2 * HOLES / run.size.held_by).map(|_| run.stage.design.alloc(&super::guarded(3)));
    let areas = areas().collect::<Result<Vec<_>, _>>()?;
    areas.iter().step_by(2).try_for_each(|&start| run.stage.design.free(start))?;
    run.stage.design.purge();
    run.turns(|run| run.pair(3, 1))?;
    areas.iter().skip(1).step_by(2).try_for_each(|&start| run.stage.design.free(start))
}

fn no_edge(run: &mut Run<'_>) -> Result<(), Refusal> {
    run.turns(|run| run.pair(3, 8))
}
