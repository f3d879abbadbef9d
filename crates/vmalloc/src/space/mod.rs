//! The space: areas of one span of addresses, on a platform's memory.
//!
//! ```text
//!   alloc:   check ─► retained area of this size? ──yes──► revive
//!                          │no
//!                          ▼
//!                     area map: lowest fit ──full──► purge all, wait, once more ──full──► error
//!                          │
//!                          ▼
//!                     platform: map ──fails──► free the area, purge all, once more ──fails──► error
//!
//!   vfree:   retire ─► retained (budget) or lazy ─► above the threshold: drain later, or purge  (see `purge`)
//! ```
//!
//! # Locks
//! - `purge_lock`, taken first: one purge at a time. It is held over calls of the platform.
//! - `state`, taken last and briefly: the area map and everything counted beside it. Nothing foreign runs under it.
//!
//! # Records
//! An area's range and state are bits in the area map. What else is known of it (a caller's tag, bytes less than
//! whole pages, a missing guard, another kind than [`Kind::Vmalloc`]) is a *note*, and plain areas have none.

mod alloc;
mod buffer;
mod config;
mod free;
mod info;
mod purge;
mod request;
mod retained;
mod state;

pub use buffer::{Buffer, Content, Stale, Zeroed};
pub use config::Config;
pub use info::{AreaInfo, Areas, Busy, Stats, Vmallocinfo};
pub use purge::Rest;
pub use request::Request;

use crate::addr::PageRange;
use crate::area_map::{AreaMap, Violation};
use crate::error::{FreeError, SpaceError};
use crate::platform::Platform;
use state::State;

/// What an area is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Memory of its own.
    Vmalloc,
    /// Addresses only.
    Reserved,
}

/// One span of addresses on a platform's memory. All methods may be called from any thread.
pub struct Space<P: Platform> {
    platform: P,
    config: Config,
    shift: u32,
    lazy_max: u64,
    purge_lock: lock_api::Mutex<P::RawLock, ()>,
    state: lock_api::Mutex<P::RawLock, State>,
}

/// `ceil(log2)` + 1 in the kernel's sense: the position of the highest bit, counted from one.
fn fls(value: usize) -> u64 {
    u64::from(usize::BITS - value.leading_zeros())
}

/// `span`, if each of its pages has an address that is neither null nor out of reach, and so has its end.
fn check_span(span: PageRange, page_shift: u32) -> Result<PageRange, SpaceError> {
    if span.start() == 0 {
        return Err(SpaceError::NullPage { span });
    }
    if span.end() > usize::MAX as u64 >> page_shift {
        return Err(SpaceError::BeyondAddresses { span, page_shift });
    }
    Ok(span)
}

impl<P: Platform> Space<P> {
    /// A space over the platform's span, all of it free. O(1), however large the span.
    ///
    /// # Errors
    /// [`SpaceError`]: the span holds page 0 or ends behind the last address, or memory for metadata is short.
    pub fn new(platform: P, config: Config) -> Result<Self, SpaceError> {
        let shift = platform.page_shift();
        let span = check_span(platform.span(), shift)?;
        let map = AreaMap::new(span).map_err(|_| SpaceError::Metadata)?;
        let lazy_max = match config.lazy_max_pages {
            0 => (32 << 20 >> shift) * fls(platform.cpus()),
            pages => pages,
        };
        let state = State::new(map, (config.retain_bytes >> shift) as u64);
        let (purge_lock, state) = (lock_api::Mutex::new(()), lock_api::Mutex::new(state));
        Ok(Self { platform, config, shift, lazy_max, purge_lock, state })
    }

    /// The platform below.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    #[inline]
    fn addr(&self, page: u64) -> usize {
        (page << self.shift) as usize
    }

    /// The page that `addr` starts.
    #[inline]
    fn page(&self, addr: usize) -> Result<u64, FreeError> {
        if addr & ((1 << self.shift) - 1) != 0 {
            return Err(FreeError::Unaligned { addr });
        }
        Ok((addr >> self.shift) as u64)
    }

    /// Whether `addr` lies in this space, allocated or not. No lock.
    pub fn is_vmalloc_addr(&self, addr: usize) -> bool {
        self.platform.span().contains((addr >> self.shift) as u64)
    }

    /// Checks every invariant, and that the counts agree with the map. O(n), under the lock: for tests.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn verify(&self) -> Result<(), Violation> {
        let state = self.state.lock();
        state.map.verify()?;
        state.verify_counts()
    }

    /// Holds all locks of the space, for a `fork`, until [`resume`](Self::resume). Waits for a purge under way; a thread that
    /// calls it twice, or allocates in between, waits for itself.
    pub fn quiesce(&self) {
        core::mem::forget(self.purge_lock.lock());
        core::mem::forget(self.state.lock());
    }

    /// Ends what [`quiesce`](Self::quiesce) began.
    ///
    /// # Safety
    /// The calling thread, or the thread it was forked from, has called `quiesce` and not yet `resume`.
    pub unsafe fn resume(&self) {
        // SAFETY: by the caller's promise this thread holds both locks.
        unsafe {
            self.state.force_unlock();
            self.purge_lock.force_unlock();
        }
    }
}
