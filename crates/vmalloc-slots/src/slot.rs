//! The owner of one slot.

use crate::clear::Clearing;
use crate::dirty::Dirty;
use crate::error::SlotError;
use crate::pool::Slots;
use crate::record::{Pages, SlotState};
use core::fmt;
use core::mem::ManuallyDrop;
use stable_deref_trait::StableDeref;
use vmalloc::{AreaError, DirectMemory, Discard, SpaceRef};

/// A reference that always leads to the same pool: `&Slots<S>`, `Arc<Slots<S>>` and others that are
/// [`StableDeref`].
pub trait SlotsRef: StableDeref<Target = Slots<Self::Space>> {
    /// The reference to the space that the pool has.
    type Space: SpaceRef<Platform: Discard>;
}

impl<S: SpaceRef<Platform: Discard>, R: StableDeref<Target = Slots<S>>> SlotsRef for R {
    type Space = S;
}

/// An owned slot: fixed addresses, of which the first are memory. Dropping it frees it, on any
/// thread; [`free`](Self::free) does, and says what was written.
///
/// All that is committed reads as zero when the slot is handed out, and what is not committed
/// traps. With a pool in an `Arc` on a space in an `Arc`, a slot is `'static` and goes to other
/// threads.
///
/// The next owner gets the pages as this one leaves them. So code that locks or protects pages
/// undoes that before it frees the slot.
pub struct Slot<R: SlotsRef> {
    slots: R,
    index: usize,
    state: SlotState,
    user: Option<u64>,
}

impl<R: SlotsRef> Slot<R> {
    /// Allocates a slot: one that this CPU freed lately, or else the lowest free one, a new one, or
    /// one of those that wait. Without a system call if one is free. Else it takes a reservation
    /// and a commit, or a batch.
    ///
    /// # Errors
    /// [`SlotError`]; nothing is lost.
    pub fn new(slots: R) -> Result<Self, SlotError> {
        Self::obtain(slots, None)
    }

    /// Allocates a slot for `user`: preferably one that the same user freed lately, the last first.
    /// Its memory may be in the caches still. Else as [`new`](Self::new).
    ///
    /// # Errors
    /// [`SlotError`]; nothing is lost.
    pub fn new_for(slots: R, user: u64) -> Result<Self, SlotError> {
        Self::obtain(slots, Some(user))
    }

    fn obtain(slots: R, user: Option<u64>) -> Result<Self, SlotError> {
        let (index, state) = slots.on_space().obtain(user)?;
        Ok(Self { slots, index, state, user })
    }

    /// Returns the pool.
    pub fn slots(&self) -> &R {
        &self.slots
    }

    /// Returns the address of the first byte. It never changes.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.slots.on_space().layout.bytes(self.state.base)
    }

    /// Returns how far the slot can grow, in bytes: as many as were asked for, in whole pages.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a slot without bytes is not made")]
    pub fn len(&self) -> usize {
        self.slots.on_space().layout.bytes(self.slots.on_space().layout.slot)
    }

    /// Returns how many bytes from the start are memory now, in whole pages. A touch of the byte
    /// behind them traps.
    #[must_use]
    pub fn committed_bytes(&self) -> usize {
        self.slots.on_space().layout.bytes(self.state.committed)
    }

    /// Commits all pages up to byte `bytes`, which read as zero. The slot never moves, and never
    /// shrinks by this. One call of the platform.
    ///
    /// # Errors
    /// [`SlotError`]; nothing is changed.
    pub fn grow(&mut self, bytes: usize) -> Result<(), SlotError> {
        let pool = self.slots.on_space();
        let layout = &pool.layout;
        let pages = Pages { start: self.state.committed, end: layout.pages_of(bytes) };
        if pages.end > layout.slot {
            return Err(SlotError::Beyond { asked: bytes, slot: self.len() });
        }
        if !pages.is_empty() {
            // SAFETY: this owns the slot, and the pages are not committed (SLOT-2).
            unsafe { pool.commit(&mut self.state, pages) }?;
        }
        Ok(())
    }

    /// Makes everything that is committed read as zero, at once and without a batch, in the way
    /// that costs least if it is used again. The slot stays as large as it has grown.
    ///
    /// # Safety
    /// Nothing uses the memory meanwhile, and all bytes of it that are not zero are in `dirty`.
    ///
    /// # Errors
    /// [`AreaError`] when the platform refuses. Each page reads as zero or as before then, and is
    /// reset when the slot is freed, at the latest.
    pub unsafe fn reset(&mut self, dirty: Dirty<'_>) -> Result<(), AreaError> {
        let pool = self.slots.on_space();
        let (platform, limit) = (pool.space.platform(), self.state.committed);
        let clearing = Clearing { platform, layout: &pool.layout, limit, dirty };
        // SAFETY: this owns the slot; the caller promises the rest.
        unsafe { clearing.run(&mut self.state, pool.layout.keep) };
        if !self.state.discard.is_empty() {
            let range = pool.bytes(self.state.base, self.state.discard);
            // SAFETY: this owns the slot, the pages are committed, and nothing needs their content.
            unsafe { pool.space.raw().discard(&[range]) }?;
            self.state.discard = Pages::default();
        }
        Ok(())
    }

    /// Frees the slot, with all bytes of it that are not zero in `dirty`. A little is filled with
    /// zeros at once; much waits for a batch, and this may be the call that runs it.
    ///
    /// # Safety
    /// Nothing uses the slot any more, and all bytes of it that are not zero are in `dirty`: the
    /// next owner is promised zeros.
    pub unsafe fn free(self, dirty: Dirty<'_>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: this owned the slot; the caller promises the rest.
        unsafe { this.slots.on_space().give_up(this.index, this.state, dirty, this.user) };
        // SAFETY: the field is read once, and `this` is never dropped.
        drop(unsafe { core::ptr::read(&this.slots) });
    }
}

impl<R: SlotsRef<Space: SpaceRef<Platform: DirectMemory>>> Slot<R> {
    /// Returns the first byte as a pointer. Reading and writing through it takes `unsafe`: the code
    /// that does so keeps to what is committed, and to its own threads.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.addr())
    }
}

impl<R: SlotsRef> Drop for Slot<R> {
    fn drop(&mut self) {
        // SAFETY: this owned the slot and is gone; everything committed counts as written.
        unsafe { self.slots.on_space().give_up(self.index, self.state, Dirty::Unknown, self.user) };
    }
}

impl<R: SlotsRef> fmt::Debug for Slot<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("addr", &format_args!("{:#x}", self.addr()))
            .field("len", &self.len())
            .field("committed_bytes", &self.committed_bytes())
            .finish_non_exhaustive()
    }
}
