//! How a program looks at the memory of a platform, and has its calls fail.

use crate::faulty::Faulty;
use std::ptr;
use vmalloc::{DirectMemory, PageRange, Platform, ReadNofault};
use vmalloc_sim::{Due, Point};

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

    /// Returns true if `cpu` may execute what is in `page`; `None` if that can't be told.
    fn can_fetch(&self, platform: &P, cpu: usize, page: u64) -> Option<bool> {
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

    /// Returns what the platform still holds, when all of a space was freed and purged, and all
    /// frames were given back.
    fn leaks(&self, platform: &P) -> Vec<String> {
        let _ = platform;
        Vec::new()
    }

    /// Lets `cpu` remember translations of whatever is mapped, as speculation may at any time.
    fn speculate(&self, platform: &P, cpu: usize) {
        let _ = (platform, cpu);
    }

    /// Notes that `range` was handed out without memory.
    fn handed_out(&self, platform: &P, range: PageRange) {
        let _ = (platform, range);
    }

    /// Makes these calls of a kind from now on fail, or the first of them alone, where that is
    /// possible; 1 is the next.
    fn fail(&self, platform: &P, point: Point, due: Due) {
        let _ = (platform, point, due);
    }

    /// Makes all unmaps or flushes of these pages fail, and returns true, where that is possible.
    fn refuse(&self, platform: &P, point: Point, pages: PageRange) -> bool {
        let _ = (platform, point, pages);
        false
    }

    /// Makes no more calls fail.
    fn heal(&self, platform: &P) {
        let _ = platform;
    }

    /// Runs a call of the space, whose requests for memory are those that may fail.
    fn on_heap(&self, call: &mut dyn FnMut()) {
        call();
    }

    /// Returns how many calls have failed so far, on request or because something ran out.
    fn failed(&self, platform: &P) -> u64 {
        let _ = platform;
        0
    }

    /// Returns how many calls have failed on request.
    fn failed_on_request(&self, platform: &P) -> u64 {
        self.failed(platform)
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
            // SAFETY: the program owns the page, which is mapped for writing, by the trait's
            // condition; `DirectMemory` says that it is memory at this address.
            unsafe { at.write_volatile(word) };
        });
    }

    fn read(&self, platform: &P, _: usize, page: u64) -> Seen {
        let mut loaded = words(platform, page).map(|at| {
            // SAFETY: the program owns the page, which is mapped for reading, by the trait's
            // condition; `DirectMemory` says that it is memory at this address.
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

/// Looks through a [`Faulty`] at the platform below, and has the calls of both fail.
#[derive(Clone, Copy, Debug)]
pub struct Below;

impl<P: Platform> Look<Faulty<P>> for Below {
    fn fill(&self, faulty: &Faulty<P>, cpu: usize, page: u64, word: u64) {
        faulty.look().fill(faulty.inner(), cpu, page, word);
    }

    fn read(&self, faulty: &Faulty<P>, cpu: usize, page: u64) -> Seen {
        faulty.look().read(faulty.inner(), cpu, page)
    }

    fn leads(&self, faulty: &Faulty<P>, cpu: usize, page: u64) -> Option<bool> {
        faulty.look().leads(faulty.inner(), cpu, page)
    }

    fn can_write(&self, faulty: &Faulty<P>, cpu: usize, page: u64) -> Option<bool> {
        faulty.look().can_write(faulty.inner(), cpu, page)
    }

    fn run_on(&self, faulty: &Faulty<P>, cpu: usize) {
        faulty.run_on(cpu);
    }

    fn faults(&self, faulty: &Faulty<P>) -> Vec<String> {
        faulty.look().faults(faulty.inner())
    }

    fn leaks(&self, faulty: &Faulty<P>) -> Vec<String> {
        faulty.look().leaks(faulty.inner())
    }

    fn speculate(&self, faulty: &Faulty<P>, cpu: usize) {
        faulty.look().speculate(faulty.inner(), cpu);
    }

    fn handed_out(&self, faulty: &Faulty<P>, range: PageRange) {
        faulty.look().handed_out(faulty.inner(), range);
    }

    fn fail(&self, faulty: &Faulty<P>, point: Point, due: Due) {
        faulty.plan().fail(point, Due::Nth(due.first()));
    }

    fn heal(&self, faulty: &Faulty<P>) {
        faulty.plan().heal();
    }

    fn failed(&self, faulty: &Faulty<P>) -> u64 {
        self.failed_on_request(faulty) + faulty.look().failed(faulty.inner())
    }

    fn failed_on_request(&self, faulty: &Faulty<P>) -> u64 {
        Point::ALL.into_iter().map(|point| faulty.plan().fired(point)).sum()
    }
}
