//! Powers that a platform has, and that are hidden from the allocator.

use std::fmt;
use vmalloc::{Geometry, MemoryCost};

/// Constants of a platform that are hidden. A platform may always claim less than it can.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Narrow {
    /// New pages are made dirty, and [`Geometry::maps_zeroed`] is false.
    pub dirty: bool,
    /// [`Geometry::huge_order`] is `None`.
    pub no_huge_pages: bool,
    /// [`Geometry::linear_map`] is `None`.
    pub no_linear_map: bool,
    /// [`Geometry::remaps_atomically`] is false.
    pub no_atomic_remap: bool,
    /// [`Geometry::memory_cost`] is the other one.
    pub other_cost: bool,
}

impl Narrow {
    /// Returns each combination that changes something of `geometry`, and first that which hides
    /// nothing.
    pub fn all(geometry: &Geometry) -> Vec<Self> {
        let narrowed = (0..1 << 5).map(Self::from_bits).filter(|narrow| narrow.is_honest(geometry));
        narrowed.collect()
    }

    fn from_bits(bits: u32) -> Self {
        let [dirty, no_huge_pages, no_linear_map, no_atomic_remap, other_cost] =
            [0, 1, 2, 3, 4].map(|bit| bits >> bit & 1 == 1);
        Self { dirty, no_huge_pages, no_linear_map, no_atomic_remap, other_cost }
    }

    /// Returns true if everything hidden is there.
    fn is_honest(self, geometry: &Geometry) -> bool {
        self.dirty <= geometry.maps_zeroed
            && self.no_huge_pages <= geometry.huge_order.is_some()
            && self.no_linear_map <= geometry.linear_map.is_some()
            && self.no_atomic_remap <= geometry.remaps_atomically
    }

    /// Returns `geometry` without what is hidden.
    pub fn geometry(self, geometry: Geometry) -> Geometry {
        let cost = match geometry.memory_cost {
            MemoryCost::Cheap => MemoryCost::Dear,
            MemoryCost::Dear => MemoryCost::Cheap,
        };
        geometry
            .maps_zeroed(geometry.maps_zeroed && !self.dirty)
            .huge_order(geometry.huge_order.filter(|_| !self.no_huge_pages))
            .linear_map(geometry.linear_map.filter(|_| !self.no_linear_map))
            .remaps_atomically(geometry.remaps_atomically && !self.no_atomic_remap)
            .memory_cost(if self.other_cost { cost } else { geometry.memory_cost })
    }
}

impl fmt::Display for Narrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = [
            (self.dirty, "dirty pages"),
            (self.no_huge_pages, "no huge pages"),
            (self.no_linear_map, "no linear map"),
            (self.no_atomic_remap, "no atomic remap"),
            (self.other_cost, "other cost of memory"),
        ];
        let names: Vec<_> = hidden.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        f.write_str(&if names.is_empty() { "all powers".to_owned() } else { names.join(", ") })
    }
}
