//! The build for explored schedules. All threads of an exploration run in one thread of the system,
//! so what is set for it is thread-local.

extern crate std;

use super::Mutant;
use core::sync::atomic::{self, Ordering};
use core::time::Duration;
use std::cell::Cell;
use zerocopy::{FromBytes, IntoBytes};

pub use core::sync::atomic::fence;

/// The operations that are scheduling points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grain {
    /// Those that read and write at once, and all that concern locks: enough where every look is
    /// under a lock.
    #[default]
    Coarse,
    /// Loads and stores too.
    Fine,
}

std::thread_local! {
    static SETUP: Cell<(Grain, Option<Mutant>)> = const { Cell::new((Grain::Coarse, None)) };
    static UNLOCKS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` with these scheduling points, and this protocol broken.
pub fn explore<R>(grain: Grain, mutant: Option<Mutant>, body: impl FnOnce() -> R) -> R {
    struct Reset((Grain, Option<Mutant>));
    impl Drop for Reset {
        fn drop(&mut self) {
            SETUP.set(self.0);
        }
    }
    let _reset = Reset(SETUP.replace((grain, mutant)));
    body()
}

/// Lets the scheduler choose which thread runs next. Not a yield: the running thread may be chosen
/// again.
pub fn point() {
    shuttle::thread::sleep(Duration::ZERO);
}

/// Is a point at a load or a store, if those are points.
fn fine_point() {
    if SETUP.get().0 == Grain::Fine {
        point();
    }
}

pub const fn size(_ordinary: u64, explored: u64) -> u64 {
    explored
}

/// Returns true if this exploration breaks the protocol in this way.
pub fn is(mutant: Mutant) -> bool {
    SETUP.get().1 == Some(mutant)
}

/// Takes a lock that lets the caller in at once if the protocol is broken in this way.
pub fn unlocked<R>(mutant: Mutant, lock: impl FnOnce() -> R) -> R {
    UNLOCKS.set(is(mutant));
    lock()
}

/// Returns whether the lock that asks lets its caller in while another holds it. It asks before it
/// lets another thread run.
pub fn unlocks() -> bool {
    UNLOCKS.replace(false)
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug, Default, FromBytes, IntoBytes)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        impl $name {
            pub fn load(&self, order: Ordering) -> $value {
                fine_point();
                self.0.load(order)
            }
        }
    };
}

atomic!(AtomicU8, u8);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);

impl AtomicU8 {
    pub fn store(&self, value: u8, order: Ordering) {
        fine_point();
        self.0.store(value, order);
    }

    pub fn compare_exchange(&self, old: u8, new: u8, done: Ordering, not: Ordering) -> Result<u8, u8> {
        point();
        self.0.compare_exchange(old, new, done, not)
    }
}

impl AtomicU32 {
    pub fn store(&self, value: u32, order: Ordering) {
        fine_point();
        self.0.store(value, order);
    }
}

impl AtomicUsize {
    pub fn swap(&self, value: usize, order: Ordering) -> usize {
        point();
        self.0.swap(value, order)
    }

    pub fn compare_exchange_weak(
        &self,
        old: usize,
        new: usize,
        done: Ordering,
        not: Ordering,
    ) -> Result<usize, usize> {
        point();
        self.0.compare_exchange(old, new, done, not)
    }
}

impl AtomicU64 {
    pub fn swap(&self, value: u64, order: Ordering) -> u64 {
        point();
        self.0.swap(value, order)
    }

    pub fn compare_exchange(&self, old: u64, new: u64, done: Ordering, not: Ordering) -> Result<u64, u64> {
        point();
        self.0.compare_exchange(old, new, done, not)
    }

    pub const fn new(value: u64) -> Self {
        Self(atomic::AtomicU64::new(value))
    }

    pub fn store(&self, value: u64, order: Ordering) {
        fine_point();
        self.0.store(value, order);
    }

    pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        point();
        self.0.fetch_add(value, order)
    }

    pub fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        point();
        self.0.fetch_sub(value, order)
    }

    pub fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        point();
        self.0.fetch_max(value, order)
    }

    pub fn fetch_or(&self, mask: u64, _: Ordering) -> u64 {
        self.flip(|word| word | mask)
    }

    pub fn fetch_and(&self, mask: u64, _: Ordering) -> u64 {
        self.flip(|word| word & mask)
    }

    /// Changes the word by a load and a store. Nothing is lost: no other thread of the system is
    /// here.
    fn flip(&self, change: impl Fn(u64) -> u64) -> u64 {
        point();
        let word = self.0.load(Ordering::Relaxed);
        if is(Mutant::SplitFlip) {
            point();
        }
        self.0.store(change(word), Ordering::Relaxed);
        word
    }

    pub fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        change: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        point();
        self.0.fetch_update(set, fetch, change)
    }
}
