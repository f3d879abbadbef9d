//! Many ranges, gathered for few calls. No heap: a purge may be needed before the heap works again.

use crate::os::madvise::{Advice, VECTOR_MAX};
use crate::os::reservation::Reservation;
use libc::iovec;
use std::mem::MaybeUninit;
use vmalloc::{PageRange, PlatformError};

/// Up to [`VECTOR_MAX`] runs of addresses, on the stack (16 KiB).
pub(crate) struct Batch<'a> {
    memory: &'a Reservation,
    runs: [MaybeUninit<iovec>; VECTOR_MAX],
    len: usize,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(memory: &'a Reservation) -> Self {
        Self { memory, runs: [const { MaybeUninit::uninit() }; VECTOR_MAX], len: 0 }
    }

    /// Adds `range`, and hands the batch to `send` when that fills it.
    pub(crate) fn push(
        &mut self,
        range: PageRange,
        send: impl FnOnce(&Reservation, &[iovec]) -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        self.runs[self.len].write(self.memory.run(range));
        self.len += 1;
        if self.len == VECTOR_MAX { self.finish(send) } else { Ok(()) }
    }

    /// Hands the gathered ranges to `send`, and begins again.
    pub(crate) fn finish(
        &mut self,
        send: impl FnOnce(&Reservation, &[iovec]) -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        let filled = &self.runs[..std::mem::take(&mut self.len)];
        // SAFETY: `push` wrote each element below `len`, and `MaybeUninit<T>` has the layout of
        // `T`.
        let runs = unsafe { &*(std::ptr::from_ref(filled) as *const [iovec]) };
        if runs.is_empty() { Ok(()) } else { send(self.memory, runs) }
    }
}

/// Drops the memory behind `ranges`: the next touch finds zeros. One call for each
/// [`VECTOR_MAX`] of them.
pub(crate) fn drop_pages(memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
    match ranges {
        [range] => memory.advise(*range, Advice::DontNeed),
        ranges => drop_many(memory, ranges),
    }
}

/// A function of its own, so that only a batch pays for the stack of a batch.
#[inline(never)]
fn drop_many(memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
    let mut batch = Batch::new(memory);
    ranges.iter().try_for_each(|range| batch.push(*range, drop_runs))?;
    batch.finish(drop_runs)
}

fn drop_runs(memory: &Reservation, runs: &[iovec]) -> Result<(), PlatformError> {
    memory.advise_all(runs, Advice::DontNeed)
}
