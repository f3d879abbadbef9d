//! The kernel's virtual addresses, handed out by `vmalloc`.
//!
//! ```text
//!   kernel_heap_end() / 2                                                    kernel_heap_end()
//!   │ heap (before there is a space) │ a page │ span of the space ─────────────────────►│
//! ```
//!
//! | call | area | what goes back after every CPU has forgotten it |
//! |---|---|---|
//! | [`allocate`] | reserved; [`map`] shows what its owner has elsewhere | addresses |
//! | [`memory`] | memory of its own, with a guard page; kept mapped for the next one | addresses and frames |
//! | [`device_memory`] | so, on consecutive frames | addresses and frames |
//!
//! With interrupts on, a call may purge, and so wait for other CPUs. Hermit's timer would let
//! another task run meanwhile, which might wait for the same lock for ever: so it waits until the
//! call is over. With interrupts off nothing is waited for: an area that is freed is put aside.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use hermit_sync::{InterruptTicketMutex, OnceCell};
use vmalloc_tables::{
	AllocError, FrameRun, FreeError, Frame, Kind, MapFrames, PageRange, PageTables, Protection, Raw,
	Request, Space, SpaceOptions,
};

use super::machine::{self, Hermit};
use crate::arch::x86_64::mm::paging::{
	BasePageSize, PageSize, PageTableEntryFlags, virtual_to_physical,
};
use crate::arch::x86_64::mm::{PhysAddr, VirtAddr};

const PAGE: u64 = BasePageSize::SIZE;
/// Bytes of freed areas that stay mapped for new ones, and lazy pages that start a purge: 16 MiB.
const KEPT: usize = 16 << 20;

static SPACE: OnceCell<Space<PageTables<Hermit>>> = OnceCell::new();

/// Where the addresses begin that nothing has taken before there is a space.
static START: AtomicU64 = AtomicU64::new(0);

/// Areas that were freed with interrupts off.
static PUT_ASIDE: InterruptTicketMutex<Vec<usize>> = InterruptTicketMutex::new(Vec::new());

/// Returns the last address of the kernel's.
#[inline]
pub fn kernel_heap_end() -> VirtAddr {
	VirtAddr::new(0x7fff_ffff_ffff)
}

pub fn init() {
	START.store(kernel_heap_end().as_u64().div_ceil(2), Ordering::Relaxed);
}

/// Makes the space. There is a heap.
pub fn init_space() {
	// The page between is never mapped: it guards the first area.
	let start = START.load(Ordering::Relaxed) / PAGE + 1;
	let span = PageRange::new(start, (kernel_heap_end().as_u64() + 1) / PAGE).unwrap();
	// SAFETY: All but the heap get their addresses here.
	let tables = unsafe { PageTables::new(Hermit, span) }.expect("frames for page tables");
	let options = SpaceOptions::default().nodes(machine::CPUS).cache_bytes(KEPT);
	let options = options.lazy_max_pages(KEPT as u64 / PAGE);
	let space = Space::new(tables, options).expect("the heap holds the metadata of a space");
	assert!(SPACE.set(space).is_ok());
}

/// Returns the space.
pub fn space() -> &'static Space<PageTables<Hermit>> {
	SPACE.get().expect("the heap is there")
}

