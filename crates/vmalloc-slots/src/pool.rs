//! The pool: which slot is handed out, and where a freed one goes.

use crate::clear::{Clearing, pages_at};
use crate::dirty::Dirty;
use crate::error::{SlotError, SlotsError};
use crate::free_set::FreeSet;
use crate::index_set::IndexSet;
use crate::options::{BeyondHead, Layout, SlotsOptions};
use crate::recent::Recent;
use crate::record::{Pages, Records, SlotState};
use crate::slot::Slot;
use crate::stats::{Counts, SlotsStats};
use crate::sync::AtomicUsize;
use crate::turns::Turns;
use alloc::sync::Arc;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, Range};
use core::sync::atomic::Ordering::Relaxed;
use vmalloc::{AreaError, Discard, FreeError, Notifier, Platform, Request, Space, SpaceRef};

/// Buckets in which the slots that users freed lately are remembered: 16 KiB.
const USER_BUCKETS: usize = 256;

/// Free slots that keep their addresses, for ever: a new slot costs as much as 50 that are reused,
/// and the mappings of so many are a 32nd of those that Linux gives a program.
const WARM: usize = 1024;

/// A pool of slots on a space: see the [crate's documentation](crate). Any thread may call any
/// method, and free any slot.
///
/// A [`Slot`] holds its pool by a reference or by an `Arc`, see [`Slot::new`]. When the pool is
/// dropped, the addresses and memory of all its slots go back to the space: behind a drain of the
/// space that is at work on the pool, if there is one.
pub struct Slots<S: SpaceRef<Platform: Discard>> {
    space: S,
    pool: ManuallyDrop<Arc<Pool>>,
}

/// The slots of a pool, without their space: it refers to them, and passes itself.
pub(crate) struct Pool {
    // Constant.
    pub(crate) options: SlotsOptions,
    pub(crate) layout: Layout,

    /// Indices that were ever used: the first that was not.
    used: AtomicUsize,
    pub(crate) vacant: IndexSet,
    pub(crate) free: FreeSet,
    pub(crate) waiting: IndexSet,
    /// Where the next batch begins among the waiting slots: behind the last one that was tried.
    pub(crate) next_waiting: AtomicUsize,
    pub(crate) records: Records,
    users: Recent,
    cpus: Recent,
    pub(crate) counts: Counts,
    turns: Turns,
}

/// A pool and its space.
pub(crate) struct PoolOn<'a, P: Platform> {
    pub(crate) space: &'a Space<P>,
    pool: &'a Pool,
}

impl<P: Platform> Deref for PoolOn<'_, P> {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        self.pool
    }
}

impl<S: SpaceRef<Platform: Discard>> Slots<S> {
    /// Makes a pool without slots. Each slot is reserved when it is first needed. O(1), and memory
    /// for [`SlotsOptions::max_slots`], which is not touched. Without a kilobyte for an `Arc` the
    /// program ends, as of any `Arc`.
    ///
    /// # Errors
    /// [`SlotsError`]; nothing is changed.
    pub fn new(space: S, options: SlotsOptions) -> Result<Self, SlotsError> {
        let layout = options.check(space.geometry())?;
        let (most, cpus, none) = (options.max_slots, space.geometry().cpus, SlotsError::Metadata);
        let pool = Arc::new(Pool {
            used: AtomicUsize::new(0),
            vacant: IndexSet::new(most).ok_or(none)?,
            free: FreeSet::new(most, cpus).ok_or(none)?,
            waiting: IndexSet::new(most).ok_or(none)?,
            next_waiting: AtomicUsize::new(0),
            records: Records::new(most).ok_or(none)?,
            users: Recent::new(USER_BUCKETS).ok_or(none)?,
            cpus: Recent::new(cpus).ok_or(none)?,
            counts: Counts::new(cpus, (options.resident_bytes >> layout.shift) as u64).ok_or(none)?,
            turns: Turns::new(),
            options,
            layout,
        });
        let notifier: Arc<dyn Notifier<S::Platform>> = Arc::<Pool>::clone(&pool);
        space.register_notifier(&notifier).map_err(|_| none)?;
        Ok(Self { space, pool: ManuallyDrop::new(pool) })
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        &self.space
    }

    /// Returns the options.
    pub fn options(&self) -> &SlotsOptions {
        &self.pool.options
    }

