//! A simulated machine with memory at its addresses.

use crate::heap::SpaceLock;
use crate::options::Options;
use crate::sim::Sim;
use lock_api::RawMutex;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use vmalloc::{
    DirectMemory, Discard, DrainReason, Extras, Geometry, PageRange, Platform, PlatformError, Protect,
    Protection, ReadNofault, Relocate, Translate,
};

/// The value of bytes that have no owner any more.
const POISON: u8 = 0xdb;

/// A [`Sim`] whose span is a block of the heap, so that its addresses can be used: for what the
/// space itself does with memory. The simulator judges the calls, as ever; accesses it does not
/// see. Pages that were unmapped are full of a pattern, and reading them is no fault.
///
/// It has no [`FrameSupply`](vmalloc::FrameSupply): a block of the heap is nowhere twice.
#[derive(Debug)]
pub struct Direct<L = parking_lot::RawMutex> {
    block: NonNull<u8>,
    layout: Layout,
    sim: Sim<L>,
}

// SAFETY: the block belongs to this platform alone; whose its bytes are is for the platform's user
// to know, as with any platform.
#[allow(unsafe_code)]
unsafe impl<L> Send for Direct<L> {}
// SAFETY: as for `Send`: no method reads or writes bytes but on behalf of their owner.
#[allow(unsafe_code)]
unsafe impl<L> Sync for Direct<L> {}

impl Direct {
    /// Returns a machine that lends so many pages, a power of two, with the options that `choose`
    /// makes of the usual ones.
    pub fn new(pages: u64, choose: impl FnOnce(Options) -> Options) -> Self {
        Self::new_with(pages, choose)
    }
}

impl<L: RawMutex + Send + Sync + 'static> Direct<L> {
    /// Makes the machine, with this lock for the space above it.
    pub fn new_with(pages: u64, choose: impl FnOnce(Options) -> Options) -> Self {
        let bytes = (pages as usize) << Sim::PAGE_SHIFT;
        // As aligned as it is large: where areas lie in it never depends on where it is.
        let layout = Layout::from_size_align(bytes, bytes).expect("pages are a power of two, and few");
        assert!(pages > 0, "a span is not empty");
        // SAFETY: the layout is not empty.
        #[allow(unsafe_code)]
        let block = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let first = block.as_ptr().expose_provenance() >> Sim::PAGE_SHIFT;
        let span = PageRange::from_len(first as u64, pages).expect("a span is not empty");
        // A linear map has no place in the block.
        let options = Options { linear: None, ..choose(Options::new(span)) };
        Self { block, layout, sim: options.build_with() }
    }

    /// Returns the machine that judges.
    pub fn sim(&self) -> &Sim<L> {
        &self.sim
    }

    /// Returns the place in the block at which `range` starts, which is inside of it.
    fn place(&self, range: PageRange) -> NonNull<u8> {
        let span = self.sim.geometry().span;
        assert!(span.covers(&range), "{range:?} is not inside {span:?}");
        let offset = ((range.start() - span.start()) as usize) << Sim::PAGE_SHIFT;
        // SAFETY: the range is inside the block, which is as large as the span.
        #[allow(unsafe_code)]
        unsafe {
            self.block.add(offset)
        }
    }

    /// Returns the byte that new pages are full of.
    fn new_byte(&self) -> u8 {
        if self.sim.geometry().maps_zeroed { 0 } else { POISON }
    }

    /// Fills `range`, as far as it is the block's, with `byte`.
    ///
    /// # Safety
    /// Nothing reads or writes these pages meanwhile.
    #[allow(unsafe_code)]
    unsafe fn fill(&self, range: PageRange, byte: u8) {
        let Some(range) = self.sim.geometry().span.intersection(&range) else { return };
        // SAFETY: the range is inside the block by the intersection, and the caller's alone.
        unsafe { self.place(range).write_bytes(byte, (range.len() as usize) << Sim::PAGE_SHIFT) };
    }
}

impl<L> Drop for Direct<L> {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout, and is given back once.
        #[allow(unsafe_code)]
        unsafe {
            dealloc(self.block.as_ptr(), self.layout);
        }
    }
}

