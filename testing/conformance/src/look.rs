//! How the kit looks at memory.

use std::ptr;
use vmalloc::{DirectMemory, PageRange, Platform, ReadNofault};

/// The result of a load from every word of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Every word of the page is this one.
    Word(u64),
    /// Words of the page differ.
    Mixed,
    /// A load faults.
    Fault,
    /// The memory cannot be looked at.
    Unknown,
}

/// Looks at the memory of a platform, as a program does by loads and stores.
///
/// Only pages that are mapped for reading are read, and only those mapped for writing are filled.
pub trait Look<P>: Send + Sync {
    /// Stores `word` to every word of `page`, from `cpu`.
    fn fill(&self, platform: &P, cpu: usize, page: u64, word: u64);

    /// Loads every word of `page`, from `cpu`.
    fn read(&self, platform: &P, cpu: usize, page: u64) -> Seen;

    /// Returns true if a load from `page`, by `cpu`, does not fault; `None` if only a fault could
    /// tell.
    fn leads(&self, platform: &P, cpu: usize, page: u64) -> Option<bool>;

    /// Returns true if a store to `page`, by `cpu`, does not fault; `None` if only a fault could
    /// tell.
    fn can_write(&self, platform: &P, cpu: usize, page: u64) -> Option<bool> {
        let _ = (platform, cpu, page);
        None
    }

    /// Fills `range` with zeros in place of the platform, and returns true: for platforms whose
    /// [`zero`](Platform::zero) writes to addresses that this program does not have.
    fn zero(&self, platform: &P, range: PageRange) -> bool {
        let _ = (platform, range);
        false
    }

    /// Makes the calling thread go on on `cpu`, where that can be chosen.
    fn run_on(&self, platform: &P, cpu: usize) {
        let _ = (platform, cpu);
    }

    /// Returns the misuses that the platform itself has found since it was made.
    fn faults(&self, platform: &P) -> Vec<String> {
        let _ = platform;
        Vec::new()
    }
}

/// Looks at nothing: for a platform whose pages lead nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Blind;

impl<P> Look<P> for Blind {
    fn fill(&self, _: &P, _: usize, _: u64, _: u64) {}

    fn read(&self, _: &P, _: usize, _: u64) -> Seen {
        Seen::Unknown
    }

    fn leads(&self, _: &P, _: usize, _: u64) -> Option<bool> {
        None
    }
}

/// Looks at pages at their own addresses. It cannot see whether a page faults.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl<P: DirectMemory> Look<P> for Direct {
    fn fill(&self, platform: &P, _: usize, page: u64, word: u64) {
        words(platform, page).for_each(|at| {
            // SAFETY: the kit owns the page, which is mapped for writing, by the trait's condition;
            // `DirectMemory` says that it is memory at this address.
            unsafe { at.write_volatile(word) };
        });
    }

    fn read(&self, platform: &P, _: usize, page: u64) -> Seen {
        let mut loaded = words(platform, page).map(|at| {
            // SAFETY: the kit owns the page, which is mapped for reading, by the trait's condition;
            // `DirectMemory` says that it is memory at this address.
            unsafe { at.read_volatile() }
        });
        let first = loaded.next().unwrap_or_default();
        if loaded.all(|word| word == first) { Seen::Word(first) } else { Seen::Mixed }
    }

    fn leads(&self, _: &P, _: usize, _: u64) -> Option<bool> {
        None
    }
}

/// Returns the words of a page.
fn words(platform: &impl Platform, page: u64) -> impl Iterator<Item = *mut u64> {
    let geometry = platform.geometry();
    let start = (page << geometry.page_shift) as usize;
    let addrs = (start..start + geometry.page_bytes()).step_by(size_of::<u64>());
    addrs.map(ptr::with_exposed_provenance_mut)
}

/// Looks at pages at their own addresses, and sees by [`ReadNofault`] whether a page faults.
#[derive(Clone, Copy, Debug)]
pub struct Nofault;

impl<P: DirectMemory + ReadNofault> Look<P> for Nofault {
    fn fill(&self, platform: &P, cpu: usize, page: u64, word: u64) {
        Direct.fill(platform, cpu, page, word);
    }

    fn read(&self, platform: &P, cpu: usize, page: u64) -> Seen {
        match self.leads(platform, cpu, page) {
            Some(true) => Direct.read(platform, cpu, page),
            _ => Seen::Fault,
        }
    }

    fn leads(&self, platform: &P, _: usize, page: u64) -> Option<bool> {
        let addr = (page << platform.geometry().page_shift) as usize;
        Some(platform.read_nofault(addr, &mut [0]) == 1)
    }
}
