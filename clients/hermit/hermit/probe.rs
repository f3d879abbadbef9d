//! Looks at addresses that may fault, counts instructions, and lends memory for devices: for tests.

use alloc::boxed::Box;

use crate::mm::device_alloc::DeviceAlloc;

core::arch::global_asm!(
	".global probe_load, probe_fault",
	"probe_load: mov rax, [rdi]",
	"mov edx, 1",
	"ret",
	"probe_fault: xor edx, edx",
	"ret",
);

/// The two words in which a function of the C ABI returns a structure.
#[repr(C)]
struct Answer {
	word: u64,
	is_there: u64,
}

unsafe extern "C" {
	fn probe_load(addr: usize) -> Answer;
	fn probe_fault();
}

/// Returns the word at an address, or none where this CPU faults.
pub fn peek(addr: usize) -> Option<u64> {
	// SAFETY: The handler of page faults knows the load, and goes on behind it.
	let answer = unsafe { probe_load(addr) };
	(answer.is_there == 1).then_some(answer.word)
}

/// Returns where to go on after a fault of the load in [`peek`].
pub(crate) fn recover(instruction: u64) -> Option<u64> {
	(instruction == probe_load as *const () as u64).then_some(probe_fault as *const () as u64)
}

/// Returns the counter of the CPU. QEMU can count instructions by it.
pub fn ticks() -> u64 {
	// SAFETY: Every CPU of this kind has the instruction.
	unsafe { core::arch::x86_64::_rdtsc() }
}

/// Memory that a device may read, as drivers allocate it.
pub fn device_buffer(bytes: usize) -> Box<[u8], impl core::alloc::Allocator> {
	// SAFETY: Any bytes are valid.
	unsafe { Box::new_uninit_slice_in(bytes, DeviceAlloc).assume_init() }
}

/// Allocates and frees addresses alone.
pub fn addresses(bytes: usize) -> usize {
	crate::arch::mm::virtualmem::allocate(bytes).unwrap().as_usize()
}

/// Frees what [`addresses`] returned.
pub fn free_addresses(start: usize, bytes: usize) {
	crate::arch::mm::virtualmem::deallocate(memory_addresses::VirtAddr::new(start as u64), bytes);
}

/// Gives back what was put off.
pub use crate::arch::mm::virtualmem::settle;

/// Returns the physical address behind an address, or none where nothing is mapped.
pub fn physical(addr: usize) -> Option<u64> {
	let addr = memory_addresses::VirtAddr::new(addr as u64);
	crate::mm::virtual_to_physical(addr).map(|physical| physical.as_u64())
}