    /// Allocates a slot, as [`Slot::new`] does, for as long as the pool is borrowed.
    ///
    /// # Errors
    /// [`SlotError`]; nothing is lost.
    pub fn alloc(&self) -> Result<Slot<&Self>, SlotError> {
        Slot::new(self)
    }

    /// Allocates a slot for `user`, as [`Slot::new_for`] does, for as long as the pool is borrowed.
    ///
    /// # Errors
    /// [`SlotError`]; nothing is lost.
    pub fn alloc_for(&self, user: u64) -> Result<Slot<&Self>, SlotError> {
        Slot::new_for(self, user)
    }

    /// Returns figures of the pool, each true at its moment.
    pub fn stats(&self) -> SlotsStats {
        self.pool.stats()
    }

    /// Resets all waiting slots now: nothing of what their users wrote is left in memory then.
    /// Otherwise a drain of the space does that, once a second on Linux. O(waiting slots), with one
    /// discard and one decommit for each batch.
    ///
    /// # Errors
    /// [`AreaError`] when the platform refuses; the slots that it refuses to reset go on waiting.
    pub fn flush(&self) -> Result<(), AreaError> {
        let _turn = self.pool.turns.caller(self.space.generation());
        self.on_space().flush()
    }

    /// Resets all waiting slots, and gives free slots back to the space until `keep` are left, with
    /// their addresses and memory. O(waiting and free slots).
    ///
    /// # Errors
    /// As [`flush`](Self::flush); slots that can't be given back stay.
    pub fn trim(&self, keep: usize) -> Result<(), AreaError> {
        let _turn = self.pool.turns.caller(self.space.generation());
        self.on_space().trim(keep)
    }

    pub(crate) fn on_space(&self) -> PoolOn<'_, S::Platform> {
        self.pool.on(&self.space)
    }
}

impl Pool {
    pub(crate) fn on<'a, P: Platform>(&'a self, space: &'a Space<P>) -> PoolOn<'a, P> {
        PoolOn { space, pool: self }
    }

    fn stats(&self) -> SlotsStats {
        let reserved = self.used().saturating_sub(self.vacant.len());
        let (free, waiting) = (self.free.len(), self.waiting.len());
        self.counts.tell(self.layout.shift, SlotsStats { reserved, free, waiting, ..SlotsStats::default() })
    }

    /// Returns the end of the indices that were ever used.
    fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Gives everything back, if no other owner of the pool is left.
    fn end<P: Discard>(self: Arc<Self>, space: &Space<P>) {
        if let Some(pool) = Arc::into_inner(self) {
            pool.on(space).close();
        }
    }
}

impl<P: Discard> Notifier<P> for Pool {
    fn make_room(self: Arc<Self>, space: &Space<P>, _: u64) -> u64 {
        let before = self.stats().reserved;
        // Refused slots stay.
        let _ = self.on(space).trim(0);
        let pages = before.saturating_sub(self.stats().reserved) as u64 * self.layout.pages();
        self.end(space);
        pages
    }

    fn decay(self: Arc<Self>, space: &Space<P>) -> bool {
        let turn = self.turns.drain(space.generation());
        let mut is_left = self.free.unmark() || turn.is_none();
        if turn.is_some() {
            is_left |= self.on(space).cool();
            // Refused slots go on waiting.
            let _ = self.on(space).flush();
            is_left |= self.waiting.len() != 0 || self.free.len() > WARM;
        }
        drop(turn);
        self.end(space);
        is_left
    }
}

