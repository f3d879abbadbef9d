//! The drain thread: gives back in the background what frees leave behind, one thread for all
//! spaces of the process.
//!
//! ```text
//!   a free ──► word of its space ──► bell ──► thread ──► the next space that is due ──► drained
//!                  QUIET                        ▲                  │
//!                  AGED: by age                 └──── none is due: it sleeps until one will be,
//!                  DUE: at once                       or where none will be, until the bell rings
//! ```
//!
//! - The **word** of a space says what was asked for. Frees raise it; the thread takes it back just
//!   before it drains the space, and sets it to AGED after a drain that leaves something.
//! - The **bell** is what the thread sleeps on. A free that raised a word rings it.
//! - The **places** are the spaces that may be drained, in the order of their turns. The thread
//!   looks at the places one after the other. Each goes to the end of the line.
//!
//! A drain by age is due a *tick* of its space after it was asked for, at the multiple of the tick
//! that is nearest to that. So all spaces with the usual [`TICK`] share one wake-up a second, and
//! there is none once nothing is left in any.
//!
//! # What a space waits for
//! A space that asks waits for the drain under way, and for at most one drain of each other space:
//! a space that was drained comes behind it. A drain is one purge of what was lazy when it began. A
//! space for which that is too slow purges by itself, at twice its threshold.
//!
//! # No request is lost
//! A free puts its area into the space before it raises the word, and the thread takes the word
//! back before it drains. A free that still finds its word raised therefore asks for a drain that
//! has not looked yet. In the same way the thread silences the bell before it looks at the words.
//! While no thread is there, a bell that was rung stays so. A free that finds the places locked
//! can't create the thread, for it must not wait. Then the holder of the lock does, see
//! [`Drains::attend`].
//!
//! # The thread
//! The first request creates it. It ends with the last place: the thread that removes this place
//! ends the drain thread, and waits for its end. If that is the drain thread itself, it detaches
//! itself. The bell counts creations and ends, so a thread that was told to end knows, even if
//! there is another one by then.
//!
//! Invariants:
//! - **D1** While no thread holds `places`, the count of the bell is odd if and only if a thread is
//!   there that may drain, and `thread` names it.
//! - **D2** The thread holds spaces and words only while it holds `at_work`.
//!
//! # Why dropping is safe
//! The last owner of a space drops it
//! - in another thread: the drain thread is not in a drain of this space, and can begin none, for
//!   the weak reference is dead. The drop does not wait for drains of other spaces.
//! - in the drain thread, at the end of a drain during which all others dropped it, or by something
//!   that this drops in turn. It takes `places`, which the thread does not hold then.
//!
//! # Why forking is safe
//! A fork takes `gate`, `at_work` and `places` after the registry and before all hooks. So at the
//! fork (D2) the drain thread holds no count of anything, and all is in its place. The child has no
//! such thread: it forgets it, and the next request of any space creates one. That looks at all
//! words, so it also drains what the parent was asked for, even if the asking thread had yet to
//! ring.
//!
//! # From signal handlers
//! [`free_atomic`](vmalloc::Raw::free_atomic) leads to [`DrainThread::wake`] and to nothing
//! else. It wakes a thread that is there. To create one takes locks of the C library, which the
//! interrupted thread may hold. So that is left to ordinary requests, of which the space makes one
//! as soon as it may.
//!
//! Lock order: the registry of `fork`, `gate`, `at_work`, `places`, the locks of the spaces, the
//! platform's. Requests take `places` only if they are free.

mod sync;
#[cfg(not(loom))]
mod thread;

use self::sync::{AtomicU32, DRAINS, IS_DRAIN_THREAD, Mutex, Thread, now, spawn, wait, wake};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use vmalloc::{DrainReason, DrainStatus};

/// The word of a space while nothing was asked for since its last drain began. All accesses of
/// words are relaxed: the locks of the space publish the areas to drain, and the bell the word.
const QUIET: u32 = 0;
/// Something is kept that will have to go by its age.
const AGED: u32 = 1;
/// A drain was asked for.
const DUE: u32 = 2;

