//! The pool: states, clock, budget, reading and writing back.

use crate::{PAGE, Way, WayError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
use thiserror::Error;

/// Why a page can't be had.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The storage has no such page.
    #[error("page {page} of {pages}")]
    NoSuchPage {
        /// The page that was asked for.
        page: u64,
        /// How many there are.
        pages: u64,
    },
    /// The storage can't be read or written.
    #[error("storage: {0}")]
    Storage(#[from] std::io::Error),
    /// There is no memory, or it can't be given back.
    #[error(transparent)]
    Way(#[from] WayError),
}

const EVICTED: u8 = 0;
const UNLOCKED: u8 = 1;
const MARKED: u8 = 2;
const LOCKED: u8 = 3;

/// How much a pool holds, and evicts at a time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pages that may have memory.
    pub budget: usize,
    /// Pages that are evicted together.
    pub batch: usize,
}

/// A buffer pool over a file.
pub struct Pool<W> {
    way: W,
    storage: File,
    limits: Limits,
    states: Vec<AtomicU8>,
    dirty: Vec<AtomicBool>,
    /// Pages with memory, those that were looked at longest ago first.
    clock: Mutex<VecDeque<u64>>,
    resident: AtomicUsize,
    evictions: AtomicU64,
    loads: AtomicU64,
}

impl<W: Way> Pool<W> {
    /// Returns a pool over `storage`, a file of `pages`, for which `way` was made.
    pub fn new(way: W, storage: File, pages: usize, limits: Limits) -> Self {
        Self {
            way,
            storage,
            limits,
            states: (0..pages).map(|_| AtomicU8::new(EVICTED)).collect(),
            dirty: (0..pages).map(|_| AtomicBool::new(false)).collect(),
            clock: Mutex::new(VecDeque::with_capacity(limits.budget + limits.batch)),
            resident: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
            loads: AtomicU64::new(0),
        }
    }

    /// Returns a page for the calling thread alone, read from the storage if it was evicted.
    ///
    /// # Errors
    /// [`PoolError`]: nothing is lost then, and the page can be asked for again.
    pub fn fix(&self, page: u64) -> Result<Fixed<'_, W>, PoolError> {
        let pages = self.states.len() as u64;
        let state = self.states.get(page as usize).ok_or(PoolError::NoSuchPage { page, pages })?;
        loop {
            let now = state.load(Relaxed);
            // Acquire pairs with the Release of `Fixed::drop` and of the eviction: their content is seen.
            if now == LOCKED || state.compare_exchange(now, LOCKED, Acquire, Relaxed).is_err() {
                std::thread::yield_now();
                continue;
            }
            if now == EVICTED {
                self.load(page).inspect_err(|_| state.store(EVICTED, Release))?;
            }
            return Ok(Fixed { pool: self, page });
        }
    }

    /// Reads a page that this thread has locked.
    fn load(&self, page: u64) -> Result<(), PoolError> {
        while self.resident.fetch_add(1, AcqRel) >= self.limits.budget {
            self.resident.fetch_sub(1, AcqRel);
            if self.evict_batch()? == 0 {
                std::thread::yield_now();
            }
        }
        let read = self.read(page);
        match read {
            Ok(()) => self.clock.lock().push_back(page),
            Err(_) => _ = self.resident.fetch_sub(1, AcqRel),
        }
        self.loads.fetch_add(1, Relaxed);
        read
    }

    fn read(&self, page: u64) -> Result<(), PoolError> {
        let range = self.range(page);
        // SAFETY: this thread has locked the page, which was evicted (B1).
        unsafe { self.way.bring_in(&range) }?;
        // SAFETY: the page is accessible and this thread's.
        let read = self.storage.read_exact_at(unsafe { self.bytes(page) }, page * PAGE as u64);
        read.inspect_err(|_| {
            // SAFETY: as above; it holds nothing. Where that fails too, the memory waits for the next eviction.
            let _ = unsafe { self.way.evict(&[range]) };
        })?;
        Ok(())
    }

    /// Evicts a batch of pages. Returns how many it was.
    ///
    /// # Errors
    /// [`PoolError`]: pages that were not written back stay.
    pub fn evict_batch(&self) -> Result<usize, PoolError> {
        let victims = self.choose();
        let written = self.write_back(&victims);
        let (gone, stay) =
            victims.split_at(written.as_ref().map_or_else(|(done, _)| *done, |()| victims.len()));
        if !stay.is_empty() {
            self.clock.lock().extend(stay);
            stay.iter().for_each(|page| self.states[*page as usize].store(UNLOCKED, Release));
        }
        let ranges: Vec<_> = gone.iter().map(|page| self.range(*page)).collect();
        // SAFETY: this thread has locked the pages, and their content is in the storage (B1, B3).
        let dropped = if ranges.is_empty() { Ok(()) } else { unsafe { self.way.evict(&ranges) } };
        // Pages whose memory can't be given back have it until the next eviction; what they held is in the storage.
        gone.iter().for_each(|page| self.states[*page as usize].store(EVICTED, Release));
        self.resident.fetch_sub(gone.len(), AcqRel);
        self.evictions.fetch_add(gone.len() as u64, Relaxed);
        written.map_err(|(_, cause)| cause)?;
        dropped?;
        Ok(gone.len())
    }

    /// Locks pages that nobody has used since the clock was last there.
    fn choose(&self) -> Vec<u64> {
        let mut clock = self.clock.lock();
        let mut victims = Vec::with_capacity(self.limits.batch);
        for _ in 0..2 * clock.len() {
            let Some(page) = clock.pop_front() else { break };
            let state = &self.states[page as usize];
            if state.compare_exchange(MARKED, LOCKED, Acquire, Relaxed).is_ok() {
                victims.push(page);
                if victims.len() == self.limits.batch {
                    break;
                }
            } else {
                // A page that is locked just now is in use.
                let _ = state.compare_exchange(UNLOCKED, MARKED, Relaxed, Relaxed);
                clock.push_back(page);
            }
        }
        victims
    }

    /// Writes dirty pages back. On an error it tells how many pages are in the storage.
    fn write_back(&self, pages: &[u64]) -> Result<(), (usize, PoolError)> {
        for (done, page) in pages.iter().enumerate() {
            if self.dirty[*page as usize].load(Relaxed) {
                // SAFETY: this thread has locked the page (B1).
                let bytes = unsafe { self.bytes(*page) };
                self.storage.write_all_at(bytes, page * PAGE as u64).map_err(|cause| (done, cause.into()))?;
                self.dirty[*page as usize].store(false, Relaxed);
            }
        }
        Ok(())
    }

    /// Returns how many pages were evicted.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    /// Returns how many pages were read from the storage, or tried to be.
    pub fn loads(&self) -> u64 {
        self.loads.load(Relaxed)
    }

    /// Returns how many pages have memory.
    pub fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }

    /// Returns the addresses of a page.
    pub fn range(&self, page: u64) -> Range<usize> {
        let start = self.way.addr() + page as usize * PAGE;
        start..start + PAGE
    }

    /// Returns the content of a page.
    ///
    /// # Safety
    /// The page is accessible, and the calling thread has locked it.
    #[expect(clippy::mut_from_ref, reason = "the lock of the page makes the reference the only one")]
    unsafe fn bytes(&self, page: u64) -> &mut [u8; PAGE] {
        let content = std::ptr::with_exposed_provenance_mut::<[u8; PAGE]>(self.range(page).start);
        // SAFETY: plain memory of the pool's (`Way`), which is the caller's alone while it has the lock.
        unsafe { &mut *content }
    }
}

/// A page that one thread has for itself. It is given up when this is dropped.
pub struct Fixed<'a, W: Way> {
    pool: &'a Pool<W>,
    page: u64,
}

impl<W: Way> Deref for Fixed<'_, W> {
    type Target = [u8; PAGE];

    fn deref(&self) -> &[u8; PAGE] {
        // SAFETY: the page is fixed, so locked by this thread and accessible.
        unsafe { self.pool.bytes(self.page) }
    }
}

impl<W: Way> DerefMut for Fixed<'_, W> {
    fn deref_mut(&mut self) -> &mut [u8; PAGE] {
        self.pool.dirty[self.page as usize].store(true, Relaxed);
        // SAFETY: as in `deref`.
        unsafe { self.pool.bytes(self.page) }
    }
}

impl<W: Way> Drop for Fixed<'_, W> {
    fn drop(&mut self) {
        self.pool.states[self.page as usize].store(UNLOCKED, Release);
    }
}
