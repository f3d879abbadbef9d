//! A platform whose span is divided.

use crate::counted::Counted;
use crate::mapped_set::MappedSet;
use crate::plan::{Entry, Part, Plan};
use crate::{Protected, Subspace, SubspaceError, SubspaceInfo, SubspaceState};
use lock_api::Mutex;
use vmalloc::{
    FitError, PageRange, Platform, PlatformError, Protection, Request, Space, SpaceError, SpaceOptions,
};

/// The [`PlatformError::call`] of a sub-space that would have more mapped than its limit allows.
pub const LIMIT_BYTES: &str = "limit_bytes of the sub-space";

/// A platform that can be divided: it goes from thread to thread with its sub-spaces.
pub trait Divisible: Platform<RawLock: Send + Sync, PurgeLock: Send + Sync> + Send {}

impl<P: Platform<RawLock: Send + Sync, PurgeLock: Send + Sync> + Send> Divisible for P {}

/// A platform whose span is divided among named sub-spaces. See the
/// [crate's documentation](crate).
///
/// ```
/// use vmalloc::{Policy, Request, SpaceOptions};
/// use vmalloc_subspaces::{Divisible, Root};
///
/// fn divide(platform: impl Divisible) -> Result<(), Box<dyn std::error::Error>> {
///     let root = Root::new(platform)?;
///     let (high, plain) = (Request::new(16 << 20).policy(Policy::Highest), SpaceOptions::default());
///     let modules = root.subspace("modules", &high, Some(8 << 20), plain)?;
///     let down = plain.policy(Policy::Highest);
///     let windows = root.subspace("windows", &Request::new(1 << 30).align(1 << 21), None, down)?;
///     let module = modules.raw().alloc(&Request::new(100_000))?;
///     assert!(modules.contains(module) && !windows.contains(module));
///     let names: Vec<_> = root.subspaces().map(|subspace| subspace.name).collect();
///     assert_eq!(names, ["windows", "modules"]);
///     Ok(())
/// }
/// ```
pub struct Root<P: Platform> {
    pub(crate) shared: Counted<Shared<P>>,
}

/// The part that a root and its sub-spaces share.
pub(crate) struct Shared<P: Platform> {
    pub(crate) platform: P,
    pub(crate) plan: Mutex<P::RawLock, Plan<P::RawLock>>,
    /// Held while lingering ranges are reclaimed.
    pub(crate) sweeper: Mutex<P::PurgeLock, ()>,
}

impl<P: Divisible> Root<P> {
    /// Returns a root over the platform's span, all of it free.
    ///
    /// # Errors
    /// [`SpaceError`]: the span holds page 0 or ends behind the last address, or memory for
    /// metadata is short.
    pub fn new(platform: P) -> Result<Self, SpaceError> {
        let geometry = platform.geometry();
        SpaceError::check_span(&geometry)?;
        let plan = Mutex::new(Plan::new(&geometry).map_err(|_| SpaceError::Metadata)?);
        let shared = Shared { platform, plan, sweeper: Mutex::new(()) };
        Ok(Self { shared: Counted::new(shared).map_err(|_| SpaceError::Metadata)? })
    }

    /// Returns the platform below.
    pub fn platform(&self) -> &P {
        &self.shared.platform
    }

    /// Makes a space in a part of the span, which it keeps until it is dropped. Of the request,
    /// size, alignment, limits and policy count, so [`Request::near`] asks for addresses next to
    /// others. Limits of just its size ask for that one place.
    /// [`SpaceOptions::policy`] is the direction of the space.
    ///
    /// With `limit_bytes`, no more may be mapped in it, cached memory included, rounded down to
    /// pages. Beyond it, an allocation ends as [`Unbacked`](vmalloc::Unbacked), with
    /// [`LIMIT_BYTES`].
    ///
    /// # Errors
    /// [`SubspaceError`] names the sibling in the way; nothing is changed.
    pub fn subspace(
        &self,
        name: &'static str,
        request: &Request,
        limit_bytes: Option<usize>,
        options: SpaceOptions,
    ) -> Result<Space<Subspace<P>>, SubspaceError> {
        let space = Space::new(self.make(name, request, limit_bytes)?, options)?;
        space.platform().set_live();
        Ok(space)
    }

