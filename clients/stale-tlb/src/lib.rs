//! The `x86_64` crate's own page table code, unmodified, on a simulated MMU.
//!
//! [`Kernel`] is the part that every kernel has to write around the crate: frames, the address of physical memory, and the
//! flush. Frames come from the machine and go back to it, so that a frame which goes back too early is found.

pub mod mmu;

use mmu::{Mmu, MmuFault};
use x86_64::structures::paging::mapper::{CleanUp, MapToError, UnmapError};
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame,
    Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

/// The flushes that a kernel makes after it has unmapped a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// None: `MapperFlush::ignore`.
    Ignored,
    /// Only on the CPU that unmaps: all that `MapperFlush::flush` does.
    Local,
    /// On every CPU.
    Everywhere,
}

/// The moment when tables that `CleanUp::clean_up` removes go back to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// At once, as the crate hands them back.
    AtOnce,
    /// After every CPU was flushed.
    AfterFlush,
}

/// A kernel with one set of page tables.
#[derive(Debug)]
pub struct Kernel {
    mmu: Mmu,
    root: u64,
    cpus: usize,
}

/// The frames of the machine, as the crate asks for them.
struct Frames<'a>(&'a Mmu);

// SAFETY: the machine hands out each free frame once.
unsafe impl FrameAllocator<Size4KiB> for Frames<'_> {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        self.0.alloc().map(frame)
    }
}

/// Frames that the crate hands back.
struct Freed(Vec<PhysFrame>);

impl FrameDeallocator<Size4KiB> for Freed {
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame) {
        self.0.push(frame);
    }
}

fn frame(number: u64) -> PhysFrame {
    PhysFrame::containing_address(PhysAddr::new(number << 12))
}

fn number(frame: PhysFrame) -> u64 {
    frame.start_address().as_u64() >> 12
}

fn page(addr: u64) -> Page {
    Page::containing_address(VirtAddr::new(addr))
}

impl Kernel {
    /// Boots on a machine with so many CPUs and frames.
    ///
    /// # Panics
    /// When there is no frame for the root.
    pub fn boot(cpus: usize, frames: u64) -> Self {
        let mmu = Mmu::new(cpus, frames);
        let root = mmu.alloc().expect("a frame for the root");
        mmu.clear(root);
        (0..cpus).for_each(|cpu| mmu.load_root(cpu, root));
        Self { mmu, root, cpus }
    }

    /// Returns the machine.
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    /// Runs the crate's code on the tables.
    fn with_tables<R>(&mut self, act: impl FnOnce(&mut OffsetPageTable<'_>, &Mmu) -> R) -> R {
        let base = self.mmu.base();
        // SAFETY: the root is a table in the machine's memory, which may be written by this pointer. No CPU of the
        // machine reads it before `act` has returned.
        let root = unsafe { &mut *base.add((self.root as usize) << 12).cast::<PageTable>() };
        let offset = VirtAddr::from_ptr(base);
        // SAFETY: all memory of the machine lies at `base`, and the root is a valid table.
        let mut tables = unsafe { OffsetPageTable::new(root, offset) };
        act(&mut tables, &self.mmu)
    }

    /// Maps a frame of its own at an address, with the crate's `map_to`.
    ///
    /// # Errors
    /// The crate's own.
    pub fn map(&mut self, addr: u64) -> Result<(), MapToError<Size4KiB>> {
        let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
        self.with_tables(|tables, mmu| {
            let frame = Frames(mmu).allocate_frame().ok_or(MapToError::FrameAllocationFailed)?;
            // SAFETY: the frame is new, so nothing else is reached by the page.
            let mapped = unsafe { tables.map_to(page(addr), frame, flags, &mut Frames(mmu)) };
            // A page that was not mapped is in no cache.
            mapped?.ignore();
            Ok(())
        })
    }

    /// Unmaps an address on `cpu` with the crate's `unmap`, flushes, and frees the frame.
    ///
    /// # Errors
    /// The crate's own.
    ///
    /// # Panics
    /// When there is no such CPU.
    pub fn unmap(&mut self, cpu: usize, addr: u64, flush: Flush) -> Result<Result<(), MmuFault>, UnmapError> {
        let (frame, promise) = self.with_tables(|tables, _| tables.unmap(page(addr)))?;
        let stale = promise.page().start_address().as_u64();
        promise.ignore();
        match flush {
            Flush::Ignored => (),
            Flush::Local => self.mmu.flush_page(cpu, stale),
            Flush::Everywhere => self.mmu.shoot_down(stale),
        }
        Ok(self.mmu.free(number(frame)))
    }

    /// Makes a page read-only with the crate's `update_flags`.
    ///
    /// # Panics
    /// When it is not mapped.
    pub fn protect(&mut self, cpu: usize, addr: u64, flush: Flush) {
        // SAFETY: nothing in this program relies on writing to the page.
        let promise =
            self.with_tables(|tables, _| unsafe { tables.update_flags(page(addr), PageTableFlags::PRESENT) });
        let stale = promise.expect("a page that is mapped").page().start_address().as_u64();
        match flush {
            Flush::Ignored => (),
            Flush::Local => self.mmu.flush_page(cpu, stale),
            Flush::Everywhere => self.mmu.shoot_down(stale),
        }
    }

    /// Frees the tables that have no entries, with the crate's `clean_up`. Returns how many they were, and what was found.
    pub fn clean_up(&mut self, when: Tables) -> (usize, Vec<MmuFault>) {
        let mut freed = Freed(Vec::new());
        // SAFETY: each table is used once, and only in these tables: all that the crate asks for.
        self.with_tables(|tables, _| unsafe { tables.clean_up(&mut freed) });
        if when == Tables::AfterFlush {
            (0..self.cpus).for_each(|cpu| self.mmu.flush_all(cpu));
        }
        let faults = freed.0.iter().filter_map(|table| self.mmu.free(number(*table)).err()).collect();
        (freed.0.len(), faults)
    }
}
