//! Sub-spaces: one platform's span, divided among named children, each a full [`Space`].
//!
//! ```text
//!   Space "modules"     Space "jit"              Space …        each with its own range, direction, protection and limit
//!        │                  │                      │
//!   Child ── Ledger    Child ── Ledger        Root of a Child: nested
//!        └──────────┬───────┴──────────────────────┘
//!                 Root: the Plan (who has which range)
//!                   │
//!                Platform                                          memory, flush, lock
//! ```
//!
//! A [`Child`] is a platform like any other: it hands everything on to the one below, but has a span of its own and keeps a ledger of what is mapped
//! in it. So a space needs to know nothing of all this, and a child can be divided again.
//!
//! # Invariants
//! - **R1** The ranges of children are disjoint and inside the span: they are busy areas of one area map.
//! - **R2** No two children have the same name.
//! - **R3** A ledger holds every page through which anything may be reachable: entered before it is mapped, taken out
//!   when it has been flushed.
//! - **R4** A range is given to the next child only when everything in its ledger has been unmapped and flushed. Where the
//!   platform fails at that after a child was dropped, the range [lingers](Tenure::Lingering).
//!
//! # The end of a child
//! When its space is dropped, whatever is mapped in it is unmapped and flushed, and its range is free again. That holds for
//! memory that is still handed out, too: it ends with its space, as it does when the space of a whole platform is dropped.
//! Safe code can't hold any ([`Buffer`](crate::Buffer) borrows its space); who has kept a bare address has a
//! dangling one. [Frames](crate::Frames) that were taken are not tracked: they are the supply's, and stay taken until they are given
//! back. The platform itself lives until the root and all children are gone.
//!
//! # Locks
//! The sweeper is held over calls of the platform, and taken only where a child is made while
//! something lingers. Of the others none is, and none is held while another is taken: the plan,
//! touched when a child comes or goes; a ledger, for each call that maps or flushes. All come after
//! the locks of the spaces over the root's children, and before those of the platform, which may be
//! a child of another root.
//!
//! # Forks
//! [`Root::quiesce`] takes the sweeper, the plan, and then every ledger. So the child of a fork
//! finds no sweep and no change of a plan or ledger half done. What other threads were doing
//! between two locks, it finds so:
//!
//! | another thread was | what the child finds | what it does about it |
//! |---|---|---|
//! | making a sub-space | its entry, [`Changing`](Tenure::Changing) | lets it [linger](Tenure::Lingering), so that it is swept |
//! | taking a dropped one back | the same, and what is left in the ledger | the same |
//! | mapping, with pages entered that are not mapped, or refused and not taken out | pages in the ledger (R3) | nothing: the area is that thread's for ever, and its pages count |
//! | moving pages | both places in the ledger | nothing, as above |
//! | flushing, and not yet taking out | nothing of the kind: a purge holds its space's purger, which was waited for | |
//! | the owner of a sub-space | a live entry | nothing: what a thread owns that the child does not have is lost to it |

mod child;
mod error;
mod fork;
mod ledger;
mod plan;

pub use child::{Child, Protected, Writable};
pub use error::ChildError;
pub use fork::WeakRoot;
pub use plan::{Site, Tenure};

use crate::addr::PageRange;
use crate::counted::Counted;
use crate::error::{AllocError, SpaceError};
use crate::platform::{Platform, PlatformError, Protection};
use crate::space::{Config, Space, check_span};
use ledger::Ledger;
use lock_api::Mutex;
use plan::{Entry, Plan};

/// The [`PlatformError::call`] of a child that would have more mapped than its limit allows.
pub const LIMIT_BYTES: &str = "limit_bytes of the sub-space";
/// The same where there was no memory for a ledger.
const CALL: &str = "record of mapped pages";

/// A platform that can be divided: it goes from thread to thread with its children.
pub trait Divisible: Platform<RawLock: Send + Sync, PurgeLock: Send + Sync> + Send {}

impl<P: Platform<RawLock: Send + Sync, PurgeLock: Send + Sync> + Send> Divisible for P {}

