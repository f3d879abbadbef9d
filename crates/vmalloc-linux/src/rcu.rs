//! Freeing after a grace period: memory that threads may still be reading is freed when all of them
//! have finished.
//!
//! A reader pins itself while it reads. Memory that is given to a [`Grace`] is freed once every
//! thread that was pinned at that moment has unpinned. A thread that pins later can't have found
//! the memory, for it was unlinked before. (The kernel's `kvfree_rcu`. The epochs are those of
//! `crossbeam-epoch`, so its pins count as readers too.)
//!
//! ```text
//!    free, free_embedded                       a pin of any thread, now and then, or settle
//!          │ push                                          │
//!          ▼            all of it, as one batch            ▼
//!      arriving  ───────────────────────────►  in flight  ───► free each
//!     (a stack)      when nothing is in flight  (one closure)
//! ```
//!
//! # What holds
//! - G1: a record is on the stack of arrivals, in the batch in flight, or freed.
//! - G2: a batch is deferred after each of its records was pushed, so its grace period covers
//!   theirs.
//! - G3: one batch of a living `Grace` is in flight at a time. While it is, arrivals gather:
//!   batches grow with the rate of frees. The collector, which takes some 2 KiB from the heap for
//!   each deferred closure, is asked once a batch.
//!
//! A record is two words: the next one, and the area. It is embedded in the memory to be freed
//! where that has room for a [`Head`], and then freeing takes no heap of its own. Otherwise it
//! comes from the heap.
//!
//! # What does not
//! - No thread stands behind it. Batches are freed by threads that pin, defer or settle; when none
//!   does, they wait. A thread that frees while it is itself pinned holds up its own batches.
//! - A thread that stays pinned keeps all memory that is freed meanwhile, of all spaces.
//! - A `fork` copies pending frees, but not the threads: one that was pinned stays so in the child
//!   for ever. Pending memory may then never be freed there, but nothing is freed early.
//!   [`Grace::settle`] refuses to wait in a child.

use crate::open::SharedSpace;
use crate::os::futex::FutexLock;
use crate::os::own_descriptor::process;
use crossbeam_epoch::Guard;
use std::alloc::Layout;
use std::fmt;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use thiserror::Error;
use vmalloc::{FreeError, Kind};

/// A reader. Until it is dropped, nothing that was reachable when it began is freed. Pins nest, and
/// cost about 10 ns.
#[derive(Debug)]
#[must_use = "the reader ends when this is dropped"]
pub struct Pin(#[allow(dead_code, reason = "held for its drop")] Guard);

/// Begins to read, and returns the reader.
pub fn pin() -> Pin {
    Pin(crossbeam_epoch::pin())
}

/// Room for the record of a deferred free, embedded in the memory to be freed: 16 bytes.
#[repr(C)]
pub struct Head {
    next: *mut Head,
    /// Where the area starts, and [`ON_HEAP`] for a record that is not in the area itself.
    area: usize,
}

/// A bit that no area's address has: areas start at pages.
const ON_HEAP: usize = 1;

// SAFETY: a head is two words without meaning until it is given to a `Grace`, with the memory
// around it.
unsafe impl Send for Head {}
// SAFETY: as above; no method reads a head through a shared reference.
unsafe impl Sync for Head {}

impl Head {
    /// Makes a head, for memory that is in use.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: null_mut(), area: 0 }
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its words may be those of a record that another thread frees.
        f.debug_struct("Head").finish_non_exhaustive()
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

/// An error of a deferred free. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DeferError {
    /// The address is of no such area, as [`Raw::free`](vmalloc::Raw::free) would say.
    #[error(transparent)]
    Free(#[from] FreeError),
    /// The heap has no room for the record.
    #[error("no memory for the record of a deferred free")]
    Record,
}

/// An error of [`Grace::settle`]: waiting would be in vain, or frees were refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum SettleError {
    /// This thread is a reader itself, and would wait for itself.
    #[error("this thread is pinned")]
    Pinned,
    /// This process was forked off: readers of its parent never end here.
    #[error("this process was forked from the one that deferred")]
    Forked,
    /// Frees were refused when their time came, because the area had been freed elsewhere.
    #[error("{count} deferred frees were refused, the first with: {first}")]
    Refused {
        /// How many, since the beginning.
        count: u64,
        /// The error of the first one.
        first: FreeError,
    },
}

/// The deferred frees of one space.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use vmalloc_linux::rcu::{Grace, pin};
/// use vmalloc_linux::{LinuxOptions, open};
///
/// let space = open(LinuxOptions::new(), vmalloc::SpaceOptions::default())?;
/// let grace = Grace::new(&space);
/// let shared = AtomicUsize::new(space.raw().alloc(&vmalloc::Request::new(4096).zeroed())?);
///
/// let reader = pin();
/// let seen = shared.load(Ordering::Acquire) as *const u8;
/// // A writer unlinks the memory. No new reader finds it, this one still may read.
/// let old = shared.swap(0, Ordering::AcqRel);
/// // SAFETY: nothing leads to the memory any more, and it is freed once.
/// unsafe { grace.free(old) }?;
/// // SAFETY: this thread was pinned when it found the memory, and still is.
/// assert_eq!(unsafe { seen.read() }, 0);
/// drop(reader);
///
/// grace.settle()?;
/// assert_eq!(space.stats().busy_areas, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Grace {
    shared: Arc<Shared>,
}

