//! What areas are for, and what frees them.

use core::fmt;

/// What an area is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Memory of its own.
    Vmalloc,
    /// Addresses only.
    Reserved,
    /// Frames of the caller's ([`Space::vmap`](crate::Space::vmap)).
    Vmap,
    /// Memory of a device ([`Space::vmap_pfn`](crate::Space::vmap_pfn)).
    IoMap,
    /// Memory that can be mapped a second time ([`Space::vmalloc_user`](crate::Space::vmalloc_user)).
    User,
    /// Memory that can be made executable ([`Space::vmalloc_exec`](crate::Space::vmalloc_exec)).
    Exec,
    /// Addresses in which the caller maps frames page by page ([`Space::sparse`](crate::Space::sparse)).
    Sparse,
    /// One of a group of [congruent areas](crate::Space::pcpu_get_vm_areas).
    Percpu,
    /// A block of short mappings ([`block`](crate::block)).
    Block,
    /// A short mapping too large for a block ([`Space::vm_map_ram`](crate::Space::vm_map_ram)).
    MapRam,
}

/// The call that frees an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FreedBy {
    Vfree,
    Unreserve,
    Vunmap,
    UnmapRam,
    FreeSparse,
    PcpuFree,
    /// None: the purge does.
    Purge,
}

impl Kind {
    /// Which call frees areas of this kind.
    pub(super) fn freed(self) -> FreedBy {
        match self {
            Self::Vmalloc | Self::User | Self::Exec => FreedBy::Vfree,
            Self::Reserved => FreedBy::Unreserve,
            Self::Vmap | Self::IoMap => FreedBy::Vunmap,
            Self::MapRam => FreedBy::UnmapRam,
            Self::Sparse => FreedBy::FreeSparse,
            Self::Percpu => FreedBy::PcpuFree,
            Self::Block => FreedBy::Purge,
        }
    }

    /// Whether areas of this kind may show frames that the space took for them.
    pub(super) fn may_show_lot(self) -> bool {
        matches!(self, Self::User | Self::Vmap)
    }

    /// Whether reading it has no effect but reading.
    pub(super) fn is_memory(self) -> bool {
        !matches!(self, Self::IoMap | Self::Reserved)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vmalloc => "vmalloc",
            Self::Reserved => "reserved",
            Self::Vmap => "vmap",
            Self::IoMap => "ioremap",
            Self::User => "vmalloc user",
            Self::Exec => "vmalloc exec",
            Self::Sparse => "sparse",
            Self::Percpu => "percpu",
            Self::Block => "vm_map_ram block",
            Self::MapRam => "vm_map_ram",
        })
    }
}
