//! A space in numbers: its areas by tag, and its bytes by state.

use crate::snapshot::{AreaState, Segment, Snapshot};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Areas in use with one tag and of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Tagged {
    /// The tag; `None` of areas without one.
    pub tag: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// How many there are.
    pub areas: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes of addresses, guard pages included.
    pub span_bytes: u64,
}

/// Areas and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Sum {
    /// How many there are.
    pub areas: u64,
    /// Bytes of addresses, guard pages included.
    pub bytes: u64,
}

/// A space in numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// The first address of the span, and the one behind its last.
    pub span: [u64; 2],
    /// Areas in use.
    pub busy: Sum,
    /// Freed areas that keep their memory.
    pub cached: Sum,
    /// Freed and flushed areas whose addresses wait.
    pub pooled: Sum,
    /// Freed areas that are not unmapped yet, those in a purge too.
    pub lazy: Sum,
    /// Areas among the lazy ones that the system refuses to unmap.
    pub refused: Sum,
    /// Freed areas that are in no list: on their way from one owner to the next.
    pub between: Sum,
    /// Free ranges.
    pub free: Sum,
    /// Bytes of the largest free range.
    pub largest_free: u64,
    /// Bytes from the start of the span to the end of the last area.
    pub reached: u64,
    /// Areas in use by tag and kind, the most bytes first.
    pub tags: Vec<Tagged>,
    /// Purges so far.
    pub purges: u64,
    /// Areas purged so far.
    pub purged_areas: u64,
    /// Changes of the map so far: allocations and frees that no node could serve, and looks at it.
    pub map_changes: u64,
    /// Frees that were to trap at once, and did not.
    pub late_frees: u64,
    /// False if the space was changing all the time while it was read.
    pub is_settled: bool,
    /// False if some tags, or states of freed areas, could not be read.
    pub is_whole: bool,
}

impl Snapshot<'_> {
    /// Returns the space in numbers.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let [purges, purged_areas, _, late_frees, map_changes] = self.counts;
        let (is_settled, is_whole) = (self.is_settled(), self.is_whole());
        let base =
            Tally { span: self.span(), purges, purged_areas, map_changes, late_frees, ..Tally::default() };
        let mut tally = Tally { is_settled, is_whole, ..base };
        let mut tags = BTreeMap::new();
        for segment in self.segments() {
            tally.add(&segment);
            if segment.state == AreaState::Busy {
                add_tag(&mut tags, segment);
            }
        }
        tally.tags = tags.into_values().collect();
        tally.tags.sort_by_key(|tagged| Reverse(tagged.bytes));
        tally
    }
}

fn add_tag(tags: &mut BTreeMap<(Option<String>, Option<String>), Tagged>, segment: Segment) {
    let Segment { tag, kind, addr, end, bytes, .. } = segment;
    let sum = tags.entry((tag.clone(), kind.clone())).or_default();
    (sum.tag, sum.kind) = (tag, kind);
    sum.areas += 1;
    // The bytes of damaged records may be any.
    sum.bytes = sum.bytes.saturating_add(bytes);
    sum.span_bytes = sum.span_bytes.saturating_add(end - addr);
}

impl Tally {
    fn add(&mut self, segment: &Segment) {
        let bytes = segment.end - segment.addr;
        let add = |sum: &mut Sum| {
            sum.areas += 1;
            sum.bytes = sum.bytes.saturating_add(bytes);
        };
        match segment.state {
            AreaState::Free => {
                add(&mut self.free);
                self.largest_free = self.largest_free.max(bytes);
                return;
            }
            AreaState::Busy => add(&mut self.busy),
            AreaState::Cached => add(&mut self.cached),
            AreaState::Pooled => add(&mut self.pooled),
            AreaState::Lazy | AreaState::Purging => add(&mut self.lazy),
            AreaState::Refused => {
                add(&mut self.refused);
                add(&mut self.lazy);
            }
            AreaState::Between => add(&mut self.between),
        }
        self.reached = segment.end - self.span[0];
    }
}