impl Grace {
    /// Makes the deferred frees of `space`, which lives until the last of them.
    #[must_use]
    pub fn new(space: &SharedSpace) -> Self {
        Self { shared: Arc::new(Shared::new(space)) }
    }

    /// Frees the memory at `addr` after a grace period. The record comes from the heap. Until then
    /// the area is busy.
    ///
    /// # Safety
    /// Its owner calls this, once. From here on only readers that are pinned now may use the
    /// memory.
    ///
    /// # Errors
    /// [`DeferError`]; nothing is changed. A second free of the area before its time comes is not
    /// noticed here.
    pub unsafe fn free(&self, addr: usize) -> Result<(), DeferError> {
        let area = self.shared.start_of(addr)?;
        if area != addr {
            return Err(self.shared.interior(addr, area).into());
        }
        self.shared.defer(new_record(area)?);
        Ok(())
    }

    /// Frees the memory that holds `head` after a grace period; `head` becomes the record. Until
    /// then the area is busy, and readers may read all of it but the head.
    ///
    /// # Safety
    /// The conditions of [`free`](Self::free). And `head` is aligned and has 16 writable bytes,
    /// which nothing else uses from here on.
    ///
    /// # Errors
    /// [`FreeError`] when `head` is in no area that could be freed; nothing is changed.
    pub unsafe fn free_embedded(&self, head: NonNull<Head>) -> Result<(), FreeError> {
        let area = self.shared.start_of(head.as_ptr().addr())?;
        // SAFETY: by the caller's promise the head is aligned and writable, and nothing else uses
        // it.
        unsafe { head.write(Head { next: null_mut(), area }) };
        self.shared.defer(head);
        Ok(())
    }

    /// Returns how many frees are waiting.
    #[must_use]
    pub fn pending(&self) -> u64 {
        // Relaxed: a figure. Read in this order, so that it is never negative.
        let done = self.shared.done.load(Ordering::Relaxed);
        self.shared.deferred.load(Ordering::Relaxed).saturating_sub(done)
    }

    /// Waits until all frees that were deferred before are done: for all readers of now, and those
    /// of the batches before.
    ///
    /// # Errors
    /// [`SettleError`]: waiting would be in vain, or frees were refused.
    pub fn settle(&self) -> Result<(), SettleError> {
        if crossbeam_epoch::is_pinned() {
            return Err(SettleError::Pinned);
        }
        if self.shared.is_forked() {
            return Err(SettleError::Forked);
        }
        let target = self.shared.deferred.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `free`, so that what was freed is seen as free.
        while self.shared.done.load(Ordering::Acquire) < target {
            let guard = crossbeam_epoch::pin();
            self.shared.launch(&guard);
            guard.flush();
            drop(guard);
            std::thread::yield_now();
        }
        self.shared.refusals()
    }
}

impl fmt::Debug for Grace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grace").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl Drop for Grace {
    /// Leaves the pending frees to threads that pin later.
    fn drop(&mut self) {
        let guard = crossbeam_epoch::pin();
        self.shared.launch_arrivals(&guard);
    }
}

/// The stack of records that are in no batch yet: its top.
#[derive(Default)]
struct Arrivals(AtomicPtr<Head>);

