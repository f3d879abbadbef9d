//! One word that says what the platform knows of what waits, and the calls that ask it for a drain.
//!
//! ```text
//!            a free, an allocation: drain_later             a drain begins to look
//!   nothing ─────────────────────────────────────► asked ───────────────────────────► nothing
//!      ▲   └──── a free that may not wait ────► urgent ──── drain_later ────► asked     │ something is left
//!      └──────────────── a purge begins ───────────┘                            ▲──────┘
//! ```

use super::Space;
use super::held_node::HeldNode;
use crate::platform::{DrainReason, Platform};
use core::sync::atomic::Ordering::{Relaxed, Release};

/// The platform was asked for a drain since the last one, and has promised it, or is being asked.
pub(super) const ASKED: u64 = 1;
/// Something was freed where the platform could not be asked.
pub(super) const URGENT: u64 = 2;

impl<P: Platform> HeldNode<'_, P> {
    /// Unlocks a node in which something waits. If its lazy pages are many, or the platform knows
    /// of nothing, they are published, and the drain is triggered.
    #[inline]
    pub(super) fn publish_if_due(self) {
        if self.node.is_publishing() {
            self.publish();
        } else {
            let space = self.space;
            drop(self);
            space.tell();
        }
    }

    /// Publishes the lazy pages of a node, and triggers the drain where they are too many.
    pub(super) fn publish(self) {
        let Self { space, id, node } = self;
        let added = space.cache.publish(id, node);
        space.trigger_drain(id, added);
    }
}

impl<P: Platform> Space<P> {
    /// Lets an allocation help where freeing has fallen behind, and wait where it has fallen far
    /// behind.
    #[inline]
    pub(super) fn balance(&self) {
        let (id, lazy) = (self.cpu_node(), &self.cache.lazy);
        if lazy.of(id).level() > lazy.limit() {
            self.purge_behind(id);
        }
        if self.told.load(Relaxed) == URGENT {
            self.trigger_drain(id, 0);
        }
    }

    /// Has the platform drain by age, unless it was asked since the last drain. No lock is held.
    /// For [notifiers](super::Notifier::decay) that begin to keep something.
    #[doc(hidden)]
    #[inline]
    pub fn tell(&self) {
        // Relaxed: a drain forgets that it was asked before it looks at each node and tenant under
        // its lock. What it does not see there was put there behind it, and its thread sees that
        // the drain forgot. A notifier without locks has a fence.
        if self.told.load(Relaxed) != ASKED {
            self.trigger_drain(self.cpu_node(), 0);
        }
    }

    /// Has what waits drained: now, if it is much or was freed where nothing could be asked, or
    /// else by age. The caller has published `added` lazy pages of node `id`, or with a number that
    /// is no node's of none. No lock is held.
    pub(super) fn trigger_drain(&self, id: usize, added: u64) {
        let (lazy, told) = (&self.cache.lazy, self.told.load(Relaxed));
        let total = lazy.of(id).level() + self.deferred.pages();
        let is_much = lazy.is_much(total) || lazy.is_absent_much();
        let is_now = is_much || told == URGENT;
        let reason = if is_now { DrainReason::Threshold } else { DrainReason::Age };
        let is_asked = told == ASKED && !is_now;
        // Noted before the call: a drain may begin and end right after it. It would not forget a
        // later note, and no free would ask again.
        let is_noted = !is_asked && self.told.compare_exchange(told, ASKED, Relaxed, Relaxed).is_ok();
        let is_promised = is_asked || self.platform.drain_later(reason);
        if is_noted && !is_promised {
            let _ = self.told.compare_exchange(ASKED, told, Relaxed, Relaxed);
        }
        // Within bounds the drain does it. Beyond, freeing is put before everything else. But one
        // huge area is no sign that the drain falls behind, and the caller does not wait for its
        // purge.
        if (is_much && !is_promised) || (total > lazy.limit() && added <= lazy.part()) {
            self.purge_if_idle(id);
        }
    }

    /// Notes that something was freed where the platform could be asked for nothing. It is where a
    /// purge finds it.
    pub(super) fn tell_later(&self) {
        // Release: pairs with the Acquire of a purge that begins, which finds it.
        self.told.store(URGENT, Release);
        self.platform.wake_drain();
    }
}
