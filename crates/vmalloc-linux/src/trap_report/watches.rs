//! The spaces that reports look into.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use thiserror::Error;
use vmalloc::{AreaInfo, Contended, Platform, Space};

/// The most spaces that are watched at once.
const SLOTS: usize = 64;

/// A space, as far as a report looks into it.
pub(super) trait Watched: Send + Sync {
    fn contains(&self, addr: usize) -> bool;
    fn page_bytes(&self) -> usize;
    fn try_find(&self, addr: usize) -> Result<Option<AreaInfo>, Contended>;
}

impl<P: Platform> Watched for Space<P>
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

type Held = Arc<dyn Watched>;

/// A place for a watched space. The thread that takes the space out waits until no handler looks
/// into it.
#[derive(Debug)]
struct Slot {
    space: AtomicPtr<Held>,
    readers: AtomicU32,
}

static ALL: [Slot; SLOTS] =
    [const { Slot { space: AtomicPtr::new(ptr::null_mut()), readers: AtomicU32::new(0) } }; SLOTS];

/// An error of [`watch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// As many spaces are watched as can be.
    #[error("64 spaces are watched already")]
    TooMany,
}

/// Keeps a space watched, and alive, until it is dropped.
#[derive(Debug)]
#[must_use = "reports look into the space as long as this is there"]
pub struct Watch(&'static Slot);

/// Has reports look into `space`, which stays alive as long.
///
/// # Errors
/// [`WatchError`] when as many spaces are watched as can be.
pub fn watch<P: Platform + 'static>(space: &Arc<Space<P>>) -> Result<Watch, WatchError>
where
    Space<P>: Send + Sync,
{
    let held: Box<Held> = Box::new(Arc::<Space<P>>::clone(space));
    let held = Box::into_raw(held);
    // Release: pairs with the load of a reader, which follows the pointer.
    let enter = |slot: &&'static Slot| {
        slot.space.compare_exchange(ptr::null_mut(), held, Ordering::Release, Ordering::Relaxed).is_ok()
    };
    ALL.iter().find(enter).map(Watch).ok_or_else(|| {
        // SAFETY: made just now, and entered nowhere.
        drop(unsafe { Box::from_raw(held) });
        WatchError::TooMany
    })
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SeqCst: of this exchange and a reader's count one comes first. Either the reader sees
        // that the space is gone, or its count is seen here.
        let held = self.0.space.swap(ptr::null_mut(), Ordering::SeqCst);
        while self.0.readers.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        // SAFETY: `watch` made it, and entered it here alone. No handler has seen it, or it has
        // finished.
        drop(unsafe { Box::from_raw(held) });
    }
}

/// Calls `look` with the watched space that `addr` belongs to. No lock, no heap.
pub(super) fn with_space_of<T>(addr: usize, look: impl Fn(&dyn Watched) -> T) -> Option<T> {
    ALL.iter().find_map(|slot| slot.with(|space| space.contains(addr).then(|| look(space))))
}

impl Slot {
    fn with<T>(&self, look: impl FnOnce(&dyn Watched) -> Option<T>) -> Option<T> {
        // SeqCst: see the drop of a watch.
        self.readers.fetch_add(1, Ordering::SeqCst);
        let space = self.space.load(Ordering::SeqCst);
        // SAFETY: null, or what `watch` has made. It is there until the count is back.
        let found = unsafe { space.as_ref() }.and_then(|space| look(&**space));
        // Release: the look comes before the end of the space.
        self.readers.fetch_sub(1, Ordering::Release);
        found
    }
}
