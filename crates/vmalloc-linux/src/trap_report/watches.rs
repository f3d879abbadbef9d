//! The spaces that reports look into.

use crate::fork::hooks;
use crate::watched::{self, Watched};
use std::sync::Arc;
use vmalloc::{AreaInfo, Contended, Platform, Space};

/// A space, as far as a report looks into it.
pub(super) trait WatchedSpace: Send + Sync {
    fn contains(&self, addr: usize) -> bool;
    fn page_bytes(&self) -> usize;
    fn try_find(&self, addr: usize) -> Result<Option<AreaInfo>, Contended>;
}

impl<P: Platform> WatchedSpace for Space<P>
where
    Space<P>: Send + Sync,
{
    fn contains(&self, addr: usize) -> bool {
        Space::contains(self, addr)
    }

    fn page_bytes(&self) -> usize {
        self.geometry().page_bytes()
    }

    fn try_find(&self, addr: usize) -> Result<Option<AreaInfo>, Contended> {
        Space::try_find(self, addr)
    }
}

type Held = Arc<dyn WatchedSpace>;

static ALL: Watched<Held> = Watched::new();

/// Keeps a space watched, and alive, until it is dropped.
#[derive(Debug)]
#[must_use = "reports look into the space as long as this is there"]
pub struct Watch {
    _entry: watched::Watch<Held>,
}

/// Has reports look into `space`, which stays alive as long.
pub fn watch<P: Platform + 'static>(space: &Arc<Space<P>>) -> Watch
where
    Space<P>: Send + Sync,
{
    // A space of Linux has done that before. Where it fails for another, a child of a fork may wait
    // for readers that it does not have.
    let _ = hooks::install();
    Watch { _entry: ALL.show(Box::new(Arc::<Space<P>>::clone(space))) }
}

/// Calls `look` with the watched space that `addr` belongs to. No lock, no heap.
pub(super) fn with_space_of<T>(addr: usize, look: impl Fn(&dyn WatchedSpace) -> T) -> Option<T> {
    ALL.find_map(|space| space.contains(addr).then(|| look(&**space)))
}
