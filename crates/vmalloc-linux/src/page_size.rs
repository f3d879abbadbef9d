//! The size of a page, which Linux tells when it runs.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the bytes of a page of this machine: those of every page of a space of this platform.
///
/// The first call asks the C library, whose function a library to preload may replace. Later ones,
/// which are made with locks held, read what it said.
#[must_use]
pub fn page_bytes() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: a number and nothing else, and the same for each thread that asks.
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let bytes = rustix::param::page_size();
            KNOWN.store(bytes, Ordering::Relaxed);
            bytes
        }
        known => known,
    }
}
