//! Locks in virtual time: `V3`.
//!
//! A lock is a word: free, held, or held and waited for. Those who wait stand in a queue that the
//! machine has, and the lock is handed to the first of them.

use crate::cpus::{Pause, meet, pause, settle, state};
use crate::lines::Use;
use crate::memory::line_at;
use crate::now::{now, quietly};
use crate::{LockStats, Picos};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The way in which a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It keeps its CPU.
    Spin,
    /// It leaves its CPU to others.
    Sleep,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;

/// A lock that a thread holds.
pub(crate) struct Hold {
    lock: usize,
    since: Picos,
    site: usize,
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Takes a lock, and waits for it if need be. `site` is the place in the code that takes it.
///
/// # Panics
/// If it is held, and no machine runs.
pub fn lock(word: &AtomicU32, kind: Kind, site: usize) {
    if !now(|now| now.on.get()) {
        assert_eq!(word.swap(HELD, Relaxed), FREE, "held, and no other thread is there");
        return;
    }
    quietly(|| {
        arrive(word, site);
        let waited = if word.load(Relaxed) == FREE { None } else { Some(wait(word, kind)) };
        if waited.is_none() {
            word.store(HELD, Relaxed);
        }
        take(word, kind, site, |stats| {
            stats.waited += u64::from(waited.is_some());
            stats.wait += waited.unwrap_or(0);
            stats.wait_max = stats.wait_max.max(waited.unwrap_or(0));
        });
    });
}

/// Takes a lock if it is free.
pub fn try_lock(word: &AtomicU32, kind: Kind, site: usize) -> bool {
    if !now(|now| now.on.get()) {
        return word.compare_exchange(FREE, HELD, Relaxed, Relaxed).is_ok();
    }
    quietly(|| {
        arrive(word, site);
        let is_free = word.compare_exchange(FREE, HELD, Relaxed, Relaxed).is_ok();
        if is_free {
            take(word, kind, site, |_| {});
        } else {
            state(|state| state.sites.at(site).lock.refused += 1);
        }
        is_free
    })
}

/// Unlocks, and hands the lock to the thread that has waited for the longest.
pub fn unlock(word: &AtomicU32, kind: Kind) {
    if !now(|now| now.on.get()) {
        return word.store(FREE, Relaxed);
    }
    quietly(|| {
        let at = address(word);
        let site = state(|state| {
            let holds = &state.threads[state.running()].holds;
            holds.iter().rfind(|hold| hold.lock == at).expect("it is held by this thread").site
        });
        meet(at, Use::Write, site);
        let clock = now(|now| now.clock.get());
        state(|state| {
            let me = state.running();
            let its = &mut state.threads[me];
            let index = its.holds.iter().rposition(|hold| hold.lock == at).expect("as above");
            let held = clock - its.holds.remove(index).since;
            its.spins -= usize::from(kind == Kind::Spin);
            let stats = &mut state.sites.at(site).lock;
            stats.hold += held;
            stats.hold_max = stats.hold_max.max(held);
            hand_over(state, word, kind, clock);
            state.limit();
        });
    });
}

fn hand_over(state: &mut crate::cpus::State, word: &AtomicU32, kind: Kind, clock: Picos) {
    let at = address(word);
    let Some(queue) = state.waiting.get_mut(&at) else { return word.store(FREE, Relaxed) };
    let first = queue.pop_front().expect("no empty queue is kept");
    if queue.is_empty() {
        state.waiting.remove(&at);
        word.store(HELD, Relaxed);
    }
    let costs = now(|now| now.costs.get());
    if let Some(mut line) = line_at(at) {
        // SAFETY: as in `touch`.
        unsafe { line.as_mut() }.give(state.threads[first].cpu, Use::Write);
    }
    match kind {
        Kind::Spin => state.go_on(first, clock + costs.handover),
        Kind::Sleep => state.wake(first, clock + costs.wake),
    }
}

/// Returns whether a thread waits for a lock.
pub fn is_waited_for(word: &AtomicU32) -> bool {
    word.load(Relaxed) == WAITED_FOR
}

/// Comes to a lock with its line, at a time that all others have reached.
fn arrive(word: &AtomicU32, site: usize) {
    meet(address(word), Use::Write, site);
    now(|now| now.pass(now.costs.get().atomic));
    settle();
}

/// Waits until the lock is handed over. Returns for how long.
fn wait(word: &AtomicU32, kind: Kind) -> Picos {
    word.store(WAITED_FOR, Relaxed);
    let began = now(|now| now.clock.get());
    state(|state| {
        let me = state.running();
        state.waiting.entry(address(word)).or_default().push_back(me);
    });
    pause(match kind {
        Kind::Spin => Pause::Spin,
        Kind::Sleep => Pause::Sleep,
    });
    let (waited, cpu) = now(|now| (now.clock.get() - began, now.cpu.get()));
    if kind == Kind::Spin {
        state(|state| state.cpus[cpu].spun += waited);
    }
    waited
}

/// Counts a lock that is held from now on.
fn take(word: &AtomicU32, kind: Kind, site: usize, count: impl FnOnce(&mut LockStats)) {
    let since = now(|now| now.clock.get());
    state(|state| {
        let me = state.running();
        let its = &mut state.threads[me];
        its.holds.push(Hold { lock: address(word), since, site });
        its.spins += usize::from(kind == Kind::Spin);
        let stats = &mut state.sites.at(site).lock;
        stats.taken += 1;
        count(stats);
        state.limit();
    });
}
