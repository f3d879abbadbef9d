//! The spaces that reports look into.

use crate::fork::{hooks, locks};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
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

/// A place for a watched space. The thread that takes the space out waits until no reader looks
/// into it. The readers carry the generation of their process, for the child of a fork does not
/// have them.
#[derive(Debug)]
struct WatchSlot {
    space: AtomicPtr<Held>,
    /// A word of [`Readers`].
    readers: AtomicU64,
}

static ALL: [WatchSlot; SLOTS] =
    [const { WatchSlot { space: AtomicPtr::new(ptr::null_mut()), readers: AtomicU64::new(0) } }; SLOTS];

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
pub struct Watch(&'static WatchSlot);

/// Has reports look into `space`, which stays alive as long.
///
/// # Errors
/// [`WatchError`] when as many spaces are watched as can be.
pub fn watch<P: Platform + 'static>(space: &Arc<Space<P>>) -> Result<Watch, WatchError>
where
    Space<P>: Send + Sync,
{
    // A space of Linux has done that before. Where it fails for another, a child of a fork may wait
    // for readers that it does not have.
    let _ = hooks::install();
    let held: Box<Held> = Box::new(Arc::<Space<P>>::clone(space));
    let held = Box::into_raw(held);
    // Release: pairs with the load of a reader, which follows the pointer.
    let enter = |slot: &&'static WatchSlot| {
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
        while self.0.is_read() {
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

impl WatchSlot {
    fn with<T>(&self, look: impl FnOnce(&dyn Watched) -> Option<T>) -> Option<T> {
        let mut generation = 0;
        // SeqCst: see the drop of a watch.
        self.change_readers(Ordering::SeqCst, |readers| {
            // At each try: a child's readers are replaced by none of its parent.
            generation = own_generation();
            Some(readers.entered(generation))
        });
        let space = self.space.load(Ordering::SeqCst);
        // SAFETY: null, or what `watch` has made. It is there until the count is back.
        let found = unsafe { space.as_ref() }.and_then(|space| look(&**space));
        // Release: the look comes before the end of the space.
        self.change_readers(Ordering::Release, |readers| readers.left(generation));
        found
    }

    fn change_readers(&self, order: Ordering, mut change: impl FnMut(Readers) -> Option<Readers>) {
        let change = |word| change(Readers::from_word(word)).map(Readers::word);
        // The count is left alone where `change` says so.
        let _ = self.readers.fetch_update(order, Ordering::Relaxed, change);
    }

    /// Returns true while a thread of this process looks into the space.
    fn is_read(&self) -> bool {
        let readers = Readers::from_word(self.readers.load(Ordering::SeqCst));
        readers.count != 0 && readers.generation == own_generation()
    }
}

/// Returns the generation of this process, as readers carry it.
fn own_generation() -> u32 {
    locks::generation() as u32
}

/// The readers of a space, all of one process.
#[derive(Clone, Copy, Debug)]
struct Readers {
    generation: u32,
    count: u32,
}

impl Readers {
    fn from_word(word: u64) -> Self {
        Self { generation: (word >> 32) as u32, count: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.count)
    }

    /// Returns them with one more of this generation. Those of another one are not there.
    fn entered(self, generation: u32) -> Self {
        let others = if self.generation == generation { self.count } else { 0 };
        Self { generation, count: others + 1 }
    }

    /// Returns them with one fewer of this generation; `None` if they are of another one: a signal
    /// handler has interrupted the reader and forked, and there are new readers in its child.
    fn left(self, generation: u32) -> Option<Self> {
        (self.generation == generation).then(|| Self { generation, count: self.count - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinuxOptions, open};
    use vmalloc::SpaceOptions;

    #[test]
    #[cfg_attr(miri, ignore = "it forks")]
    fn a_child_of_a_fork_counts_its_own_readers_alone() {
        let space = open(LinuxOptions::new().exactly(1 << 30), SpaceOptions::default()).unwrap();
        let watch = watch(&space).unwrap();
        let slot = watch.0;
        let counts_one = || slot.with(|_| Some(slot.is_read())) == Some(true) && !slot.is_read();
        // As a handler does that interrupts a reader.
        let fork = |_: &dyn Watched| {
            // SAFETY: the child takes no lock, and exits.
            let pid = unsafe { libc::fork() };
            Some((pid, pid != 0 || (!slot.is_read() && counts_one())))
        };
        let (pid, well) = slot.with(fork).unwrap();
        let well = well && !slot.is_read() && counts_one();
        if pid == 0 {
            // SAFETY: no conditions.
            unsafe { libc::_exit(i32::from(!well)) };
        }
        assert!(well);
        let mut status = 0;
        // SAFETY: room for a status; the child is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0, "the child counts readers that are not there, or misses its own");
    }
}