/// The bit of the bell that says that it was rung, and the thread has not looked since.
const RUNG: u32 = 1;
/// One creation or end of a thread, as the bell counts them. Its bit says that a thread is there.
const THERE: u32 = 2;

/// The usual time between two drains by age, of which each takes a quarter of the cached areas, but
/// none that was needed since the one before. Half of the unused memory goes in about 3 s, 64 MiB
/// in areas of one page in 40 s. A wake-up a second is no load to speak of.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// After the n-th refusal in a row to create the thread, 2ⁿ requests pass before the next attempt,
/// at most this many. Each purges by itself, which takes longer than the attempt would.
const MOST_PASSED_OVER: u32 = 1 << 10;

/// Returns true if the calling thread drains spaces.
///
/// For a global allocator that stands on a space of [`open`](crate::open()). A drain takes its lists
/// from the heap while the space is locked. So on this thread, as within its own calls of the
/// space, the allocator must take memory from elsewhere.
#[must_use]
pub fn on_drain_thread() -> bool {
    IS_DRAIN_THREAD.with(std::cell::Cell::get)
}

/// A space, as far as the drain thread knows it. The space stands above this file and implements
/// it.
pub(crate) trait Drain: Send + Sync {
    /// Gives back in one round what frees have left behind. [`DrainStatus::More`] asks for another
    /// round after a tick.
    fn drain(&self) -> DrainStatus;
}

/// The hold of a space on the drain thread, which may not be there yet. Dropped with the space; the
/// last one ends the thread.
#[derive(Debug, Default)]
pub(crate) struct DrainThread(OnceLock<Arc<Asking>>);

impl DrainThread {
    /// Has the thread drain `space`, whose platform this belongs to, from its first request on, and
    /// by age at every `tick`; never by age if that is zero.
    pub(crate) fn allow(&self, space: Weak<dyn Drain>, tick: Duration) {
        let asking = Arc::new(Asking { word: AtomicU32::new(QUIET), tick, space });
        // A second call changes nothing.
        if self.0.set(Arc::clone(&asking)).is_ok() {
            DRAINS.places.lock().line.push_back(Place { asking, due: None });
            DRAINS.attend();
        }
    }

    /// Asks for a drain, and returns true if it will come. Neither waits nor allocates, but for the
    /// creation of a thread.
    pub(crate) fn request(&self, due: DrainReason) -> bool {
        let Some(asking) = self.0.get() else { return false };
        match due {
            DrainReason::Age if asking.tick.is_zero() => false,
            DrainReason::Age => asking.ask(AGED) || DRAINS.start(),
            _ => asking.ask(DUE) || DRAINS.start(),
        }
    }

    /// Asks for a drain at once, and returns true if it will come: if the thread is there. A few
    /// atomic operations and at most one system call, which can't fail and so leaves `errno` alone.
    /// A signal handler may do that.
    pub(crate) fn wake(&self) -> bool {
        self.0.get().is_some_and(|asking| asking.ask(DUE))
    }
}

impl Drop for DrainThread {
    fn drop(&mut self) {
        let Some(asking) = self.0.take() else { return };
        let removed = DRAINS.remove(&asking);
        if let Some(thread) = removed {
            if on_drain_thread() {
                // It ends when it looks at the bell. Another one is not waited for either: it may
                // wait for `at_work`, which this thread holds.
                thread.detach();
            } else {
                // It sleeps, or will look at the bell. Nothing that it still does needs a lock that
                // is held here.
                wake(&DRAINS.bell);
                thread.join();
            }
        }
        DRAINS.attend();
    }
}

/// A space, and the drain that it has asked for.
struct Asking {
    /// [`QUIET`], [`AGED`] or [`DUE`].
    word: AtomicU32,
    tick: Duration,
    space: Weak<dyn Drain>,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Asking").field(&self.word).finish()
    }
}

impl Asking {
    /// Asks for a drain, and returns true if the thread is there.
    fn ask(&self, wanted: u32) -> bool {
        let is_asked = |word| word >= wanted;
        let was_asked = is_asked(self.word.load(Ordering::Relaxed))
            || is_asked(self.word.fetch_max(wanted, Ordering::Relaxed));
        was_asked && DRAINS.is_there() || DRAINS.ring()
    }

