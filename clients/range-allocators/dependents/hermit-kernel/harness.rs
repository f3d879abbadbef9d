//! Plays random programs on the kernel's own functions for frames and for virtual addresses, and prints where everything was placed.
//!
//! Becomes a module of `src/arch/x86_64/mm`. The lines that start with `placed` are compared between two free lists.

use std::println;
use std::string::ToString;
use std::vec::Vec;

use free_list::PageRange;
use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PhysFrame, Size2MiB, Size4KiB};

use super::{PhysAddr, VirtAddr, physicalmem, virtualmem};

const PAGE: usize = 4096;
const STEPS: usize = 10_000;

/// A generator of numbers (xorshift), the same on every run.
struct Random(u64);

impl Random {
	fn below(&mut self, end: usize) -> usize {
		self.0 ^= self.0 << 13;
		self.0 ^= self.0 >> 7;
		self.0 ^= self.0 << 17;
		(self.0 % end as u64) as usize
	}
}

/// Every answer of a program, as a digest (FNV-1a) and as counts.
struct Log {
	digest: u64,
	placed: usize,
	refused: usize,
}

impl Log {
	fn new() -> Self {
		Self { digest: 0xcbf2_9ce4_8422_2325, placed: 0, refused: 0 }
	}

	fn note(&mut self, answer: Option<usize>) {
		self.placed += usize::from(answer.is_some());
		self.refused += usize::from(answer.is_none());
		self.digest = (self.digest ^ answer.unwrap_or(1) as u64).wrapping_mul(0x100_0000_01b3);
	}

	fn print(&self, what: &str, seed: u64) {
		let Self { digest, placed, refused } = self;
		println!("placed {what}, seed {seed}: {placed}, refused {refused}, digest {digest:016x}");
	}
}

/// Two ways to allocate a number of bytes, without and with an alignment, and one to free them.
struct Functions {
	allocate: fn(usize) -> Option<usize>,
	allocate_aligned: fn(usize, usize) -> Option<usize>,
	deallocate: fn(usize, usize),
}

/// Plays a program with up to `live` ranges of up to `most` pages, and frees everything.
fn play(what: &str, functions: &Functions, seed: u64, live: usize, most: usize) {
	let mut random = Random(seed + 1);
	let (mut log, mut ranges) = (Log::new(), Vec::new());
	for _ in 0..STEPS {
		if random.below(8) < 5 && ranges.len() < live {
			let pages = 1 + random.below(most);
			let (size, answer) = match random.below(3) {
				// The kernel asks for sizes that are multiples of the alignment.
				0 => {
					let align = PAGE << random.below(5);
					let size = (pages * PAGE).next_multiple_of(align);
					(size, (functions.allocate_aligned)(size, align))
				}
				_ => (pages * PAGE, (functions.allocate)(pages * PAGE)),
			};
			log.note(answer);
			ranges.extend(answer.map(|start| (start, size)));
		} else if !ranges.is_empty() {
			let (start, size) = ranges.swap_remove(random.below(ranges.len()));
			(functions.deallocate)(start, size);
		}
	}
	log.print(what, seed);
	for (start, size) in ranges {
		(functions.deallocate)(start, size);
	}
}

const VIRTUAL: Functions = Functions {
	allocate: |size| virtualmem::allocate(size).ok().map(|it| it.as_usize()),
	allocate_aligned: |size, align| virtualmem::allocate_aligned(size, align).ok().map(|it| it.as_usize()),
	deallocate: |start, size| virtualmem::deallocate(VirtAddr::new(start as u64), size),
};

const PHYSICAL: Functions = Functions {
	allocate: |size| physicalmem::allocate(size).ok().map(|it| it.as_usize()),
	allocate_aligned: |size, align| physicalmem::allocate_aligned(size, align).ok().map(|it| it.as_usize()),
	deallocate: |start, size| physicalmem::deallocate(PhysAddr::new(start as u64), size),
};

#[test]
fn virtual_addresses_are_placed() {
	virtualmem::init();
	for seed in 0..4 {
		// Few ranges stay in the list itself; more take heap memory.
		play("virtual, few", &VIRTUAL, seed, 8, 64);
		play("virtual", &VIRTUAL, seed, 1_000, 64);
	}
	let everything = virtualmem::kernel_heap_end().as_usize() + 1 - virtualmem::kernel_heap_end().as_usize().div_ceil(2);
	let start = virtualmem::allocate(everything).expect("everything is free again");
	virtualmem::deallocate(start, everything);
}

#[test]
fn frames_are_placed() {
	// Two banks of memory, as a machine has them around its devices.
	let banks = [(0x10_0000, 0xa000_0000), (0x1_0000_0000, 0x1_6000_0000)];
	for (start, end) in banks {
		let bank = PageRange::new(start, end).unwrap();
		// SAFETY: these addresses name nothing.
		unsafe { physicalmem::PHYSICAL_FREE_LIST.lock().deallocate(bank).unwrap() };
	}
	for seed in 0..4 {
		play("frames, few", &PHYSICAL, seed, 8, 64);
		play("frames", &PHYSICAL, seed, 1_000, 64);
		// Nearly all of memory, so that some requests find no room.
		play("frames, tight", &PHYSICAL, seed, 1_000, 2_500);
		tables(seed);
	}
	physicalmem::reserve(PhysAddr::new(0x20_0000), 0x10_0000);
	// A range that is reserved in part stays as it is.
	physicalmem::reserve(PhysAddr::new(0x28_0000), 0x10_0000);
	let list = physicalmem::PHYSICAL_FREE_LIST.lock();
	println!("placed {} bytes free:", list.free_space());
	list.to_string().lines().for_each(|line| println!("placed {line}"));
}

/// Plays what the kernel's mapper does: it takes frames of both sizes from the free list itself, through the `x86_64` crate's traits.
fn tables(seed: u64) {
	let (mut random, mut log) = (Random(seed + 1), Log::new());
	let (mut small, mut large) = (Vec::new(), Vec::new());
	let mut list = physicalmem::PHYSICAL_FREE_LIST.lock();
	for _ in 0..STEPS {
		match random.below(8) {
			0..4 => {
				let frame: Option<PhysFrame<Size4KiB>> = list.allocate_frame();
				log.note(frame.map(|it| it.start_address().as_u64() as usize));
				small.extend(frame);
			}
			4 if large.len() < 500 => {
				let frame: Option<PhysFrame<Size2MiB>> = list.allocate_frame();
				log.note(frame.map(|it| it.start_address().as_u64() as usize));
				large.extend(frame);
			}
			// SAFETY: the frame was allocated from this list.
			5..7 if !small.is_empty() => unsafe {
				list.deallocate_frame(small.swap_remove(random.below(small.len())));
			},
			// SAFETY: as above.
			_ if !large.is_empty() => unsafe {
				list.deallocate_frame(large.swap_remove(random.below(large.len())));
			},
			_ => {}
		}
	}
	log.print("frames of tables", seed);
	// SAFETY: every frame was allocated from this list.
	small.into_iter().for_each(|frame| unsafe { list.deallocate_frame(frame) });
	// SAFETY: as above.
	large.into_iter().for_each(|frame| unsafe { list.deallocate_frame(frame) });
}