/// What a child may do.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ChildConfig {
    /// The settings of its space. [`Config::policy`] is its direction. Default: those of any space.
    pub config: Config,
    /// The most bytes that may be mapped in it, cached ones included, whole pages of it; beyond, an allocation ends as
    /// [`Unbacked`](crate::Unbacked), with [`LIMIT_BYTES`]. Default: none.
    pub limit_bytes: Option<usize>,
}

impl ChildConfig {
    /// The same with other settings for its space.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// The same with at most so many bytes mapped.
    #[must_use]
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit_bytes = Some(bytes);
        self
    }
}

/// What a root knows of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChildInfo {
    /// Its name.
    pub name: &'static str,
    /// Its pages.
    pub range: PageRange,
    /// The most bytes that may be mapped in it.
    pub limit_bytes: Option<usize>,
    /// Bytes mapped in it, or not flushed yet.
    pub used_bytes: usize,
    /// Whether it lives.
    pub tenure: Tenure,
}

/// What a root and its children share.
struct Shared<P: Platform> {
    platform: P,
    plan: Mutex<P::RawLock, Plan<P::RawLock>>,
    sweeper: Mutex<P::PurgeLock, ()>,
}

/// A platform whose span is divided among named sub-spaces. See the [module's documentation](self).
///
/// ```
/// use vmalloc::root::{ChildConfig, Root, Site};
/// use vmalloc::{Config, Platform, Policy};
///
/// fn divide<P: Platform<RawLock: Send + Sync, PurgeLock: Send + Sync> + Send>(platform: P) -> Result<(), Box<dyn std::error::Error>> {
///     let root = Root::new(platform)?;
///     let modules = root.child("modules", Site::highest(16 << 20), ChildConfig::default().limit(8 << 20))?;
///     let upwards = ChildConfig::default().config(Config::default().place(Policy::Highest));
///     let windows = root.child("windows", Site::lowest(1 << 30).align(1 << 21), upwards)?;
///     let module = modules.alloc(&vmalloc::Request::new(100_000))?;
///     assert!(modules.is_vmalloc_addr(module) && !windows.is_vmalloc_addr(module));
///     assert_eq!(root.children().map(|child| child.name).collect::<Vec<_>>(), ["windows", "modules"]);
///     Ok(())
/// }
/// ```
pub struct Root<P: Platform> {
    shared: Counted<Shared<P>>,
}

impl<P: Divisible> Root<P> {
    /// A root over the platform's span, all of it free.
    ///
    /// # Errors
    /// [`SpaceError`]: the span holds page 0 or ends behind the last address, or memory for metadata is short.
    pub fn new(platform: P) -> Result<Self, SpaceError> {
        let span = check_span(platform.geometry().span, platform.geometry().page_shift)?;
        let plan = Mutex::new(Plan::new(span).map_err(|_| SpaceError::Metadata)?);
        let shared = Shared { platform, plan, sweeper: Mutex::new(()) };
        Ok(Self { shared: Counted::new(shared).map_err(|_| SpaceError::Metadata)? })
    }

    /// The platform below.
    pub fn platform(&self) -> &P {
        &self.shared.platform
    }

    /// A space of its own in a part of the span, which it keeps until it is dropped.
    ///
    /// # Errors
    /// [`ChildError`] names the sibling in the way; nothing is changed.
    pub fn child(
        &self,
        name: &'static str,
        site: Site,
        config: ChildConfig,
    ) -> Result<Space<Child<P>>, ChildError> {
        let space = Space::new(self.make(name, site, config.limit_bytes)?, config.config)?;
        space.platform().is_made();
        Ok(space)
    }

    /// The same where memory is mapped with `protection` from the beginning. Nothing is cached there: what can't be
    /// written can't be cleared for the next.
    ///
    /// Memory of such a space is no [`DirectMemory`](crate::DirectMemory). For code, take a [`child`](Self::child), write,
    /// and [protect](crate::Protect::protect) what was written.
    ///
    /// # Errors
    /// As for [`child`](Self::child).
    pub fn protected_child(
        &self,
        name: &'static str,
        site: Site,
        protection: Protection,
        config: ChildConfig,
    ) -> Result<Space<Child<P, Protected>>, ChildError> {
        let child = self.make(name, site, config.limit_bytes)?.protected(protection);
        let space = Space::new(child, config.config.unmap_on_free())?;
        space.platform().is_made();
        Ok(space)
    }

