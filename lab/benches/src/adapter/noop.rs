//! The allocator that does nothing: what remains is the cost of the measured loop itself.

use crate::ranges::{BASE_PAGE, Plan, Ranges};
use std::hint::black_box;

/// Hands out a function of the request; for calibration only.
#[derive(Debug)]
pub struct Noop;

impl Ranges for Noop {
    type Handle = u64;
    const NAME: &'static str = "(loop alone)";
    const ALIGNS: bool = true;
    const FINDS: bool = true;
    const NEARS: bool = true;
    const GUARDS: bool = true;

    fn build(_plan: &Plan) -> Self {
        Self
    }

    #[inline(always)]
    fn allocate(&mut self, pages: u64, align: u64) -> u64 {
        BASE_PAGE + (pages ^ align)
    }

    #[inline(always)]
    fn free(&mut self, handle: u64) {
        black_box(handle);
    }

    fn start(handle: u64) -> u64 {
        handle
    }

    #[inline(always)]
    fn find(&self, page: u64) -> Option<u64> {
        Some(page)
    }
}
