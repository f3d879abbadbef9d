//! Hermit's kernel as the machine below `vmalloc-tables`.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use free_list::{PageLayout, PageRange as Frames};
use vmalloc_tables::{
	Frame, Interrupts, Machine, Origin, PageRange, PlatformFault, X86Levels4,
};
use x86_64::instructions::{interrupts, tlb};
use x86_64::registers::control::{Cr3, Cr4};

use super::physicalmem::PHYSICAL_FREE_LIST;
use crate::arch::x86_64::kernel::core_local::{core_id, core_scheduler};
use crate::arch::x86_64::kernel::{apic, get_processor_count};
use crate::arch::x86_64::mm::paging::{BasePageSize, PageSize, virtual_to_physical};
use crate::arch::x86_64::mm::{PhysAddr, VirtAddr};
use crate::env;
use crate::scheduler::PerCoreSchedulerExt;

const PAGE: usize = BasePageSize::SIZE as usize;

/// The most CPUs. How many there are is known only after areas were made.
pub(super) const CPUS: usize = 16;

pub struct Hermit;

/// A CPU's own words, which it alone uses.
struct Here {
	/// How often interrupts were turned off.
	offs: AtomicU32,
	/// Whether they were on before the first time.
	were_on: AtomicBool,
	/// Calls of the space that run.
	calls: AtomicU32,
	/// Whether another task was to run meanwhile.
	is_due: AtomicBool,
}

static HERE: [Here; CPUS] = [const {
	Here {
		offs: AtomicU32::new(0),
		were_on: AtomicBool::new(false),
		calls: AtomicU32::new(0),
		is_due: AtomicBool::new(false),
	}
}; CPUS];

/// Returns the words of the CPU that runs this. Tasks stay on their CPUs.
fn here() -> &'static Here {
	&HERE[core_id() as usize]
}

/// Makes a call of the space, and tells it whether it may wait. No other task runs on this CPU
/// meanwhile: it might wait for a lock of this one's, and this one would never run again.
pub(super) fn call<T>(body: impl FnOnce(bool) -> T) -> T {
	let here = here();
	here.calls.fetch_add(1, Ordering::Relaxed);
	let may_wait = interrupts::are_enabled();
	let result = body(may_wait);
	let is_last = here.calls.fetch_sub(1, Ordering::Relaxed) == 1;
	if is_last && may_wait && here.is_due.swap(false, Ordering::Relaxed) {
		core_scheduler().reschedule();
	}
	result
}

/// Returns whether another task has to wait for a call of the space, and remembers that one is due.
pub fn puts_off_reschedule() -> bool {
	let here = here();
	let is_busy = here.calls.load(Ordering::Relaxed) != 0;
	if is_busy {
		here.is_due.store(true, Ordering::Relaxed);
	}
	is_busy
}

// SAFETY: A task stays on its CPU, and no handler runs on it between the two.
unsafe impl Interrupts for Hermit {
	fn off() {
		let were_on = interrupts::are_enabled();
		interrupts::disable();
		let here = here();
		if here.offs.fetch_add(1, Ordering::Relaxed) == 0 {
			here.were_on.store(were_on, Ordering::Relaxed);
		}
	}

	fn on() {
		let here = here();
		let is_last = here.offs.fetch_sub(1, Ordering::Relaxed) == 1;
		if is_last && here.were_on.load(Ordering::Relaxed) {
			interrupts::enable();
		}
	}
}

/// Takes consecutive frames.
fn take(count: usize, align: usize) -> Option<Frame> {
	let layout = PageLayout::from_size_align(count * PAGE, align * PAGE).ok()?;
	let taken = PHYSICAL_FREE_LIST.lock().allocate(layout).ok()?;
	Some(Frame((taken.start() / PAGE) as u64))
}

// SAFETY: All memory is mapped at its own addresses, and all CPUs use the table of the first. The
// free list hands frames out once. No translation is global.
unsafe impl Machine for Hermit {
	type Format = X86Levels4;
	type Context = ();

	fn cpu(&self) -> usize {
		core_id() as usize
	}

	fn cpus(&self) -> usize {
		CPUS
	}

	fn is_online(&self, cpu: usize) -> bool {
		cpu < get_processor_count() as usize
	}

	fn translation(&self) -> u64 {
		Cr4::read_raw()
	}

	fn root(&self) -> Frame {
		Frame(Cr3::read().0.start_address().as_u64() / PAGE as u64)
	}

	fn direct_map(&self) -> usize {
		0
	}

	fn frames(&self) -> u64 {
		env::boot_info().hardware_info.phys_addr_range.end / PAGE as u64
	}

	fn take_frames(&self, frames: &mut [Frame], (): ()) -> Result<(), PlatformFault> {
		if let Some(first) = take(frames.len(), 1) {
			(0..).zip(frames).for_each(|(nth, frame)| *frame = first.plus(nth));
			return Ok(());
		}
		for nth in 0..frames.len() {
			let Some(frame) = take(1, 1) else {
				// SAFETY: They were just taken.
				unsafe { self.give_frames(&frames[..nth]) };
				return Err(PlatformFault::OutOfMemory);
			};
			frames[nth] = frame;
		}
		Ok(())
	}

	fn take_run(&self, count: u64, align: u64, (): ()) -> Option<Frame> {
		take(count as usize, align as usize)
	}

	unsafe fn give_frames(&self, frames: &[Frame]) {
		for run in frames.chunk_by(|frame, next| frame.plus(1) == *next) {
			let start = run[0].0 as usize * PAGE;
			let range = Frames::from_start_len(start, run.len() * PAGE).unwrap();
			// SAFETY: By the caller's promise.
			unsafe { PHYSICAL_FREE_LIST.lock().deallocate(range) }.expect("frames that were taken");
		}
	}

	/// What is mapped at its own address is memory.
	fn origin(&self, frame: Frame) -> Origin {
		let at = frame.0 * PAGE as u64;
		let shown = virtual_to_physical(VirtAddr::new(at));
		if shown == Some(PhysAddr::new(at)) { Origin::Supply } else { Origin::Device }
	}

	fn forget(&self, ranges: &[PageRange]) {
		for page in ranges.iter().flat_map(|range| range.start()..range.end()) {
			tlb::flush(x86_64::VirtAddr::new(page * PAGE as u64));
		}
	}

	fn forget_all(&self) {
		tlb::flush_all();
	}

	fn interrupt(&self, cpu: usize) {
		apic::ask_to_forget(cpu);
	}

	fn entropy(&self) -> u64 {
		// SAFETY: Every CPU of this kind has the instruction.
		unsafe { core::arch::x86_64::_rdtsc() }
	}

	fn fatal(&self, damage: &dyn fmt::Display) -> ! {
		panic!("the kernel's areas are damaged: {damage}")
	}
}
