//! Mappings as applications make them, by the system calls.

use core::ptr::null_mut;

use hermit::probe::physical;

pub const PAGE: usize = 4096;
const READ_WRITE: u32 = 3;

unsafe extern "C" {
	fn sys_mmap(size: usize, protection: u32, addr: &mut *mut u8) -> i32;
	fn sys_munmap(addr: *mut u8, size: usize) -> i32;
}

/// A mapping of pages, whose first word is its owner's.
pub struct Mapping {
	start: *mut u8,
	pages: usize,
}

impl Mapping {
	pub fn new(pages: usize, word: u64) -> Self {
		let mut start = null_mut();
		// SAFETY: By the interface of the system calls.
		assert_eq!(unsafe { sys_mmap(pages * PAGE, READ_WRITE, &mut start) }, 0);
		// SAFETY: The page was just mapped.
		unsafe { start.cast::<u64>().write_volatile(word) };
		Self { start, pages }
	}

	pub fn addr(&self) -> usize {
		self.start as usize
	}

	#[allow(dead_code)]
	pub fn frame(&self) -> Option<u64> {
		physical(self.addr())
	}
}

impl Drop for Mapping {
	fn drop(&mut self) {
		// SAFETY: It was mapped, and nothing uses it any more.
		assert_eq!(unsafe { sys_munmap(self.start, self.pages * PAGE) }, 0);
	}
}
