//! The bounds of a reservation, written while other threads ask for them.

#[cfg(loom)]
use loom::sync::atomic::AtomicUsize;
#[cfg(not(loom))]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

/// The first address and the size of a reservation. It is empty until [`set`](Self::set).
#[derive(Debug)]
#[doc(hidden)]
pub struct Bounds {
    base: AtomicUsize,
    bytes: AtomicUsize,
}

impl Bounds {
    /// Returns bounds with nothing between them.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn empty() -> Self {
        Self { base: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Returns bounds with nothing between them.
    #[cfg(loom)]
    #[must_use]
    pub fn empty() -> Self {
        Self { base: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Sets the bounds, once.
    pub fn set(&self, base: usize, bytes: usize) {
        // Relaxed: published by the size.
        self.base.store(base, Ordering::Relaxed);
        // Release: pairs with the Acquire in `contains`.
        self.bytes.store(bytes, Ordering::Release);
    }

    /// Draws the upper bound in. Nothing is left between it and the old one.
    pub fn shrink(&self, bytes: usize) {
        // Release: a thread that finds something else there has got it from the kernel, later.
        self.bytes.store(bytes, Ordering::Release);
    }

    /// Returns true if `addr` lies between the bounds. A thread that does not see them yet has no
    /// address between them.
    #[inline(always)]
    #[must_use]
    pub fn contains(&self, addr: usize) -> bool {
        // Acquire, and the size first: with the size of a reservation but without its start, a low
        // address would seem to lie in it, such as those that brk(2) gives to a program that was
        // linked for one place.
        let bytes = self.bytes.load(Ordering::Acquire);
        addr.wrapping_sub(self.base.load(Ordering::Relaxed)) < bytes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_between_empty_bounds() {
        let bounds = Bounds::empty();
        assert!(![0, 1, usize::MAX].into_iter().any(|addr| bounds.contains(addr)));
        bounds.set(0x7000, 0x2000);
        assert_eq!(
            [0x6fff, 0x7000, 0x8fff, 0x9000].map(|addr| bounds.contains(addr)),
            [false, true, true, false]
        );
        bounds.shrink(0x1000);
        assert!(bounds.contains(0x7fff) && !bounds.contains(0x8000));
    }
}

/// To run it:
///
/// ```text
/// RUSTFLAGS="--cfg loom" cargo test -p vmalloc-malloc --lib models --target-dir target/loom
/// ```
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn a_foreign_address_is_never_between_them() {
        loom::model(|| {
            let bounds = Arc::new(Bounds::empty());
            let writer = {
                let bounds = Arc::clone(&bounds);
                thread::spawn(move || bounds.set(0x7000_0000, 0x100_0000))
            };
            assert!(!bounds.contains(0x40_0000), "below the size, and far from the start");
            writer.join().unwrap();
            assert!(bounds.contains(0x7000_0000) && !bounds.contains(0x40_0000));
        });
    }
}
