//! Forks: the child goes on with the pool, whatever other threads were doing with it.

use crate::common::{drained_pool, fill};
use lock_api::{GuardNoSend, RawMutex};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use vmalloc::{PageRange, Request, Space, SpaceOptions};
use vmalloc_harness::{in_forked_child, in_own_process};
use vmalloc_sim::Sim;
use vmalloc_slots::{Slots, SlotsOptions};

/// The parent's drain has the pool on its list, and its thread is not in the child.
#[test]
fn slots_decay_in_a_child() {
    in_own_process(|| {
        let pool = drained_pool(SlotsOptions::new(1 << 24));
        let use_one = || {
            let mut slot = pool.alloc().unwrap();
            fill(&mut slot, 32 << 10);
        };
        use_one();
        in_forked_child(|| {
            use_one();
            while pool.stats().kept_bytes > 0 {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            true
        });
    });
}

std::thread_local! {
    /// Locks that this thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// How often this thread releases its last lock before it stops; 0 for never.
    static STOPS_IN: Cell<usize> = const { Cell::new(0) };
    /// Tells that this thread has stopped, and hears when it may go on.
    static STOP: RefCell<Option<(Sender<()>, Receiver<()>)>> = const { RefCell::new(None) };
}

/// A lock at whose release a thread can be made to stop, without any lock held.
struct StoppingLock(AtomicBool);

// SAFETY: one thread wins the exchange, and only it undoes that.
unsafe impl RawMutex for StoppingLock {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        while !self.try_lock() {
            std::thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        let is_taken = self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        HELD.set(HELD.get() + usize::from(is_taken));
        is_taken
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
        HELD.set(HELD.get() - 1);
        if HELD.get() == 0 && STOPS_IN.replace(STOPS_IN.get().saturating_sub(1)) == 1 {
            STOP.with_borrow(|stop| {
                let (tell, go_on) = stop.as_ref().expect("it was set before");
                tell.send(()).expect("the test waits");
                go_on.recv().expect_err("the test hangs up");
            });
        }
    }
}

/// A page of the simulated machine.
const PAGE: usize = 4096;

type StoppingSpace = Space<Sim<StoppingLock>>;

/// Runs `work` on another thread, and forks where that thread releases its last lock for the
/// `nth` time. The child gives all addresses that it can get to other owners, and drops the pool.
/// Returns false if `work` was over before.
fn child_drops_the_pool(nth: usize, work: fn(&Slots<&StoppingSpace>)) -> bool {
    let machine = vmalloc_sim::Options::new(PageRange::new(0x100, 0x180).unwrap());
    let space: StoppingSpace = Space::new(machine.build_with(), SpaceOptions::default()).unwrap();
    let pool = Slots::new(&space, SlotsOptions::new(16 * PAGE).head_bytes(PAGE)).unwrap();
    let two = [pool.alloc().unwrap(), pool.alloc().unwrap()];
    drop(two);
    std::thread::scope(|scope| {
        let ((tell, stopped), (go_on, hear)) = (channel(), channel::<()>());
        let theirs = &pool;
        scope.spawn(move || {
            STOP.set(Some((tell, hear)));
            STOPS_IN.set(nth);
            work(theirs);
            STOPS_IN.set(0);
            STOP.set(None);
        });
        if stopped.recv().is_err() {
            return false;
        }
        in_forked_child(|| {
            let request = Request::new(17 * PAGE);
            let mut others = Vec::new();
            while let Ok(addr) = space.raw().reserve(&request) {
                others.push(addr);
            }
            // SAFETY: the other thread, which borrows the pool, is not in the child, and the value
            // is not used any more.
            drop(unsafe { std::ptr::read(&raw const pool) });
            // SAFETY: the areas are the child's.
            others.into_iter().all(|addr| unsafe { space.raw().unreserve(addr) }.is_ok())
        });
        drop(go_on);
        true
    })
}

#[test]
fn a_child_that_drops_the_pool_frees_no_area_of_another_owner() {
    in_own_process(|| {
        let trim = |pool: &Slots<&StoppingSpace>| pool.trim(0).unwrap();
        let alloc =
            |pool: &Slots<&StoppingSpace>| (0..3).for_each(|_| std::mem::forget(pool.alloc().unwrap()));
        for (name, work) in [("trim", trim as fn(&Slots<&StoppingSpace>)), ("alloc", alloc)] {
            let points = (1..).take_while(|nth| child_drops_the_pool(*nth, work)).count();
            assert!(points >= 2, "{name} released its last lock {points} times");
        }
    });
}