/// Makes an area, and frees those that were put aside.
fn make(
	request: Request,
	make: impl Fn(Raw<'_, PageTables<Hermit>>, &Request) -> Result<usize, AllocError>,
) -> Result<VirtAddr, AllocError> {
	machine::call(|may_wait| {
		if may_wait {
			let aside = core::mem::take(&mut *PUT_ASIDE.lock());
			aside.into_iter().for_each(free_now);
		}
		let addr = make(space().raw(), &request.may_block(may_wait))?;
		Ok(VirtAddr::new(addr as u64))
	})
}

/// Allocates addresses without memory.
pub fn allocate(size: usize) -> Result<VirtAddr, AllocError> {
	make(Request::new(size), |raw, request| raw.reserve(request))
}

/// Allocates the addresses of the heap, before there is a space; later as [`allocate`] does.
pub fn allocate_aligned(size: usize, align: usize) -> Result<VirtAddr, AllocError> {
	if SPACE.get().is_some() {
		return make(Request::new(size).align(align), |raw, request| raw.reserve(request));
	}
	let start = START.load(Ordering::Relaxed).next_multiple_of(align as u64);
	START.store(start + size as u64, Ordering::Relaxed);
	Ok(VirtAddr::new(start))
}

/// Allocates memory, with a guard page on each side. It holds what an earlier owner left.
pub fn memory(size: usize) -> Result<VirtAddr, AllocError> {
	make(Request::new(size), |raw, request| raw.alloc(request))
}

/// Allocates memory on consecutive frames: memory mostly is, for its frames are taken in runs.
pub fn device_memory(size: usize) -> Result<VirtAddr, AllocError> {
	let start = memory(size)?;
	if size as u64 <= PAGE || is_run(start, size) {
		return Ok(start);
	}
	deallocate(start, size);
	// All of these frames are taken at once.
	let start = make(Request::new(size), |raw, request| raw.alloc_shared(request))?;
	assert!(is_run(start, size), "no {size:#x} bytes of consecutive frames");
	Ok(start)
}

fn is_run(start: VirtAddr, size: usize) -> bool {
	let first = virtual_to_physical(start).unwrap();
	(0..size as u64).step_by(PAGE as usize).all(|at| virtual_to_physical(start + at) == Some(first + at))
}

/// Frees an area of any of these calls. Its addresses are not used again, nor its frames by others,
/// before every CPU has forgotten them.
pub fn deallocate(virtual_address: VirtAddr, _size: usize) {
	machine::call(|may_wait| match may_wait {
		true => free_now(virtual_address.as_usize()),
		false => PUT_ASIDE.lock().push(virtual_address.as_usize()),
	});
}

fn free_now(addr: usize) {
	let raw = space().raw();
	let is_reserved = space().find(addr).is_some_and(|area| area.kind == Kind::Reserved);
	// SAFETY: The owner has given the area up.
	match unsafe { if is_reserved { raw.unreserve(addr) } else { raw.free(addr) } } {
		Ok(()) => (),
		// The next call tries again.
		Err(FreeError::NoMemory { .. }) => PUT_ASIDE.lock().push(addr),
		Err(damage) => panic!("can't free an area: {damage}"),
	}
}

/// Returns whether the space hands out an address.
pub fn holds(addr: VirtAddr) -> bool {
	SPACE.get().is_some_and(|space| space.contains(addr.as_usize()))
}

fn pages(start: VirtAddr, size: usize) -> PageRange {
	PageRange::from_len(start.as_u64() / PAGE, size as u64 / PAGE).unwrap()
}

/// Maps memory or devices into a reserved area. What was mapped there is unmapped first.
pub fn map(start: VirtAddr, first: PhysAddr, size: usize, flags: PageTableEntryFlags) {
	let (range, tables) = (pages(start, size), space().platform());
	if tables.frame_at(range.start()).is_some() {
		unmap(start, size);
	}
	let protection = if flags.contains(PageTableEntryFlags::WRITABLE) {
		Protection::ReadWrite
	} else if flags.contains(PageTableEntryFlags::NO_EXECUTE) {
		Protection::Read
	} else {
		Protection::ReadExecute
	};
	let run = FrameRun { first: Frame(first.as_u64() / PAGE), count: range.len() };
	// SAFETY: The caller owns the area, and what it shows there.
	unsafe { tables.map_runs(range, &[run], protection) }.expect("frames for page tables");
}

/// Unmaps what [`map`] has mapped, on every CPU.
pub fn unmap(start: VirtAddr, size: usize) {
	// SAFETY: The caller owns the area, and uses the pages no more.
	let unmapped = machine::call(|_| unsafe {
		space().raw().unmap_pages(start.as_usize(), size as u64 / PAGE)
	});
	unmapped.expect("mapped pages");
}

/// Forgets what other CPUs have asked this one to forget.
pub fn acknowledge() {
	if let Some(space) = SPACE.get() {
		space.platform().acknowledge();
	}
}

/// Gives back what was put off.
pub fn settle() {
	machine::call(|_| space().purge()).expect("every CPU answers");
}

/// Begins to take part, on a CPU that counts as online.
pub fn join() {
	space().platform().join();
}

pub fn print_information() {
	let free = START.load(Ordering::Relaxed);
	info!("Virtual memory: {:#x}..{:#x} is free", free, kernel_heap_end().as_u64() + 1);
}
