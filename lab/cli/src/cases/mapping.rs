//! The case about short mappings of given frames.

use super::{Context, Refusal};
use crate::borrowed_frames::BorrowedFrames;
use crate::machine::Machine;
use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use vmalloc::{AllocError, Frame};
use vmalloc_short::UnmapError;

/// The most runs of frames in a mapping: to the kernel each is a mapping, and a program may have
/// 65,530.
const MOST_RUNS: usize = 64;

/// Held: `nr_pages` frames of the supply. A loop: they are mapped, touched, and unmapped. Frames
/// that follow each other are mapped already, so every second loop takes them in another order.
pub(super) fn vm_map_ram(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    // Where addresses are few there is no supply.
    let linear = machine.space.geometry().linear_map.ok_or(Refusal::Expected)?;
    if context.nr_pages > linear.len() {
        let (pages, frames) = (context.nr_pages, linear.len());
        return Err(Refusal::Failed(format!("{pages} frames are more than the supply has: {frames}")));
    }
    let borrowed = BorrowedFrames::take(machine, context.nr_pages as usize)?;
    let orders = [borrowed.frames().to_vec(), scattered(borrowed.frames())];
    let mut mark = 0u8;
    for () in context.turns() {
        mark = mark.wrapping_add(1);
        let mapping = Mapping::new(machine, &orders[usize::from(mark % 2)])?;
        mapping.touch(mark);
        mapping.check(linear.start() as usize * machine.page_bytes)?;
        mapping.end()?;
    }
    Ok(())
}

/// The frames in runs that don't follow each other, if there are two of them.
fn scattered(frames: &[Frame]) -> Vec<Frame> {
    let run = frames.len().div_ceil(MOST_RUNS).max(1);
    frames.rchunks(run).flatten().copied().collect()
}

/// A mapping that ends by itself. Its frames are borrowed by this worker, so that nothing else
/// writes to them.
struct Mapping<'a> {
    machine: &'a Machine,
    frames: &'a [Frame],
    addr: usize,
}

impl<'a> Mapping<'a> {
    fn new(machine: &'a Machine, frames: &'a [Frame]) -> Result<Self, AllocError> {
        machine.short.map(frames).map(|addr| Self { machine, frames, addr })
    }

    /// Writes the first byte of each page: the mark, and the place of the page.
    fn touch(&self, mark: u8) {
        for index in 0..self.frames.len() {
            let byte = with_exposed_provenance_mut::<u8>(self.addr + index * self.machine.page_bytes);
            // SAFETY: the page is mapped, readable and writable, until the mapping ends, and leads
            // to a frame that this worker alone uses, in this thread.
            unsafe { byte.write_volatile(mark.wrapping_add(index as u8)) };
        }
    }

    /// Checks that each page leads to its frame: the written byte must be where frame n always is,
    /// n pages behind `linear`.
    fn check(&self, linear: usize) -> Result<(), Refusal> {
        let page_bytes = self.machine.page_bytes;
        // SAFETY: both addresses lead to a frame that is taken, and that nothing writes to
        // meanwhile.
        let read = |addr: usize| unsafe { with_exposed_provenance::<u8>(addr).read_volatile() };
        for (index, frame) in self.frames.iter().enumerate() {
            let here = read(self.addr + index * page_bytes);
            let there = read(linear + frame.0 as usize * page_bytes);
            if here != there {
                let text = format!("page {index} does not lead to frame {}: {here} for {there}", frame.0);
                return Err(Refusal::Failed(text));
            }
        }
        Ok(())
    }

    fn end(self) -> Result<(), UnmapError> {
        let result = self.unmap();
        core::mem::forget(self);
        result
    }

    fn unmap(&self) -> Result<(), UnmapError> {
        // SAFETY: nothing but `self` uses the mapping, and it is called by what ends `self`.
        unsafe { self.machine.short.unmap(self.addr, self.frames.len()) }
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        // A refusal leaves it there, which the check after the run reports.
        let _ = self.unmap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineOptions;

    #[test]
    fn scattered_frames_are_all_of_them_in_few_runs() {
        for count in [1, 2, 63, 64, 65, 1000] {
            let frames: Vec<_> = (0..count).map(Frame).collect();
            let mut order = scattered(&frames);
            let runs = order.chunk_by(|a, b| a.0 + 1 == b.0).count();
            assert!(runs <= MOST_RUNS && (runs > 1 || count == 1), "{runs} runs of {count}");
            order.sort_unstable();
            assert_eq!(order, frames);
        }
    }

    #[test]
    fn a_page_that_leads_to_another_frame_is_seen() {
        let machine = Machine::new(MachineOptions::default()).expect("a machine with address space");
        let linear = machine.space.geometry().linear_map.expect("a supply").start() as usize;
        let borrowed = BorrowedFrames::take(&machine, 3).expect("three frames");
        let order = scattered(borrowed.frames());
        let mut mapping = Mapping::new(&machine, &order).expect("a mapping");
        mapping.touch(7);
        assert_eq!(mapping.check(linear * machine.page_bytes), Ok(()));
        mapping.frames = borrowed.frames();
        assert!(mapping.check(linear * machine.page_bytes).is_err());
        drop(mapping);
        drop(borrowed);
        assert_eq!(machine.check_whole(), [""; 0]);
    }
}