    /// Makes a space whose memory is mapped with `protection` from the beginning. It caches
    /// nothing, since memory that cannot be written cannot be cleared. Nor is it cleared on free:
    /// `SpaceOptions::zero_on_free` does not count here.
    ///
    /// Memory of such a space is no [`DirectMemory`](vmalloc::DirectMemory). For code, take a
    /// [`subspace`](Self::subspace), write, and [protect](vmalloc::Protect::protect) what was
    /// written.
    ///
    /// # Errors
    /// As for [`subspace`](Self::subspace), and [`SubspaceError::NotZeroed`].
    pub fn protected_subspace(
        &self,
        name: &'static str,
        request: &Request,
        limit_bytes: Option<usize>,
        protection: Protection,
        options: SpaceOptions,
    ) -> Result<Space<Subspace<P, Protected>>, SubspaceError> {
        if !self.platform().geometry().maps_zeroed {
            return Err(SubspaceError::NotZeroed);
        }
        let part = self.make(name, request, limit_bytes)?.protected(protection);
        let space = Space::new(part, options.unmap_on_free().zero_on_free(false))?;
        space.platform().set_live();
        Ok(space)
    }

    /// Makes a part of the span a platform of its own, to be divided again or to make a space on.
    ///
    /// # Errors
    /// As for [`subspace`](Self::subspace).
    pub fn divide(
        &self,
        name: &'static str,
        request: &Request,
        limit_bytes: Option<usize>,
    ) -> Result<Subspace<P>, SubspaceError> {
        let part = self.make(name, request, limit_bytes)?;
        part.set_live();
        Ok(part)
    }

    /// Makes a part of the span that is still [`Changing`](SubspaceState::Changing).
    fn make(
        &self,
        name: &'static str,
        request: &Request,
        limit_bytes: Option<usize>,
    ) -> Result<Subspace<P>, SubspaceError> {
        let shift = self.platform().geometry().page_shift;
        let fit = request.fit(shift)?;
        self.reclaim_lingering();
        let limit = limit_bytes.map_or(u64::MAX, |bytes| (bytes >> shift) as u64);
        let part = |range| {
            let mapped = Mutex::new(MappedSet::new(range, limit)?);
            Counted::new(Part { name, range, limit_bytes, mapped }).map_err(|_| FitError::Metadata)
        };
        let part = self.shared.plan.lock().insert(name, &fit, part)?;
        Ok(Subspace::new(self.shared.clone(), part))
    }

    /// Returns the sub-spaces in address order. It takes the lock again for each: those that come
    /// or go meanwhile may be missed or seen.
    pub fn subspaces(&self) -> impl Iterator<Item = SubspaceInfo> + '_ {
        self.entries().map(|entry| self.info(&entry))
    }

    fn entries(&self) -> impl Iterator<Item = Entry<P::RawLock>> + '_ {
        let mut page = 0;
        core::iter::from_fn(move || {
            let entry = self.shared.plan.lock().at_or_behind(page).cloned()?;
            page = entry.part.range.end();
            Some(entry)
        })
    }

    fn info(&self, entry: &Entry<P::RawLock>) -> SubspaceInfo {
        let Part { name, range, limit_bytes, ref mapped } = *entry.part;
        let (state, used) = (entry.state, mapped.lock().used());
        let used_bytes = (used << self.platform().geometry().page_shift) as usize;
        SubspaceInfo { name, range, limit_bytes, used_bytes, state }
    }

    /// Reclaims the lingering ranges, as far as the platform unmaps and flushes them now.
    fn reclaim_lingering(&self) {
        if !self.shared.plan.lock().has_lingering() {
            return;
        }
        // Only the holder of the sweeper removes lingering ranges, so each that is seen is there.
        let _sweeper = self.shared.sweeper.lock();
        for entry in self.entries().filter(|entry| entry.state == SubspaceState::Lingering) {
            self.shared.reclaim(&entry.part);
        }
    }
}

impl<P: Platform> Shared<P> {
    /// Reclaims the range of a sub-space that was dropped.
    pub(crate) fn reclaim(&self, part: &Part<P::RawLock>) {
        // From here to the end a child of a fork sees that a thread was at it.
        self.plan.lock().set_state(part, SubspaceState::Changing);
        let left = part.mapped.lock().bounds();
        match left.map_or(Ok(()), |left| self.unmap_and_flush(left)) {
            Ok(()) => self.plan.lock().remove(part),
            Err(_) => self.plan.lock().set_state(part, SubspaceState::Lingering),
        }
    }

    fn unmap_and_flush(&self, left: PageRange) -> Result<(), PlatformError> {
        // SAFETY: the range is that of a sub-space which was dropped, and its space and memory
        // ended with it. By SUB-1 no other sub-space has any of it, and by SUB-4 none gets it
        // before this has succeeded.
        unsafe {
            self.platform.unmap(&[left])?;
            self.platform.flush(&[left])
        }
    }
}
