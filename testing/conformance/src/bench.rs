//! A platform just made, and short words for what clauses do with it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use vmalloc::{Geometry, PageRange, Platform, PlatformError, Protection};
use vmalloc_programs::{Look, Seen};

/// The answer or memory that breaks a promise, if it does.
pub(crate) type Verdict = Result<(), String>;

/// A platform under test.
pub(crate) struct Bench<'a, P> {
    pub(crate) platform: P,
    pub(crate) look: &'a dyn Look<P>,
    pub(crate) geometry: Geometry,
    pub(crate) unseen: RefCell<BTreeSet<&'static str>>,
}

impl<'a, P: Platform> Bench<'a, P> {
    pub(crate) fn new(platform: P, look: &'a dyn Look<P>) -> Self {
        let geometry = platform.geometry();
        Self { platform, look, geometry, unseen: RefCell::default() }
    }

    /// Returns `len` pages, `offset` pages behind the start of the span, which has room for them.
    pub(crate) fn pages(&self, offset: u64, len: u64) -> PageRange {
        let range = PageRange::from_len(self.geometry.span.start() + offset, len);
        range.filter(|range| self.geometry.span.covers(range)).expect("a span of 512 pages at least")
    }

    pub(crate) fn map(&self, range: PageRange) -> Verdict {
        // SAFETY: the kit owns the whole span of a platform that it made.
        done("map", range, unsafe { self.platform.map(range, Protection::ReadWrite, Default::default()) })
    }

    pub(crate) fn unmap(&self, ranges: &[PageRange]) -> Verdict {
        // SAFETY: the kit owns the whole span, and keeps no reference into it.
        done("unmap", ranges, unsafe { self.platform.unmap(ranges) })
    }

    pub(crate) fn flush(&self, ranges: &[PageRange]) -> Verdict {
        // SAFETY: every caller has unmapped the ranges, and mapped none of them since.
        done("flush", ranges, unsafe { self.platform.flush(ranges) })
    }

    pub(crate) fn unmap_and_flush(&self, ranges: &[PageRange]) -> Verdict {
        self.unmap(ranges)?;
        self.flush(ranges)
    }

    pub(crate) fn zero(&self, range: PageRange) {
        if !self.look.zero(&self.platform, range) {
            // SAFETY: the kit owns the whole span, and every caller has mapped the range.
            unsafe { self.platform.zero(range) };
        }
    }

    /// Fills each page with a word of its own, from CPUs in turn.
    pub(crate) fn write(&self, range: PageRange, seed: u64) {
        for page in range.start()..range.end() {
            self.look.fill(&self.platform, self.some_cpu(page), page, word(page, seed));
        }
    }

    /// Checks that each page holds what [`write`](Self::write) has left, seen from every CPU.
    pub(crate) fn holds(&self, range: PageRange, seed: u64) -> Verdict {
        self.shows_those(range, range.start(), seed)
    }

    /// Checks that `range` shows what [`write`](Self::write) has left in the pages from `from` on.
    pub(crate) fn shows_those(&self, range: PageRange, from: u64, seed: u64) -> Verdict {
        (range.start()..range.end())
            .zip(from..)
            .try_for_each(|(page, from)| self.shows(page, word(from, seed)))
    }

    /// Checks that `range` reads as zero, seen from every CPU.
    pub(crate) fn is_zero(&self, range: PageRange) -> Verdict {
        (range.start()..range.end()).try_for_each(|page| self.shows(page, 0))
    }

    /// Checks that `page` shows `want`, seen from every CPU.
    pub(crate) fn shows(&self, page: u64, want: u64) -> Verdict {
        for cpu in 0..self.cpus() {
            match self.look.read(&self.platform, cpu, page) {
                Seen::Word(found) if found == want => {}
                Seen::Unknown => self.not_seen("what pages hold"),
                seen => return Err(format!("page {page:#x} shows {seen:x?} on CPU {cpu}, not {want:#x}")),
            }
        }
        Ok(())
    }

    /// Checks that no CPU reaches a page of `range`.
    pub(crate) fn leads_nowhere(&self, range: PageRange) -> Verdict {
        for page in range.start()..range.end() {
            for cpu in 0..self.cpus() {
                match self.look.leads(&self.platform, cpu, page) {
                    Some(true) => return Err(format!("page {page:#x} can be read on CPU {cpu}")),
                    Some(false) => {}
                    None => self.not_seen("whether a page faults"),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn not_seen(&self, fact: &'static str) {
        self.unseen.borrow_mut().insert(fact);
    }

    /// Returns the number of CPUs to look from.
    pub(crate) fn cpus(&self) -> usize {
        self.geometry.cpus.min(4)
    }

    fn some_cpu(&self, page: u64) -> usize {
        page as usize % self.cpus()
    }
}

/// Returns the word of a page: never zero, and another for each page and seed.
pub(crate) fn word(page: u64, seed: u64) -> u64 {
    !(page ^ seed << 40)
}

/// Judges a call that must succeed.
pub(crate) fn done<T>(
    call: &str,
    what: impl std::fmt::Debug,
    result: Result<T, PlatformError>,
) -> Result<T, String> {
    result.map_err(|error| format!("{call} of {what:x?} failed: {error}"))
}

/// Judges a fact, which `seen` describes where it does not hold.
pub(crate) fn ensure(holds: bool, seen: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(seen()) }
}
