//! What a `fork` needs of a root: see the [module above](super).

use super::{Divisible, Root, Shared};
use crate::counted::{Counted, Weak};
use crate::platform::Platform;
use crate::sync::{Mutant, is};

impl<P: Divisible> Root<P> {
    /// Holds all locks of the root, for a `fork`, until [`resume`](Self::resume). Waits for a sweep
    /// under way. To be called when all spaces over its children are [held](crate::Space::quiesce),
    /// and all roots over them. A thread that calls it twice, or makes or drops a sub-space in
    /// between, waits for itself.
    ///
    /// It is safe to call, for it only takes locks: memory is never handed out twice, but threads
    /// may wait for ever.
    pub fn quiesce(&self) {
        let shared = &*self.shared;
        core::mem::forget(shared.sweeper.lock());
        let plan = shared.plan.lock();
        plan.ledgers().for_each(|ledger| core::mem::forget(ledger.lock()));
        core::mem::forget(plan);
    }

    /// Ends what [`quiesce`](Self::quiesce) began.
    ///
    /// # Safety
    /// The calling thread, or the thread it was forked from, has called `quiesce` and not yet
    /// `resume`.
    pub unsafe fn resume(&self) {
        let shared = &*self.shared;
        // SAFETY: by the caller's promise this thread holds all locks. The plan is not changed
        // while it does, so the ledgers are those that were locked.
        unsafe {
            (*shared.plan.data_ptr()).ledgers().for_each(|ledger| ledger.force_unlock());
            shared.plan.force_unlock();
            shared.sweeper.force_unlock();
        }
    }

    /// Ends what [`quiesce`](Self::quiesce) began, in the child of a fork: also what threads of the
    /// parent, which the child does not have, were doing to sub-spaces.
    ///
    /// # Safety
    /// As for [`Space::resume_in_child`](crate::Space::resume_in_child).
    pub unsafe fn resume_in_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.resume() };
        if !is(Mutant::ForkAsItIs) {
            self.shared.plan.lock().mend();
        }
    }

    /// A reference to the root that keeps nothing alive.
    pub fn downgrade(&self) -> WeakRoot<P> {
        WeakRoot(self.shared.downgrade())
    }
}

/// A reference to a [`Root`] that keeps neither it nor its platform alive.
pub struct WeakRoot<P: Platform>(Weak<Shared<P>>);

impl<P: Platform> WeakRoot<P> {
    /// Whether the root or a child of it is still there.
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// The root, if it or a child of it is still there.
    pub fn upgrade(&self) -> Option<Root<P>> {
        self.0.upgrade().map(|shared: Counted<_>| Root { shared })
    }
}
