//! The machine as the allocator sees it.

use crate::sim::Sim;
use lock_api::RawMutex;
use std::fmt;
use vmalloc::{PageRange, Platform, PlatformError, Protection, Translate};

// SAFETY: the span is constant. Nothing is ever reachable through it but by `read` and `write`, which bring nobody's
// memory in danger, and this type is no `DirectMemory`. The lock excludes as the caller's choice of `L` does.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex> Platform for Sim<L> {
    type RawLock = L;

    fn span(&self) -> PageRange {
        self.span
    }

    fn page_shift(&self) -> u32 {
        Sim::PAGE_SHIFT
    }

    fn cpu(&self) -> usize {
        self.here()
    }

    fn cpus(&self) -> usize {
        self.cpus
    }

    unsafe fn map(&self, range: PageRange, _: Protection) -> Result<(), PlatformError> {
        self.step(|machine| machine.map(range))
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| machine.unmap(cpu, ranges))
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        let cpu = self.here();
        self.step(|machine| machine.flush(cpu, ranges))
    }

    unsafe fn zero(&self, range: PageRange) {
        let cpu = self.here();
        self.step(|machine| machine.zero(cpu, range));
    }

    fn entropy(&self) -> u64 {
        self.step(|machine| machine.entropy())
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("fatal: {damage}")
    }
}

impl<L: RawMutex> Translate for Sim<L> {
    fn frame(&self, page: u64) -> Option<u64> {
        self.step(|machine| machine.frame(page))
    }
}
