//! How much a purge does, and what it has done.

use super::pools::Share;
use crate::platform::PlatformError;

/// What a purge does beside unmapping what is lazy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Drain {
    /// How much of what is cached becomes lazy first.
    pub(super) cached: Option<Share>,
    /// How much of the pools goes back to the map.
    pub(super) pools: Option<Share>,
    /// The most areas of both together.
    pub(super) most: u64,
    /// Flushed areas go to the pools.
    pub(super) refill: bool,
    /// Whether each area that was refused before is tried again by itself, however many there are.
    pub(super) insists: bool,
    /// Whether blocks leave their queues, and nothing stays mapped in them that is not live.
    pub(super) sweep: bool,
}

/// What a purge has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Done {
    /// Areas given to the map.
    pub(super) given: u64,
    /// Areas that were no longer kept, as memory or in pools.
    pub(super) shed: u64,
    /// Why something stays with the purger, if something does.
    pub(super) refusal: Option<PlatformError>,
}

impl Done {
    /// Returns the refusal as the error that it is to callers who need everything done.
    pub(super) fn complete(self) -> Result<(), PlatformError> {
        self.refusal.map_or(Ok(()), Err)
    }
}

impl Drain {
    /// When much is lazy: a quarter of what is not in use.
    pub(super) const MAKE_ROOM: Self = Self {
        cached: Some(Share::QuarterOfIdle),
        pools: Some(Share::QuarterOfIdle),
        most: u64::MAX,
        refill: true,
        insists: false,
        sweep: false,
    };
    /// Lazy areas only, for the sake of blocks.
    pub(super) const FLUSH: Self = Self { cached: None, pools: None, ..Self::MAKE_ROOM };
    /// By age: a quarter of everything.
    pub(super) const DECAY: Self =
        Self { cached: Some(Share::Quarter), pools: Some(Share::Quarter), sweep: true, ..Self::MAKE_ROOM };
    /// Until no freed memory is left, and no stale translation of it.
    pub(super) const UNMAP: Self =
        Self { cached: Some(Share::All), pools: None, insists: true, sweep: true, ..Self::MAKE_ROOM };
    /// Everything, to the map.
    pub(super) const ALL: Self = Self::at_most(u64::MAX);

    /// To the map, but no more than so many areas of what is kept.
    pub(super) const fn at_most(most: u64) -> Self {
        Self {
            cached: Some(Share::All),
            pools: Some(Share::All),
            most,
            refill: false,
            insists: true,
            sweep: true,
        }
    }
}

/// Tells whether anything is left to decay after a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "what is left decays only if drain is called again"]
pub enum DrainStatus {
    /// Nothing is lazy, cached or pooled, and nothing was refused by the platform.
    Done,
    /// Something is: call [`Space::drain`](super::Space::drain) again after a while.
    More,
}
