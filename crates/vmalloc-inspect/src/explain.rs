//! One address, explained.

use crate::error::InspectError;
use crate::frees::{self, RecordedFree};
use crate::memory::{KernelMapping, Memory, Residency};
use crate::snapshot::{AreaState, Segment, Snapshot};
use crate::target::Target;
use serde::Serialize;

/// An address, explained.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The address.
    pub addr: u64,
    /// Its place in a space; `None` where no space that was found has it.
    pub place: Option<Place>,
    /// The newest free of an area that had it, if the process records frees.
    pub freed: Option<RecordedFree>,
    /// The mapping that it lies in.
    pub mapping: Option<KernelMapping>,
    /// Spaces that were found.
    pub spaces: usize,
}

/// The place of an address in a space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The first address of the span, and the one behind its last.
    pub span: [u64; 2],
    /// The segment that holds the address.
    pub segment: Segment,
    /// Where in the segment it is.
    pub position: Position,
    /// The segment before, if there is one.
    pub before: Option<Neighbour>,
    /// The segment behind, if there is one.
    pub behind: Option<Neighbour>,
    /// How much of the segment has memory, if that is known.
    pub residency: Option<Residency>,
    /// False if the space was changing all the time while it was read.
    pub is_settled: bool,
    /// False if some tags, or states of freed areas, could not be read.
    pub is_whole: bool,
}

/// Where in a segment an address is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Position {
    /// So many bytes from its start.
    Inside(u64),
    /// So many bytes behind its end, in the guard page.
    Guard(u64),
}

/// A segment beside the one that holds an address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Neighbour {
    /// The segment.
    pub segment: Segment,
    /// Bytes from its end, guard page not counted, or from its start, to the address.
    pub distance: u64,
}

impl Target<'_> {
    /// Returns what `addr` is.
    ///
    /// # Errors
    /// When no space is found, or what was found can't be read.
    pub fn explain(&self, addr: u64) -> Result<Explanation, InspectError> {
        let spaces = self.spaces()?;
        // By address: none of the others reaches so far.
        let space = spaces.iter().rfind(|space| space.start() <= addr);
        let place = match space {
            Some(space) => space.snapshot()?.place(addr),
            None => None,
        };
        let mapping = self.mapping(addr)?;
        Ok(Explanation { addr, place, freed: self.freed(addr)?, mapping, spaces: spaces.len() })
    }

    /// Returns the newest record of a free of an area that had `addr`.
    fn freed(&self, addr: u64) -> Result<Option<RecordedFree>, InspectError> {
        let (memory, clock) = (Memory::new(self.source), self.source.clock());
        for records in &self.records {
            if let Some(freed) = frees::find(&memory, records, addr, clock)? {
                return Ok(Some(freed));
            }
        }
        Ok(None)
    }
}

impl Snapshot<'_> {
    /// Returns the place of `addr`; `None` outside of the span.
    #[must_use]
    pub fn place(&self, addr: u64) -> Option<Place> {
        let nth = self.position(addr)?;
        let segment = self.segment(nth)?;
        let before = nth.checked_sub(1).and_then(|nth| self.segment(nth));
        let distance = |segment: &Segment| addr - (segment.end - segment.guard_bytes);
        let before = before.map(|segment| Neighbour { distance: distance(&segment), segment });
        let behind = self.segment(nth + 1);
        let behind = behind.map(|segment| Neighbour { distance: segment.addr - addr, segment });
        let pages = segment.addr..segment.end - segment.guard_bytes;
        let residency = if segment.state == AreaState::Free {
            None
        } else {
            self.source.residency(pages, self.page_bytes())
        };
        Some(Place {
            span: self.span(),
            position: position(&segment, addr),
            segment,
            before,
            behind,
            residency,
            is_settled: self.is_settled(),
            is_whole: self.is_whole(),
        })
    }
}

fn position(segment: &Segment, addr: u64) -> Position {
    let offset = addr - segment.addr;
    offset.checked_sub(segment.bytes).map_or(Position::Inside(offset), Position::Guard)
}
