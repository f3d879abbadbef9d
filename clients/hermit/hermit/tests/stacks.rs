//! Tasks by the thousand, each of which stays below a guard page; then one overflows.

#![no_std]
#![no_main]

extern crate alloc;

#[macro_use]
extern crate hermit;

mod common;

use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use hermit::probe::physical;
use hermit::syscalls::{sys_futex_wait, sys_futex_wake, sys_join, sys_spawn2};

const PAGE: usize = 4096;
const TASKS: usize = 1_000;
/// The least that Hermit gives a task.
const STACK: usize = 32 << 10;

/// One for each task: the kernel looks for a waiter in a list.
static GATES: [AtomicU32; TASKS] = [const { AtomicU32::new(0) }; TASKS];
static LOCALS: [AtomicUsize; TASKS] = [const { AtomicUsize::new(0) }; TASKS];

/// Says where its stack is, and waits.
unsafe extern "C" fn wait(nth: usize) {
	let local = nth;
	LOCALS[nth].store(&raw const local as usize, SeqCst);
	while GATES[nth].load(SeqCst) == 0 {
		// SAFETY: The word lives for ever, and no time limit is given.
		unsafe { sys_futex_wait(GATES[nth].as_ptr(), 0, core::ptr::null(), 0) };
	}
}

/// Checks that a stack ends below a local of its task, and that the page there is not mapped.
fn check(local: usize) {
	let page = local / PAGE * PAGE;
	let depth = (0..).find(|depth| physical(page - depth * PAGE).is_none()).unwrap();
	assert!(depth * PAGE <= STACK, "{depth} pages are mapped below {local:#x}");
}

/// Spawns tasks, checks the stack of each, and ends them.
fn round() {
	GATES.iter().for_each(|gate| gate.store(0, SeqCst));
	LOCALS.iter().for_each(|local| local.store(0, SeqCst));
	// SAFETY: The function takes any number.
	let spawn = |nth| unsafe { sys_spawn2(wait, nth, 2, STACK, -1) };
	let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
	for local in &LOCALS {
		while local.load(SeqCst) == 0 {
			hermit::syscalls::sys_yield();
		}
		check(local.load(SeqCst));
	}
	for (gate, task) in GATES.iter().zip(tasks) {
		gate.store(1, SeqCst);
		// SAFETY: The word lives for ever.
		unsafe { sys_futex_wake(gate.as_ptr(), 1) };
		assert_eq!(sys_join(task), 0);
	}
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
	if black_box(depth) == u64::MAX {
		return 0;
	}
	let words = black_box([depth; 64]);
	recurse(depth + 1) + words[(depth % 64) as usize]
}

unsafe extern "C" fn overflow(_: usize) {
	let local = 0;
	println!("OVERFLOW from {:#x}", &raw const local as usize);
	println!("it did not trap: {}", recurse(0));
}

#[unsafe(no_mangle)]
extern "C" fn runtime_entry(_argc: i32, _argv: *const *const u8, _env: *const *const u8) -> ! {
	round();
	round();
	println!("STACKS {TASKS} twice");
	// SAFETY: The function takes any number.
	sys_join(unsafe { sys_spawn2(overflow, 0, 2, STACK, 0) });
	common::exit(true)
}
