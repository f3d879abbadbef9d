//! Many ranges, gathered for few calls. No heap: a purge may be needed before the heap works again.
//! And little of the stack: a thread may have 16 KiB of it in all.

use crate::os::futex::FutexLock;
use crate::os::madvise::{Advice, VECTOR_MAX};
use crate::os::reservation::{Access, Mapping, Reservation};
use libc::iovec;
use lock_api::{Mutex, MutexGuard};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use vmalloc::{PageRange, PlatformError};

/// The runs of a batch that lies on the stack (512 bytes).
const FEW: usize = 32;

type RunRoom = [MaybeUninit<iovec>];

/// Room for [`VECTOR_MAX`] runs (16 KiB), which one thread uses at a time. Another one gathers
/// [`FEW`] runs on its stack, and so does a signal handler that has interrupted a user. A child of
/// a fork whose user was another thread does so for ever: nothing is lost but some calls.
#[derive(Debug)]
pub(crate) struct BatchRoom(Mutex<FutexLock, Mapping>);

impl BatchRoom {
    pub(crate) fn new() -> Result<Self, Errno> {
        Mapping::new(VECTOR_MAX * size_of::<iovec>(), Access::ReadWrite).map(|room| Self(Mutex::new(room)))
    }

    /// Returns the room, if it is not in use.
    fn take(&self) -> Option<MutexGuard<'_, FutexLock, Mapping>> {
        self.0.try_lock()
    }
}

/// Returns the runs that a mapping has room for.
fn runs_in(room: &mut Mapping) -> &mut RunRoom {
    // SAFETY: the mapping is readable and writable, begins at a page, has room for so many, and is
    // borrowed exclusively for as long. What is there need not be initialized.
    unsafe { std::slice::from_raw_parts_mut(room.base().as_ptr().cast(), VECTOR_MAX) }
}

/// Runs of addresses, up to as many as there is room for.
pub(crate) struct Batch<'a> {
    memory: &'a Reservation,
    runs: &'a mut RunRoom,
    len: usize,
}

/// Calls `body` with an empty batch.
pub(crate) fn with_batch<T>(memory: &Reservation, body: impl FnOnce(&mut Batch<'_>) -> T) -> T {
    match memory.batch_room().take() {
        Some(mut room) => body(&mut Batch { memory, runs: runs_in(&mut room), len: 0 }),
        None => with_few(memory, body),
    }
}

/// A function of its own, so that only its caller pays for the stack.
#[cold]
#[inline(never)]
fn with_few<T>(memory: &Reservation, body: impl FnOnce(&mut Batch<'_>) -> T) -> T {
    let mut runs = [const { MaybeUninit::uninit() }; FEW];
    body(&mut Batch { memory, runs: &mut runs, len: 0 })
}

impl Batch<'_> {
    /// Adds `range`, and hands the batch to `send` when that fills it.
    pub(crate) fn push(
        &mut self,
        range: PageRange,
        send: impl FnOnce(&Reservation, &[iovec]) -> Result<(), PlatformError>,
    ) -> Result<(), PlatformError> {
        self.runs[self.len].write(self.memory.run(range));
        self.len += 1;
        if self.len == self.runs.len() { self.finish(send) } else { Ok(()) }
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
/// [`VECTOR_MAX`] of them, as a rule.
pub(crate) fn drop_pages(memory: &Reservation, ranges: &[PageRange]) -> Result<(), PlatformError> {
    match ranges {
        [range] => memory.advise(*range, Advice::DontNeed),
        ranges => with_batch(memory, |batch| {
            ranges.iter().try_for_each(|range| batch.push(*range, drop_runs))?;
            batch.finish(drop_runs)
        }),
    }
}

fn drop_runs(memory: &Reservation, runs: &[iovec]) -> Result<(), PlatformError> {
    memory.advise_all(runs, Advice::DontNeed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_bytes;

    fn memory(pages: usize) -> Reservation {
        let mapping = Mapping::new(pages * page_bytes(), Access::ReadWrite).unwrap();
        Reservation::new(mapping, page_bytes(), BatchRoom::new().unwrap()).unwrap()
    }

    fn pages_of(memory: &Reservation) -> Vec<PageRange> {
        let span = memory.span();
        (span.start()..span.end()).filter_map(|page| PageRange::from_len(page, 1)).collect()
    }

    /// Returns the lengths of the batches in which as many ranges go.
    fn batches(memory: &Reservation) -> Vec<usize> {
        let mut sent = Vec::new();
        with_batch(memory, |batch| {
            let mut send = |_: &Reservation, runs: &[iovec]| {
                sent.push(runs.len());
                Ok(())
            };
            pages_of(memory).iter().for_each(|range| batch.push(*range, &mut send).unwrap());
            batch.finish(send).unwrap();
        });
        sent
    }

    #[test]
    fn all_room_is_used_where_nobody_else_does() {
        let memory = memory(VECTOR_MAX + 1);
        assert_eq!(batches(&memory), [VECTOR_MAX, 1]);
        assert_eq!(batches(&memory), [VECTOR_MAX, 1], "it was given back");
    }

    #[test]
    fn few_runs_go_at_once_where_another_has_the_room() {
        let memory = memory(2 * FEW + 1);
        let held = memory.batch_room().take().unwrap();
        assert_eq!(batches(&memory), [FEW, FEW, 1]);
        drop(held);
        assert_eq!(batches(&memory), [2 * FEW + 1]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no madvise")]
    fn pages_are_dropped_either_way() {
        let memory = memory(100);
        let bytes = memory.run(memory.span());
        for is_held in [false, true] {
            // SAFETY: memory of this test, to which nothing refers.
            unsafe { bytes.iov_base.cast::<u8>().write_bytes(1, bytes.iov_len) };
            let held = is_held.then(|| memory.batch_room().take());
            drop_pages(&memory, &pages_of(&memory)[1..]).unwrap();
            drop(held);
            // SAFETY: as above, and all of it is initialized.
            let content = unsafe { std::slice::from_raw_parts(bytes.iov_base.cast::<u8>(), bytes.iov_len) };
            assert!(
                content[..page_bytes()].iter().all(|&byte| byte == 1)
                    && content[page_bytes()..].iter().all(|&byte| byte == 0)
            );
        }
    }
}
