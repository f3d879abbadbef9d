//! Atomics with a hook before each operation: for schedules that are explored, and for a machine in
//! virtual time.

#[cfg(shuttle)]
#[path = "explored.rs"]
mod explored;
#[cfg(machine)]
#[allow(unreachable_pub, unused_imports)]
#[path = "plain.rs"]
mod plain;

use core::sync::atomic::{self, Ordering};
#[cfg(shuttle)]
use explored::{change, look};
#[cfg(machine)]
use told::{change, look};
use zerocopy::{FromBytes, IntoBytes};

pub use core::sync::atomic::fence;
#[cfg(shuttle)]
pub use explored::{Grain, explore, point, size};
#[cfg(machine)]
pub use plain::size;

/// The machine is told of operations that read and write at once. Its compiler tells it of loads
/// and stores.
#[cfg(machine)]
mod told {
    unsafe extern "C" {
        safe fn __machine_change(addr: usize);
    }

    #[inline(always)]
    pub(super) fn look<T>(_word: &T) {}

    #[inline(always)]
    pub(super) fn change<T>(word: &T) {
        __machine_change(core::ptr::from_ref(word).addr());
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug, Default, FromBytes, IntoBytes)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        impl $name {
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                look(self);
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
    #[inline]
    pub fn store(&self, value: u8, order: Ordering) {
        look(self);
        self.0.store(value, order);
    }

    #[inline]
    pub fn compare_exchange(&self, old: u8, new: u8, done: Ordering, not: Ordering) -> Result<u8, u8> {
        change(self);
        self.0.compare_exchange(old, new, done, not)
    }
}

impl AtomicU32 {
    #[inline]
    pub fn store(&self, value: u32, order: Ordering) {
        look(self);
        self.0.store(value, order);
    }
}

impl AtomicUsize {
    #[inline]
    pub fn swap(&self, value: usize, order: Ordering) -> usize {
        change(self);
        self.0.swap(value, order)
    }

    #[inline]
    pub fn compare_exchange_weak(
        &self,
        old: usize,
        new: usize,
        done: Ordering,
        not: Ordering,
    ) -> Result<usize, usize> {
        change(self);
        self.0.compare_exchange(old, new, done, not)
    }
}

impl AtomicU64 {
    #[inline]
    pub fn swap(&self, value: u64, order: Ordering) -> u64 {
        change(self);
        self.0.swap(value, order)
    }

    #[inline]
    pub fn compare_exchange(&self, old: u64, new: u64, done: Ordering, not: Ordering) -> Result<u64, u64> {
        change(self);
        self.0.compare_exchange(old, new, done, not)
    }

    pub const fn new(value: u64) -> Self {
        Self(atomic::AtomicU64::new(value))
    }

    #[inline]
    pub fn store(&self, value: u64, order: Ordering) {
        look(self);
        self.0.store(value, order);
    }

    #[inline]
    pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        change(self);
        self.0.fetch_add(value, order)
    }

    #[inline]
    pub fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        change(self);
        self.0.fetch_sub(value, order)
    }

    #[inline]
    pub fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        change(self);
        self.0.fetch_max(value, order)
    }

    #[inline]
    pub fn fetch_or(&self, mask: u64, order: Ordering) -> u64 {
        change(self);
        self.0.fetch_or(mask, order)
    }

    #[inline]
    pub fn fetch_and(&self, mask: u64, order: Ordering) -> u64 {
        change(self);
        self.0.fetch_and(mask, order)
    }

    #[inline]
    pub fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        update: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        change(self);
        self.0.fetch_update(set, fetch, update)
    }
}
