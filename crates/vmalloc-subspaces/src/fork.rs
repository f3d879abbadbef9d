//! Locks of a root around a `fork`: see the [crate's documentation](crate).

use crate::counted::{Counted, Weak};
use crate::root::{Divisible, Root, Shared};
use vmalloc::Platform;

impl<P: Divisible> Root<P> {
    /// Takes all locks of the root, for a `fork`, until [`resume`](Self::resume). It waits for
    /// lingering ranges that are being reclaimed.
    ///
    /// The caller first [quiesces](vmalloc::Space::quiesce) all spaces over its sub-spaces, and all
    /// roots over them. A thread that calls it twice, or makes or drops a sub-space in between,
    /// waits for itself.
    ///
    /// It is safe to call, since it only takes locks. Memory is never handed out twice, but threads
    /// may wait for ever.
    pub fn quiesce(&self) {
        let shared = &*self.shared;
        core::mem::forget(shared.sweeper.lock());
        let plan = shared.plan.lock();
        plan.mapped_sets().for_each(|mapped| core::mem::forget(mapped.lock()));
        core::mem::forget(plan);
    }

    /// Releases the locks that [`quiesce`](Self::quiesce) took.
    ///
    /// # Safety
    /// The calling thread, or the thread it was forked from, has called `quiesce` and not yet
    /// `resume`.
    pub unsafe fn resume(&self) {
        let shared = &*self.shared;
        // SAFETY: by the caller's promise this thread holds all locks. The plan is not changed
        // while it does, so the mapped sets are those that were locked.
        unsafe {
            (*shared.plan.data_ptr()).mapped_sets().for_each(|mapped| mapped.force_unlock());
            shared.plan.force_unlock();
            shared.sweeper.force_unlock();
        }
    }

    /// Releases the locks in the child of a fork, and repairs what threads of the parent, which the
    /// child does not have, were doing to sub-spaces.
    ///
    /// # Safety
    /// As for [`Space::resume_in_child`](vmalloc::Space::resume_in_child).
    pub unsafe fn resume_in_child(&self) {
        // SAFETY: the thread this one was forked from has called `quiesce`, and not yet `resume`.
        unsafe { self.resume() };
        self.shared.plan.lock().repair();
    }

    /// Returns a reference to the root that keeps nothing alive.
    pub fn downgrade(&self) -> WeakRoot<P> {
        WeakRoot(self.shared.downgrade())
    }
}

/// A reference to a [`Root`] that keeps neither it nor its platform alive.
pub struct WeakRoot<P: Platform>(Weak<Shared<P>>);

impl<P: Platform> WeakRoot<P> {
    /// Returns true if the root or a sub-space of it is still there.
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// Returns the root, if it or a sub-space of it is still there.
    pub fn upgrade(&self) -> Option<Root<P>> {
        self.0.upgrade().map(|shared: Counted<_>| Root { shared })
    }
}
