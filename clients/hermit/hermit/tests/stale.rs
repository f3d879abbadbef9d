//! Looks for stale translations on another CPU: at addresses that were freed, and at new ones.

#![no_std]
#![no_main]

extern crate alloc;

#[macro_use]
extern crate hermit;

mod common;
mod mapping;

use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use hermit::probe::{addresses, device_buffer, free_addresses, peek, physical, settle};
use hermit::syscalls::{sys_join, sys_spawn2};
use mapping::{Mapping, PAGE};

const OURS: u64 = 0x1111_1111_1111_1111;
const THEIRS: u64 = 0x2222_2222_2222_2222;
/// An emulated CPU may lose a translation of its own accord, so each look is taken often.
const ROUNDS: u64 = 50;
/// Pages of a mapping whose addresses come again: few such mappings lie before them.
const MANY: usize = 64;

static ASKED: AtomicUsize = AtomicUsize::new(0);
static ANSWER: AtomicUsize = AtomicUsize::new(0);
static HAS_FAULTED: AtomicBool = AtomicBool::new(false);
const END: usize = 1;

/// Answers what this CPU sees.
unsafe extern "C" fn answer(_: usize) {
	loop {
		match ASKED.load(SeqCst) {
			0 => core::hint::spin_loop(),
			END => return,
			addr => {
				let word = peek(addr);
				ANSWER.store(word.unwrap_or(0) as usize, SeqCst);
				HAS_FAULTED.store(word.is_none(), SeqCst);
				ASKED.store(0, SeqCst);
			}
		}
	}
}

/// Returns the word at an address as CPU 1 sees it, or none where that CPU faults.
fn peek_elsewhere(addr: usize) -> Option<u64> {
	ASKED.store(addr, SeqCst);
	while ASKED.load(SeqCst) != 0 {
		core::hint::spin_loop();
	}
	(!HAS_FAULTED.load(SeqCst)).then(|| ANSWER.load(SeqCst) as u64)
}

/// Gives the frame of a page that was freed to a next owner at another address, and returns what
/// CPU 1 sees at the old one.
fn seen_after_free(addr: usize, frame: Option<u64>) -> Option<u64> {
	settle();
	let held = addresses(PAGE);
	let mut owners = Vec::new();
	while owners.last().map(Mapping::frame) != Some(frame) {
		owners.push(Mapping::new(1, THEIRS));
		assert!(owners.len() < 10_000, "the frame is lost");
	}
	let seen = peek_elsewhere(addr);
	free_addresses(held, PAGE);
	seen
}

fn after_munmap(_: u64) -> Option<u64> {
	let mapping = Mapping::new(1, OURS);
	let (addr, frame) = (mapping.addr(), mapping.frame());
	assert_eq!(peek_elsewhere(addr), Some(OURS));
	drop(mapping);
	seen_after_free(addr, frame)
}

fn after_device_buffer(_: u64) -> Option<u64> {
	let mut buffer = device_buffer(2 * PAGE);
	let addr = buffer.as_mut_ptr() as usize;
	buffer[..8].copy_from_slice(&OURS.to_ne_bytes());
	assert_eq!(peek_elsewhere(addr), Some(OURS));
	let frame = physical(addr);
	drop(buffer);
	seen_after_free(addr, frame)
}

/// Makes a mapping where another one was, of another frame, and returns what CPU 1 sees there but
/// the new owner's word.
fn at_a_new_mapping(round: u64) -> Option<u64> {
	let old = Mapping::new(MANY, OURS);
	let (addr, frame) = (old.addr(), old.frame());
	assert_eq!(peek_elsewhere(addr), Some(OURS));
	drop(old);
	settle();
	let mut held = Vec::new();
	while held.last() != Some(&addr) {
		held.push(addresses(MANY * PAGE));
		assert!(held.len() < 10_000, "the address is lost");
	}
	let mut owners = Vec::new();
	while owners.last().map(Mapping::frame) != Some(frame) {
		owners.push(Mapping::new(MANY, THEIRS));
		assert!(owners.len() < 10_000, "the frame is lost");
	}
	held.into_iter().for_each(|addr| free_addresses(addr, MANY * PAGE));
	settle();
	while owners.last().map(Mapping::addr) != Some(addr) {
		owners.push(Mapping::new(MANY, round));
		assert!(owners.len() < 10_000, "the address is not used again");
	}
	peek_elsewhere(addr).filter(|word| *word != round)
}

fn look(what: &str, look: fn(u64) -> Option<u64>) {
	let stale = (1..=ROUNDS).filter(|round| look(*round).is_some()).count();
	println!("STALE {what} {stale}");
}

#[unsafe(no_mangle)]
extern "C" fn runtime_entry(_argc: i32, _argv: *const *const u8, _env: *const *const u8) -> ! {
	// SAFETY: The function takes any number.
	let other = unsafe { sys_spawn2(answer, 0, 2, 0, 1) };
	look("munmap", after_munmap);
	look("device-buffer", after_device_buffer);
	look("new-mapping", at_a_new_mapping);
	ASKED.store(END, SeqCst);
	sys_join(other);
	common::exit(false)
}
