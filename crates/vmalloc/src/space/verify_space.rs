//! Checks of a whole space.

use super::Space;
use crate::areas::{Annotation, Kind, Table};
use crate::platform::Platform;
use crate::purge::Purger;
use crate::wait::{Node, Stock};
use alloc::vec::Vec;
use core::ops::Deref;
use vmalloc_map::{State, Violation};

impl<P: Platform> Space<P> {
    /// Checks every invariant, and that the counts agree with the map: SPACE-1 (areas that wait
    /// somewhere), SPACE-2 (annotations), SPACE-3 (areas of tenants), SPACE-4 (the budget of cached
    /// pages). O(n), with all locks held: for tests, while no thread is between two of them.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify(&self) -> Result<(), Violation> {
        // Made before the first lock, and dropped after the last.
        let count = self.cache.nodes.len();
        let mut groups = Vec::with_capacity(self.groups.len());
        let (mut nodes, mut tables) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let purger = self.purger.lock();
        groups.extend(self.groups.iter().map(|group| group.lock()));
        nodes.extend(self.cache.each());
        let result = {
            let stock = self.cache.stock.lock();
            tables.extend(self.areas.tables());
            check(self, &purger, &groups, &nodes, &stock, &tables)
        };
        tables.clear();
        nodes.clear();
        groups.clear();
        drop(purger);
        let result = result.and_then(|()| self.tenants.iter().try_for_each(|tenant| tenant.verify()));
        result.map_err(|page| Violation { at: page.at << self.shift(), ..page })
    }
}

/// Checks a space, in pages.
fn check<P: Platform>(
    space: &Space<P>,
    purger: &Purger,
    groups: &[impl Deref<Target = Purger>],
    nodes: &[impl Deref<Target = Node>],
    stock: &Stock,
    tables: &[impl Deref<Target = Table>],
) -> Result<(), Violation> {
    let map = space.areas.map();
    map.verify()?;
    let retired = map.segments().filter(|segment| segment.state == State::Retired);
    let retired = retired.fold((0, 0), |sum, segment| (sum.0 + 1, sum.1 + segment.range.len()));
    let mut waiting = (space.deferred.areas(), space.deferred.pages());
    for node in nodes {
        waiting.0 += node.areas();
        waiting.1 += node.cached.pages() + node.pooled.pages();
    }
    let cached: u64 = nodes.iter().map(|node| node.budget()).sum();
    let invariant = "SPACE-4: pages of the budget are neither cached, nor credit, nor free";
    Violation::unless(space.cache.budget.is_spent(cached + stock.memory), invariant, map.span().start())?;
    waiting = (waiting.0 + stock.iter().len() as u64, waiting.1 + stock.pages);
    let lazy = nodes.iter().flat_map(|node| node.lazy.iter()).chain(purger.iter());
    let lazy = lazy.chain(groups.iter().flat_map(|group| group.iter()));
    let pages: u64 = lazy.map(|area| area.len()).sum();
    let of_groups: usize = groups.iter().map(|group| group.iter().count()).sum();
    waiting = (waiting.0 + (purger.iter().count() + of_groups) as u64, waiting.1 + pages);
    let invariant = "SPACE-1: an area is neither busy, lazy, cached, pooled nor free";
    Violation::unless(retired == waiting, invariant, map.span().start())?;
    let is_noted = |page: u64, known: Annotation| {
        let area = map.find(page).filter(|area| area.start() == page && area.len() > known.guard_pages);
        area.is_some() && map.leaf(page).is_noted()
    };
    let lost = tables
        .iter()
        .find_map(|table| table.find(&mut |page, known| (!is_noted(page, known)).then_some(page)));
    let idle = map.segments().filter(|segment| segment.state != State::Busy);
    let lost =
        lost.or_else(|| idle.map(|segment| segment.range.start()).find(|&page| space.areas.has_note(page)));
    Violation::unless(lost.is_none(), "SPACE-2: an annotation without its area", lost.unwrap_or_default())?;
    drop(map);
    let mut areas = 0;
    let stray = tables.iter().find_map(|table| {
        table.find(&mut |page, known| {
            let is_tenants = known.kind == Kind::Tenant;
            areas += u64::from(is_tenants);
            (is_tenants && !space.tenants.iter().any(|tenant| tenant.has(page))).then_some(page)
        })
    });
    let invariant = "SPACE-3: an area of a tenant that no tenant has";
    Violation::unless(stray.is_none(), invariant, stray.unwrap_or_default())?;
    Violation::unless(areas == space.tenants.counts().areas, "SPACE-3: a tenant's area is not in use", 0)
}