// SAFETY: the span is a block of the heap that this platform owns. A page that is mapped is zeroed,
// unless it says otherwise, and of ordinary memory from before to after. What is unmapped can be
// reached still, which its users must not: nothing else ever gets the block. The lock excludes as
// the caller's choice of `L` does.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Platform for Direct<L> {
    type RawLock = SpaceLock<L>;
    type PurgeLock = L;
    type Context = ();

    fn geometry(&self) -> Geometry {
        self.sim.geometry().remaps_atomically(false).linear_map(None)
    }

    fn cpu(&self) -> usize {
        self.sim.cpu()
    }

    fn extras(&self) -> &dyn Extras {
        self
    }

    unsafe fn map(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on, and it makes the range the caller's alone.
        unsafe {
            self.sim.map(range, protection, ())?;
            self.fill(range, self.new_byte());
        }
        Ok(())
    }

    unsafe fn map_huge(&self, range: PageRange, protection: Protection, _: ()) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on, and it makes the range the caller's alone.
        unsafe {
            self.sim.map_huge(range, protection, ())?;
            self.fill(range, self.new_byte());
        }
        Ok(())
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on; by it nothing uses the ranges any more.
        unsafe {
            ranges.iter().for_each(|&range| self.fill(range, POISON));
            self.sim.unmap(ranges)
        }
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.sim.flush(ranges) }
    }

    unsafe fn zero(&self, range: PageRange) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            self.sim.zero(range);
            self.fill(range, 0);
        }
    }

    fn drain_later(&self, due: DrainReason) -> bool {
        self.sim.drain_later(due)
    }

    fn entropy(&self) -> u64 {
        self.sim.entropy()
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        self.sim.fatal(damage)
    }
}

// SAFETY: the simulator's promise; it lends nothing.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Extras for Direct<L> {
    unsafe fn unmap_now(&self, range: PageRange, tag: Option<&str>) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on; by it nothing uses the range any more.
        unsafe {
            self.fill(range, POISON);
            self.sim.unmap_now(range, tag)
        }
    }
}

// SAFETY: the span is a block of ordinary memory at its own addresses, with its provenance exposed,
// and null is in no block.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> DirectMemory for Direct<L> {}

// SAFETY: see `relocate`; what it moves shows what it held.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Relocate for Direct<L> {
    unsafe fn relocate(&self, from: PageRange, to: PageRange) -> Result<(), PlatformError> {
        let cpu = self.sim.here();
        self.sim.step(|machine| machine.relocate(cpu, from, to))?;
        // SAFETY: the simulator has seen that both ranges are as long as each other; they are the
        // caller's.
        unsafe {
            self.place(to).copy_from(self.place(from), (from.len() as usize) << Sim::PAGE_SHIFT);
            self.fill(from, POISON);
        }
        Ok(())
    }
}

// SAFETY: the simulator's promise; accesses that it does not see can't be kept from anything.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Protect for Direct<L> {
    unsafe fn protect(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.sim.protect(range, protection) }
    }
}

// SAFETY: see `zero`.
#[allow(unsafe_code)]
unsafe impl<L: RawMutex + Send + Sync + 'static> Discard for Direct<L> {
    unsafe fn discard(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: the caller's promise is passed on; by it nothing needs what the pages hold.
        unsafe {
            self.sim.discard(ranges)?;
            ranges.iter().for_each(|&range| self.fill(range, 0));
        }
        Ok(())
    }
}

/// The bytes of the block, where the simulator has a page.
impl<L: RawMutex + Send + Sync + 'static> ReadNofault for Direct<L> {
    fn read_nofault(&self, addr: usize, to: &mut [u8]) -> usize {
        let readable = self.sim.read_nofault(addr, to);
        for (offset, byte) in to[..readable].iter_mut().enumerate() {
            let place = std::ptr::with_exposed_provenance::<u8>(addr + offset);
            // SAFETY: the page is mapped, so it is the block's. That its owner may write to it
            // meanwhile is why it is read volatile, a byte at a time.
            #[allow(unsafe_code)]
            let read = unsafe { place.read_volatile() };
            *byte = read;
        }
        readable
    }
}

impl<L: RawMutex + Send + Sync + 'static> Translate for Direct<L> {
    fn physical_page(&self, page: u64) -> Option<u64> {
        self.sim.physical_page(page)
    }
}
