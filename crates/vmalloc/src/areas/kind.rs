//! The kinds of areas, and the call that frees each.

use core::fmt;

/// The kind of an area: what it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[repr(u8)]
pub enum Kind {
    /// Memory of its own.
    Vmalloc,
    /// Addresses, with memory or frames of the caller's where it puts some
    /// ([`Raw::reserve`](crate::Raw::reserve)).
    Reserved,
    /// Frames of the caller's ([`Raw::map`](crate::Raw::map)).
    Vmap,
    /// Memory of a device ([`Raw::map_device`](crate::Raw::map_device)).
    IoMap,
    /// Memory that can be mapped a second time ([`Raw::alloc_shared`](crate::Raw::alloc_shared)).
    Shared,
    /// Memory that can be made executable ([`Raw::alloc_exec`](crate::Raw::alloc_exec)).
    Exec,
    /// An area of which a [tenant](crate::tenant) hands out parts. Its tag says what they are.
    Tenant,
}

/// The call that frees an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FreedBy {
    Free,
    Unreserve,
    Unmap,
    /// None: its tenant does.
    Tenant,
    /// Whichever of the first three it is.
    Any,
}

impl FreedBy {
    /// Returns whether this call frees areas of that kind.
    pub(crate) fn frees(self, kind: Kind) -> bool {
        self == kind.freed() || self == Self::Any && kind != Kind::Tenant
    }
}

impl Kind {
    /// Returns the kind of a number that was one.
    pub(crate) fn of(code: u64) -> Self {
        const ALL: [Kind; 6] =
            [Kind::Vmalloc, Kind::Reserved, Kind::Vmap, Kind::IoMap, Kind::Shared, Kind::Exec];
        ALL.get(code as usize).copied().unwrap_or(Self::Tenant)
    }

    /// Returns the call that frees areas of this kind.
    pub(crate) fn freed(self) -> FreedBy {
        match self {
            Self::Vmalloc | Self::Shared | Self::Exec => FreedBy::Free,
            Self::Reserved => FreedBy::Unreserve,
            Self::Vmap | Self::IoMap => FreedBy::Unmap,
            Self::Tenant => FreedBy::Tenant,
        }
    }

    /// Returns whether areas of this kind may show frames that the space took for them.
    pub(crate) fn may_show_frames(self) -> bool {
        matches!(self, Self::Shared | Self::Vmap)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vmalloc => "vmalloc",
            Self::Reserved => "reserved",
            Self::Vmap => "vmap",
            Self::IoMap => "ioremap",
            Self::Shared => "vmalloc user",
            Self::Exec => "vmalloc exec",
            Self::Tenant => "tenant",
        })
    }
}