    /// One round. When it returns, the space may be gone, by this very call.
    fn drain(&self) {
        let Some(space) = self.space.upgrade() else { return };
        if space.drain() == DrainStatus::More && !self.tick.is_zero() {
            self.word.fetch_max(AGED, Ordering::Relaxed);
        }
    }
}

/// A space in the line of those that may be drained.
struct Place {
    asking: Arc<Asking>,
    /// The time of the system's clock at which the next drain by age is due.
    due: Option<Duration>,
}

impl Place {
    /// Returns the time at which the space is to be drained.
    fn due(&mut self, now: Duration) -> Option<Duration> {
        match self.asking.word.load(Ordering::Relaxed) {
            QUIET => None,
            AGED => Some(*self.due.get_or_insert_with(|| next_drain(now, self.asking.tick))),
            _ => Some(Duration::ZERO),
        }
    }
}

/// Returns the multiple of `tick` that is nearest to a tick after `now`.
fn next_drain(now: Duration, tick: Duration) -> Duration {
    let later = now.saturating_add(tick).saturating_add(tick / 2);
    let past_multiple = later.as_nanos() % tick.as_nanos().max(1);
    later.saturating_sub(Duration::from_nanos(past_multiple.try_into().unwrap_or(u64::MAX)))
}

/// The spaces that may be drained, and the thread that does it.
struct Places {
    /// The next to look at comes first.
    line: VecDeque<Place>,
    thread: Option<Thread>,
    /// Attempts to create the thread that failed, in a row.
    refusals: u32,
    /// Requests to go before the next attempt.
    passing_over: u32,
}

impl Places {
    const NONE: Self = Self { line: VecDeque::new(), thread: None, refusals: 0, passing_over: 0 };

    /// Takes the next space that is due, which comes last then. If none is due, returns the time
    /// at which the first one will be.
    fn take_due(&mut self, now: Duration) -> Result<Arc<Asking>, Option<Duration>> {
        let mut first = None;
        for _ in 0..self.line.len() {
            self.line.rotate_left(1);
            let Some(place) = self.line.back_mut() else { break };
            let Some(due) = place.due(now) else { continue };
            if due <= now {
                place.due = None;
                place.asking.word.store(QUIET, Ordering::Relaxed);
                return Ok(Arc::clone(&place.asking));
            }
            first = Some(first.map_or(due, |first| due.min(first)));
        }
        Err(first)
    }

    fn refused(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
        self.passing_over =
            1_u32.checked_shl(self.refusals).map_or(MOST_PASSED_OVER, |n| n.min(MOST_PASSED_OVER));
    }
}

/// All that the spaces of the process share for their drains.
pub(crate) struct Drains {
    /// [`RUNG`], and how many times a thread was created or ended: odd while one is there. The
    /// count changes under `places`.
    bell: AtomicU32,
    /// Held by a fork, and passed by the thread before each drain: a fork waits for one drain,
    /// however many others are due.
    gate: Mutex<()>,
    /// Held over a drain, and over a fork.
    at_work: Mutex<()>,
    /// Also held over the thread's creation, and over a fork.
    places: Mutex<Places>,
}

impl Drains {
    /// Returns true if a thread is there.
    fn is_there(&self) -> bool {
        self.bell.load(Ordering::Relaxed) & THERE != 0
    }

    /// Rings the bell, and returns true if a thread is there that hears it.
    fn ring(&self) -> bool {
        // Release: pairs with the Acquire in `next`, which sees the word that was raised. It is an
        // exchange also where the bell is rung already: else the thread could have silenced it and
        // not see the word.
        let found = self.bell.fetch_or(RUNG, Ordering::Release);
        let is_there = found & THERE != 0;
        if is_there && found & RUNG == 0 {
            wake(&self.bell);
        }
        is_there
    }