    /// A part of the span as a platform, to be divided again or for a space of one's own making.
    ///
    /// # Errors
    /// As for [`child`](Self::child).
    pub fn lend(
        &self,
        name: &'static str,
        site: Site,
        limit_bytes: Option<usize>,
    ) -> Result<Child<P>, ChildError> {
        let child = self.make(name, site, limit_bytes)?;
        child.is_made();
        Ok(child)
    }

    /// Makes a part of the span that is still [`Changing`](Tenure::Changing).
    fn make(
        &self,
        name: &'static str,
        site: Site,
        limit_bytes: Option<usize>,
    ) -> Result<Child<P>, ChildError> {
        let shift = self.platform().geometry().page_shift;
        let spot = site.check(shift)?;
        self.sweep();
        let limit = limit_bytes.map_or(u64::MAX, |bytes| (bytes >> shift) as u64);
        let entry = |range| {
            let ledger = Mutex::new(Ledger::new(range, limit)?);
            let ledger = Counted::new(ledger).map_err(|_| AllocError::Metadata)?;
            Ok::<_, AllocError>(Entry { name, range, limit_bytes, ledger, tenure: Tenure::Changing })
        };
        let Entry { range, ledger, .. } = self.shared.plan.lock().grant(name, &spot, entry)?;
        Ok(Child::new(self.shared.clone(), range, ledger))
    }

    /// The children in address order. The lock is taken anew for each: those that come or go meanwhile may or may not be seen.
    pub fn children(&self) -> impl Iterator<Item = ChildInfo> + '_ {
        let mut page = 0;
        core::iter::from_fn(move || {
            let entry = self.shared.plan.lock().at_or_behind(page).cloned()?;
            page = entry.range.end();
            Some(self.info(&entry))
        })
    }

    fn info(&self, entry: &Entry<P::RawLock>) -> ChildInfo {
        let Entry { name, range, limit_bytes, tenure, .. } = *entry;
        let used_bytes = (entry.ledger.lock().used() << self.platform().geometry().page_shift) as usize;
        ChildInfo { name, range, limit_bytes, used_bytes, tenure }
    }

    /// Takes back what lingers, as far as the platform does it now.
    fn sweep(&self) {
        if self.children().all(|child| child.tenure != Tenure::Lingering) {
            return;
        }
        let _sweeper = self.shared.sweeper.lock();
        for child in self.children().filter(|child| child.tenure == Tenure::Lingering) {
            let entry = self.shared.plan.lock().at_or_behind(child.range.start()).cloned();
            // Only the sweeper takes lingering ranges back, so it is still there.
            if let Some(entry) = entry.filter(|entry| entry.range == child.range) {
                self.shared.take_back(entry.range, &entry.ledger);
            }
        }
    }
}

impl<P: Platform> Shared<P> {
    /// Takes back the range of a child that nobody uses any more.
    fn take_back(&self, range: PageRange, ledger: &Mutex<P::RawLock, Ledger>) {
        // From here to the end: a child of a fork sees that somebody was at it.
        self.plan.lock().set(range, Tenure::Changing);
        let left = ledger.lock().bounds();
        match left.map_or(Ok(()), |left| self.unmap_and_flush(left)) {
            Ok(()) => self.plan.lock().release(range),
            Err(_) => self.plan.lock().set(range, Tenure::Lingering),
        }
    }

    fn unmap_and_flush(&self, left: PageRange) -> Result<(), PlatformError> {
        // SAFETY: the range is that of a child which is gone, and so are all who had memory in it; by R1 nobody else has any of
        // it, and by R4 nobody gets it before this has succeeded.
        unsafe {
            self.platform.unmap(&[left])?;
            self.platform.flush(&[left])
        }
    }
}

#[cfg(test)]
mod tests;