impl<P: Discard> PoolOn<'_, P> {
    /// Returns a slot that is the caller's alone, with its head committed.
    pub(crate) fn obtain(&self, user: Option<u64>) -> Result<(usize, SlotState), SlotError> {
        let cpu = self.space.platform().cpu();
        let index = match self.take_free(cpu, user) {
            Some(index) => index,
            None => self.make_or_reset(cpu, user)?,
        };
        let mut state = self.records.get(index);
        let (head, kept) = (Pages { start: state.committed, end: self.layout.head }, state.kept);
        if !head.is_empty() {
            // SAFETY: the slot is this call's (SLOT-1), and no page of the head is committed
            // (SLOT-2).
            if let Err(error) = unsafe { self.commit(&mut state, head) } {
                // It is new. What is refused here as well waits.
                let _ = self.vacate(index);
                return Err(error.into());
            }
        }
        self.counts.unkeep(cpu, kept);
        Ok((index, state))
    }

    /// Clears a slot, and makes it free or lets it wait.
    ///
    /// # Safety
    /// The caller owns the slot, of which this is the state, and nothing uses it any more. All its
    /// committed pages that are not zero are in `dirty` or `state.discard`.
    pub(crate) unsafe fn give_up(
        &self,
        index: usize,
        mut state: SlotState,
        dirty: Dirty<'_>,
        user: Option<u64>,
    ) {
        let cpu = self.space.platform().cpu();
        let limit = self.limit(&state);
        let clearing = Clearing { platform: self.space.platform(), layout: &self.layout, limit, dirty };
        let wanted = clearing.bound(&state).min(self.layout.keep);
        let allowed = self.counts.keep(cpu, wanted);
        // SAFETY: the caller's promise is passed on; all pages below the limit are committed.
        let left = unsafe { clearing.run(&mut state, allowed) };
        self.counts.unkeep(cpu, allowed - state.kept);
        let beyond = dirty.extent(&self.layout, state.committed).0;
        let beyond = beyond.min(state.committed - limit);
        state.waiting = left + beyond;
        self.records.set(index, state);
        if !state.discard.is_empty() || state.committed != limit {
            self.note(cpu, index, user);
            self.wait(index, state.waiting);
        } else if user.is_some() {
            self.note(cpu, index, user);
            self.free.insert(index);
        } else if let Some(before) = self.free.park(cpu, index) {
            self.note(cpu, before, None);
            self.free.insert(before);
        }
        self.free.mark();
        self.space.tell();
    }

    /// Returns how many pages of a slot stay committed when it is freed.
    pub(crate) fn limit(&self, state: &SlotState) -> u64 {
        match self.options.beyond_head {
            BeyondHead::Decommit => state.committed.min(self.layout.head),
            BeyondHead::Commit => state.committed,
        }
    }

    /// Commits the pages of a slot behind those that are committed. Some platforms put memory there
    /// at once: of pages that stay committed when the slot is freed, it counts as kept.
    ///
    /// # Safety
    /// The caller owns the slot, and the pages are not committed.
    pub(crate) unsafe fn commit(&self, state: &mut SlotState, pages: Pages) -> Result<(), AreaError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.space.raw().commit(&[self.bytes(state.base, pages)]) }?;
        state.committed = pages.end;
        let staying = Pages { end: self.limit(state), ..pages };
        // SAFETY: the pages are the caller's.
        let resident = |range| unsafe { self.space.platform().extras().resident(range) };
        let filled = pages_at(state.base, staying).map_or(0, resident);
        if filled != 0 {
            (state.kept, state.kept_end) = (state.kept + filled, staying.end);
        }
        Ok(())
    }

    /// Returns the addresses of pages of a slot.
    pub(crate) fn bytes(&self, base: u64, pages: Pages) -> Range<usize> {
        self.layout.bytes(base + pages.start)..self.layout.bytes(base + pages.end)
    }

    /// Gives the addresses of a slot back to the space, with what is committed.
    ///
    /// # Safety
    /// The caller owns the slot, which has addresses, and nothing uses it any more.
    pub(crate) unsafe fn unreserve(&self, state: &SlotState) -> Result<(), FreeError> {
        let addr = self.layout.bytes(state.base - self.layout.before);
        // SAFETY: the area is the caller's, and nothing uses it any more.
        unsafe { self.space.raw().unreserve(addr) }
    }

    /// Removes a free slot that `user`, or else this CPU, freed lately, or else the lowest, or else
    /// one that is parked on another CPU.
    fn take_free(&self, cpu: usize, user: Option<u64>) -> Option<usize> {
        let remove = |index| self.free.remove(index);
        let of_user = user.map(place).and_then(|(bucket, key)| self.users.find(bucket, key, remove));
        let own = of_user.or_else(|| self.free.take_parked(cpu)).or_else(|| self.cpus.find(cpu, 0, remove));
        own.or_else(|| self.free.remove_lowest()).or_else(|| self.free.take_any_parked())
    }

    /// Reserves a new slot, or resets waiting ones to take one of them, or has others give way.
    #[cold]
    fn make_or_reset(&self, cpu: usize, user: Option<u64>) -> Result<usize, SlotError> {
        if let Some(Ok(index)) = self.make(false) {
            return Ok(index);
        }
        // A drain may have had all free slots.
        let _turn = self.turns.caller(self.space.generation());
        let mut index = self.take_free(cpu, user);
        let reset = if index.is_some() {
            Ok(())
        } else {
            self.reset_in_turn(|_| {
                index = self.take_free(cpu, user);
                index.is_some()
            })
        };
        // Only now: this pool would give its own slots back as well.
        let refused = match index.map(Ok).or_else(|| self.make(true)) {
            Some(Ok(index)) => return Ok(index),
            Some(Err(error)) => error.into(),
            None => SlotError::Exhausted { slots: self.options.max_slots },
        };
        Err(reset.err().map_or(refused, SlotError::Area))
    }

    /// Reserves addresses for a slot; `None` if no index is left. If it `may_block`, it purges and
    /// asks notifiers for room.
    fn make(&self, may_block: bool) -> Option<Result<usize, vmalloc::AllocError>> {
        let one_more = |next| (next < self.options.max_slots).then_some(next + 1);
        let next_unused = || self.used.fetch_update(Relaxed, Relaxed, one_more).ok();
        let index = self.vacant.remove_lowest().or_else(next_unused)?;
        let align = self.layout.bytes(self.layout.align);
        let request = Request::new(self.layout.bytes(self.layout.pages()))
            .align(align)
            .tag("slot")
            .may_block(may_block);
        let request = if self.layout.after > 0 { request.guard(false) } else { request };
        match self.space.raw().reserve(&request) {
            Ok(addr) => {
                let base = (addr >> self.layout.shift) as u64 + self.layout.before;
                self.records.set(index, SlotState { base, ..SlotState::default() });
                Some(Ok(index))
            }
            Err(error) => {
                self.vacant.insert(index);
                Some(Err(error))
            }
        }
    }

    /// Has free slots that were not needed since the last call lose their memory: they wait. If
    /// there are more than [`WARM`] free slots, a quarter of the others go back to the space, of
    /// those without memory. Returns whether there was any.
    fn cool(&self) -> bool {
        let (cpu, mut is_any) = (self.space.platform().cpu(), false);
        let mut excess = self.free.len().saturating_sub(WARM).div_ceil(4);
        self.free.age(|index, is_idle| {
            let state = self.records.get(index);
            let goes = is_idle && (state.kept != 0 || excess > 0);
            is_any |= goes;
            if !goes {
                self.free.insert(index);
            } else if state.kept == 0 {
                excess -= 1;
                // A refused slot waits.
                let _ = self.vacate(index);
            } else {
                self.counts.unkeep(cpu, state.kept);
                self.counts.wait(state.kept, u64::MAX);
                let discard = Pages { start: 0, end: state.kept_end };
                let waiting = state.kept;
                self.records.set(index, SlotState { kept: 0, kept_end: 0, discard, waiting, ..state });
                self.waiting.insert(index);
            }
        });
        is_any
    }

    /// Gives the addresses and memory of all slots back, by their records. The pool has no other
    /// owner.
    fn close(&self) {
        for index in 0..self.used() {
            let state = self.records.get(index);
            if state.base == 0 {
                continue;
            }
            // SAFETY: every slot borrows or shares the pool, so none is left.
            match unsafe { self.unreserve(&state) } {
                // The addresses are lost: there was no memory to remember them.
                Ok(()) | Err(FreeError::NoMemory { .. }) => {}
                Err(error) => self.space.platform().fatal(&error),
            }
        }
    }

    /// Remembers by whom a slot was freed.
    fn note(&self, cpu: usize, index: usize, user: Option<u64>) {
        if let Some((bucket, key)) = user.map(place) {
            self.users.push(bucket, key, index);
        }
        self.cpus.push(cpu, 0, index);
    }
}

/// Returns the bucket and the key of a user.
fn place(user: u64) -> (usize, u32) {
    // Fibonacci hashing: the upper half of the product depends on all bits.
    let hash = user.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = hash ^ hash >> 29;
    ((hash >> 24) as usize % USER_BUCKETS, (hash >> 32) as u32)
}

impl<S: SpaceRef<Platform: Discard>> Drop for Slots<S> {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here.
        let pool = unsafe { ManuallyDrop::take(&mut self.pool) };
        pool.end(&self.space);
    }
}

impl<S: SpaceRef<Platform: Discard>> fmt::Debug for Slots<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (options, stats) = (self.options(), self.stats());
        f.debug_struct("Slots").field("options", options).field("stats", &stats).finish_non_exhaustive()
    }
}