impl Arrivals {
    fn push(&self, record: NonNull<Head>) {
        let mut top = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the record is this call's own until the exchange succeeds.
            unsafe { (*record.as_ptr()).next = top };
            // Release: pairs with the Acquire in `take`. Records leave the stack only all at once,
            // so a top that is the same again has the same below it.
            match self.0.compare_exchange_weak(top, record.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes all records out, and returns the first.
    fn take(&self) -> Option<NonNull<Head>> {
        // Acquire: pairs with the Release in `push`.
        NonNull::new(self.0.swap(null_mut(), Ordering::Acquire))
    }
}

/// The state that batches in flight share with their `Grace`.
struct Shared {
    space: SharedSpace,
    /// The process that it was made in. (A `Linux` has installed the handlers that count
    /// generations.)
    process: u64,
    arriving: Arrivals,
    in_flight: AtomicBool,
    /// Frees asked for so far; at least `done`.
    deferred: AtomicU64,
    /// Of those, how many were freed or refused.
    done: AtomicU64,
    /// Not locked in a child of a fork, where another thread may have held it, and `settle` refuses
    /// before it would look.
    refused: lock_api::Mutex<FutexLock, Option<(u64, FreeError)>>,
}

impl Shared {
    fn new(space: &SharedSpace) -> Self {
        Self {
            space: Arc::clone(space),
            process: process(),
            arriving: Arrivals::default(),
            in_flight: AtomicBool::new(false),
            deferred: AtomicU64::new(0),
            done: AtomicU64::new(0),
            refused: lock_api::Mutex::new(None),
        }
    }

    /// Returns true if this process is a child of the one that made it.
    fn is_forked(&self) -> bool {
        process() != self.process
    }

    /// Returns the start of the memory area that holds `addr`.
    fn start_of(&self, addr: usize) -> Result<usize, FreeError> {
        let area = self.space.find(addr).ok_or(FreeError::NotAnArea { addr })?;
        if area.kind == Kind::Vmalloc { Ok(area.addr) } else { Err(FreeError::WrongKind { addr }) }
    }

    /// Returns the error for a free of `addr`, inside the area at `start`.
    fn interior(&self, addr: usize, start: usize) -> FreeError {
        if addr % (1 << self.space.geometry().page_shift) == 0 {
            FreeError::Interior { addr, start }
        } else {
            FreeError::Unaligned { addr }
        }
    }

    /// Enters a record, and makes a batch of all arrivals if none is in flight. The pin also lets
    /// this thread do its part of collecting.
    fn defer(self: &Arc<Self>, record: NonNull<Head>) {
        let guard = crossbeam_epoch::pin();
        // Relaxed: before the record can be freed; `done` never overtakes it, for the push below
        // comes between.
        self.deferred.fetch_add(1, Ordering::Relaxed);
        self.arriving.push(record);
        self.launch(&guard);
    }

    /// Makes a batch of all arrivals, if none is in flight (G3).
    fn launch(self: &Arc<Self>, guard: &Guard) {
        // Acquire: pairs with the Release when a batch lands. Read first, which costs no exclusive
        // cache line.
        if self.in_flight.load(Ordering::Relaxed) || self.in_flight.swap(true, Ordering::Acquire) {
            return;
        }
        if !self.launch_arrivals(guard) {
            self.in_flight.store(false, Ordering::Release);
        }
    }

    /// Makes a batch of all arrivals, and returns true if records had arrived.
    fn launch_arrivals(self: &Arc<Self>, guard: &Guard) -> bool {
        let Some(batch) = self.arriving.take() else { return false };
        let batch = Batch { shared: Arc::clone(self), first: batch };
        // Two words: the collector keeps them in place.
        guard.defer(move || batch.free());
        // Out of this thread's bag, or no other thread could collect it.
        guard.flush();
        true
    }

    fn note_refusal(&self, error: FreeError) {
        if !self.is_forked() {
            self.refused.lock().get_or_insert((0, error)).0 += 1;
        }
    }

    fn refusals(&self) -> Result<(), SettleError> {
        match *self.refused.lock() {
            None => Ok(()),
            Some((count, first)) => Err(SettleError::Refused { count, first }),
        }
    }
}

/// The records whose grace period runs, or has passed.
struct Batch {
    shared: Arc<Shared>,
    first: NonNull<Head>,
}

// SAFETY: the records are the batch's own (G1), and areas may be freed by any thread.
unsafe impl Send for Batch {}

impl Batch {
    /// Frees all areas of the batch. The grace period has passed.
    fn free(self) {
        let Self { shared, first } = self;
        let (mut next, mut count) = (first.as_ptr(), 0);
        while !next.is_null() {
            let record = next;
            // SAFETY: G1: a record of this batch, not freed yet, and its next one is read before it
            // is.
            let Head { next: after, area } = unsafe { record.read() };
            next = after;
            if area & ON_HEAP != 0 {
                // SAFETY: it came from `new_record`, and was read for the last time.
                unsafe { std::alloc::dealloc(record.cast(), Layout::new::<Head>()) };
            }
            // SAFETY: `free` asks for an area that its owner frees once and nothing uses: the owner
            // gave it away, and G2: its readers have gone.
            if let Err(error) = unsafe { shared.space.raw().free(area & !ON_HEAP) } {
                shared.note_refusal(error);
            }
            count += 1;
        }
        // Release: pairs with the Acquire of `launch`, and of `settle` below.
        shared.in_flight.store(false, Ordering::Release);
        shared.done.fetch_add(count, Ordering::Release);
    }
}

/// Returns a record on the heap.
fn new_record(area: usize) -> Result<NonNull<Head>, DeferError> {
    // SAFETY: the layout is not of size zero.
    let memory = unsafe { std::alloc::alloc(Layout::new::<Head>()) };
    let record = NonNull::new(memory.cast::<Head>()).ok_or(DeferError::Record)?;
    // SAFETY: fresh memory of this layout.
    unsafe { record.write(Head { next: null_mut(), area: area | ON_HEAP }) };
    Ok(record)
}

#[cfg(test)]
mod tests;