    /// Creates the thread, unless `places` are locked: by another thread, or by a caller of this
    /// one. (Creating a thread takes a little from the C library's heap. If that stands on a space,
    /// it may free, and get here.) Returns true if a thread is there.
    #[cold]
    fn start(&self) -> bool {
        let Some(mut places) = self.places.try_lock() else { return false };
        if self.is_there() {
            return true;
        }
        if places.line.is_empty() {
            // The space that rang is gone since `attend` looked.
            return false;
        }
        if places.passing_over > 0 {
            places.passing_over -= 1;
            return false;
        }
        // It looks at the bell once `places` are free.
        let Ok(thread) = spawn((self.bell.load(Ordering::Relaxed) | RUNG) + THERE) else {
            places.refused();
            return false;
        };
        self.bell.fetch_add(THERE, Ordering::Relaxed);
        (places.thread, places.refusals) = (Some(thread), 0);
        true
    }

    /// Creates the thread if it was asked for while `places` were locked. For those that had locked
    /// them.
    fn attend(&self) {
        if self.bell.load(Ordering::Relaxed) & (RUNG | THERE) == RUNG {
            self.start();
        }
    }

    /// Takes a space out of the line. Returns the thread, if that was the last one: the thread has
    /// to end.
    fn remove(&self, asking: &Arc<Asking>) -> Option<Thread> {
        let mut places = self.places.lock();
        let at = places.line.iter().position(|place| Arc::ptr_eq(&place.asking, asking))?;
        places.line.remove(at);
        if !places.line.is_empty() {
            return None;
        }
        // Nothing is left behind, and no space is there to ring the bell.
        places.line = VecDeque::new();
        self.bell.fetch_and(!RUNG, Ordering::Relaxed);
        self.forget_thread(&mut places)
    }

    /// Tells the thread to end, or says that it has ended.
    fn forget_thread(&self, places: &mut Places) -> Option<Thread> {
        let thread = places.thread.take()?;
        self.bell.fetch_add(THERE, Ordering::Relaxed);
        Some(thread)
    }

    /// The life of the thread for which the bell has the value `ours`, with [`RUNG`].
    fn run(&self, ours: u32) {
        IS_DRAIN_THREAD.with(|is| is.set(true));
        loop {
            drop(self.gate.lock());
            // D2: all that is taken below is dropped before this.
            let at_work = self.at_work.lock();
            let mut places = self.places.lock();
            // Acquire: pairs with the Release in `ring`.
            let silence = |bell: u32| (bell | RUNG == ours).then_some(bell & !RUNG);
            if self.bell.fetch_update(Ordering::Acquire, Ordering::Relaxed, silence).is_err() {
                break;
            }
            let taken = places.take_due(now());
            drop(places);
            match taken {
                Ok(asking) => asking.drain(),
                Err(due) => {
                    drop(at_work);
                    let nap = due.map(|due| due.saturating_sub(now()));
                    wait(&self.bell, ours & !RUNG, nap);
                }
            }
        }
        self.attend();
    }
}

/// Holds off drains and changes of the line, before a fork. Waits for a drain under way.
pub(crate) fn quiesce() {
    std::mem::forget((DRAINS.gate.lock(), DRAINS.at_work.lock(), DRAINS.places.lock()));
}

/// Ends what [`quiesce`] began, on either side of the fork.
///
/// # Safety
/// This thread, or the one it was forked from, has called `quiesce`, and not this since.
pub(crate) unsafe fn resume() {
    // SAFETY: `force_unlock` asks that this thread holds the lock: the caller promises that it has
    // called `quiesce`, which forgot the guards.
    unsafe {
        DRAINS.places.force_unlock();
        DRAINS.at_work.force_unlock();
        DRAINS.gate.force_unlock();
    }
}

/// Ends what [`quiesce`] began, in the child of the fork, which has no drain thread.
///
/// # Safety
/// As for [`resume`]. This is the only thread.
pub(crate) unsafe fn resume_in_child() {
    // SAFETY: locked by `quiesce`, whose guard is forgotten: no other reference to it is live.
    // Nothing is to be joined.
    let _ = DRAINS.forget_thread(unsafe { &mut *DRAINS.places.data_ptr() });
    // SAFETY: the caller's promise.
    unsafe { resume() };
}

/// Creates the drain thread if it was asked for during a fork, in the process that forked.
pub(crate) fn attend() {
    DRAINS.attend();
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod models;
