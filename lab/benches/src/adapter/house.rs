//! A space that is ready for use, with its drains: by its callers, or by a thread of its own.

use crate::ranges::span;
use lock_api::RawMutex;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use vmalloc::{DrainReason, DrainStatus, Platform, Space, SpaceOptions};
use vmalloc_kit::null::{ByCallers, CpuHint, Drains, NullPlatform};

/// Locks of a space.
pub trait SpaceLock: RawMutex + Send + Sync + 'static {}

impl<L: RawMutex + Send + Sync + 'static> SpaceLock for L {}

/// A space over a platform that does nothing, with whatever drains it.
pub trait House: Deref<Target = Space<Self::Platform>> + Sized {
    /// The platform of the space.
    type Platform: Platform;
    /// How tables name it: when it caches, and when it unmaps.
    const NAMES: [&'static str; 2];

    /// An empty one.
    ///
    /// # Panics
    /// When there is no memory for its metadata.
    fn open(options: SpaceOptions) -> Self;
}

/// Drained by its callers.
#[derive(Debug)]
pub struct Plain<P>(P);

impl<P> Deref for Plain<P> {
    type Target = P;
    #[inline(always)]
    fn deref(&self) -> &P {
        &self.0
    }
}

/// A space whose frees purge by themselves when much is lazy.
pub type Caller<L, C> = Plain<Space<NullPlatform<L, C>>>;

impl<L: SpaceLock, C: CpuHint + Default> House for Caller<L, C> {
    type Platform = NullPlatform<L, C>;
    const NAMES: [&'static str; 2] = ["vmalloc Space", "vmalloc Space, unmap"];

    fn open(options: SpaceOptions) -> Self {
        let platform = NullPlatform::new(span(), C::default(), ByCallers);
        Self(Space::new(platform, options).expect("metadata for an empty space"))
    }
}

/// A space with a thread that drains it when asked to, and then by age, as `vmalloc_linux::open`
/// has them: no free waits for a purge, unless frees outrun the thread.
pub struct Drained<L: SpaceLock, C: CpuHint + 'static> {
    space: Arc<Space<NullPlatform<L, C, Bell>>>,
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

impl<L: SpaceLock, C: CpuHint> Deref for Drained<L, C> {
    type Target = Space<NullPlatform<L, C, Bell>>;
    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.space
    }
}

impl<L: SpaceLock, C: CpuHint + Default + Send> House for Drained<L, C> {
    type Platform = NullPlatform<L, C, Bell>;
    const NAMES: [&'static str; 2] = ["vmalloc Space, drain thread", "vmalloc Space, unmap, drain thread"];

    fn open(options: SpaceOptions) -> Self {
        let (bell, rings) = mpsc::channel();
        let bell = Bell(bell);
        let platform = NullPlatform::new(span(), C::default(), bell.clone());
        let space = Arc::new(Space::new(platform, options).expect("metadata for an empty space"));
        let drained = Arc::clone(&space);
        let thread = std::thread::spawn(move || drain(&rings, &drained));
        Self { space, bell, thread: Some(thread) }
    }
}

impl<L: SpaceLock, C: CpuHint> Drop for Drained<L, C> {
    fn drop(&mut self) {
        // Fails if the thread has panicked, which is passed on.
        let _ = self.bell.0.send(None);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The life of the thread: as that of a space on Linux, between two drains by age it sleeps for a
/// second.
fn drain<P: Platform>(rings: &Receiver<Option<DrainReason>>, space: &Space<P>) {
    const TICK: Duration = Duration::from_secs(1);
    loop {
        let rest = space.drain().expect("it refuses nothing");
        // A sender is in the space, so a wait only ends by a ring or with its time.
        let sleep = || rings.recv_timeout(TICK).unwrap_or(Some(DrainReason::Threshold));
        let is_rest = rest == DrainStatus::More;
        let ring = if is_rest { sleep() } else { rings.recv().ok().flatten() };
        let ring = if !is_rest && ring == Some(DrainReason::Age) { sleep() } else { ring };
        if ring.is_none() {
            return;
        }
    }
}

/// Wakes the thread: to drain, or to end.
#[derive(Clone, Debug)]
pub struct Bell(Sender<Option<DrainReason>>);

impl Drains for Bell {
    fn drain_later(&self, due: DrainReason) -> bool {
        self.0.send(Some(due)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use vmalloc::Request;
    use vmalloc_kit::null::FirstCpu;
    use vmalloc_kit::null::PAGE_SHIFT;
    use vmalloc_linux::FutexLock;

    #[test]
    fn the_thread_drains_what_callers_leave_and_ends_with_the_house() {
        const LAZY_MAX: u64 = 1000;
        let house = Drained::<FutexLock, FirstCpu>::open(
            SpaceOptions::default().unmap_on_free().lazy_max_pages(LAZY_MAX),
        );
        let request = Request::new(100 << PAGE_SHIFT);
        let deadline = Instant::now() + Duration::from_secs(50);
        while house.stats().purges == 0 {
            let addr = house.raw().alloc(&request).expect("space");
            // SAFETY: no memory is behind the area.
            unsafe { house.raw().free(addr) }.expect("a live area");
            assert!(Instant::now() < deadline, "waited in vain for a drain");
        }
        let space = Arc::downgrade(&house.space);
        drop(house);
        assert_eq!(space.strong_count(), 0);
    }
}
