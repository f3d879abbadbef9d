//! How much a purge does, and what it has done.

use super::tenant::Sweep;
use crate::error::PurgeError;
use crate::platform::{Evict, PlatformError};
use crate::wait::Fraction;

/// The work of a purge beside unmapping lazy areas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PurgePlan {
    /// The fraction of the cached areas that becomes lazy first.
    pub(crate) cached: Option<Fraction>,
    /// The fraction of the pooled areas that goes back to the map.
    pub(crate) pooled: Option<Fraction>,
    /// The most areas of both together.
    pub(crate) most: u64,
    /// True if flushed areas go to the pools.
    pub(crate) refill: bool,
    /// True if each area that was refused before is tried again by itself, however many there are.
    pub(crate) insists: bool,
    /// How much is taken of tenants.
    pub(crate) sweep: Sweep,
}

/// The result of a purge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    /// Areas released to the map.
    pub(crate) given: u64,
    /// Areas evicted from the cache or from pools.
    pub(crate) evicted: u64,
    /// True if the platform keeps memory of unmapped areas.
    pub(crate) keeps_memory: bool,
    /// Why something stays with the purger, if something does.
    pub(crate) refusal: Option<PlatformError>,
    /// True if there was no memory to note a part of a tenant that was to be unmapped.
    pub(crate) lacks_memory: bool,
}

impl Done {
    /// Returns the refusal as the error that it is to callers that need everything unmapped.
    pub(crate) fn refused(self) -> Result<(), PlatformError> {
        self.refusal.map_or(Ok(()), Err)
    }

    /// Returns what is missing as the error that it is to callers that need everything done.
    pub(crate) fn complete(self) -> Result<(), PurgeError> {
        self.refused()?;
        if self.lacks_memory { Err(PurgeError::Metadata) } else { Ok(()) }
    }
}

impl PurgePlan {
    /// Lazy areas only: they have passed the threshold.
    pub(crate) const LAZY: Self =
        Self { cached: None, pooled: None, most: u64::MAX, refill: true, insists: false, sweep: Sweep::Due };
    /// By age: a quarter of everything.
    pub(crate) const DECAY: Self = Self {
        cached: Some(Fraction::Quarter),
        pooled: Some(Fraction::Quarter),
        sweep: Sweep::Everything,
        ..Self::LAZY
    };
    /// Until no freed memory is left, and no stale translation of it.
    pub(crate) const UNMAP: Self = Self {
        cached: Some(Fraction::All),
        pooled: None,
        insists: true,
        sweep: Sweep::Everything,
        ..Self::LAZY
    };
    /// Everything, to the map.
    pub(crate) const ALL: Self = Self::at_most(u64::MAX);

    /// Returns whether a purge with this plan does all that one with the `other` would.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let is_less = *other == Self::LAZY || *other == Self::UNMAP && self.insists;
        self.most == u64::MAX && (self == other || is_less)
    }

    /// Returns the part of the memory that the platform keeps which goes back as well: as much as
    /// of the pooled areas. A purge of a certain number of areas is none of all.
    pub(crate) fn memory(&self) -> Option<Evict> {
        self.pooled.map(|fraction| match fraction {
            Fraction::All if self.most == u64::MAX => Evict::All,
            _ => Evict::Quarter,
        })
    }

    /// Returns the plan to release everything lazy, and at most so many cached and pooled areas.
    pub(crate) const fn at_most(most: u64) -> Self {
        Self {
            cached: Some(Fraction::All),
            pooled: Some(Fraction::All),
            most,
            refill: false,
            insists: true,
            sweep: Sweep::Everything,
        }
    }
}

/// Tells whether anything is left to decay after a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the rest decays only if drain is called again"]
pub enum DrainStatus {
    /// Nothing is lazy, cached or pooled, and nothing was refused by the platform.
    Done,
    /// Something is left: call [`Space::drain`](crate::Space::drain) again after a while.
    More,
}
