//! Counts the instructions of tasks, buffers, mappings and addresses, on one CPU.

#![no_std]
#![no_main]

extern crate alloc;

#[macro_use]
extern crate hermit;

mod common;
mod mapping;

use alloc::vec::Vec;

use hermit::probe::{addresses, device_buffer, free_addresses, settle, ticks};
use hermit::syscalls::{sys_join, sys_spawn2};
use mapping::{Mapping, PAGE};

const HOLES: usize = 15_000;

/// Measures a pair. Work that was put off is part of the cost.
fn measure(what: &str, pairs: u64, mut pair: impl FnMut()) {
	pair();
	settle();
	let start = ticks();
	(0..pairs).for_each(|_| pair());
	settle();
	println!("BENCH {what} {}", (ticks() - start) / pairs);
}

unsafe extern "C" fn nothing(_: usize) {}

fn task(stack: usize) {
	// SAFETY: The function takes any number.
	sys_join(unsafe { sys_spawn2(nothing, 0, 2, stack, 0) });
}

fn pair_of_addresses() {
	free_addresses(addresses(2 * PAGE), 2 * PAGE);
}

fn measure_all(state: &str) {
	measure(&alloc::format!("addresses-{state}"), 2_000, pair_of_addresses);
	measure(&alloc::format!("device-page-{state}"), 2_000, || drop(device_buffer(PAGE)));
	measure(&alloc::format!("device-buffer-of-16-{state}"), 2_000, || drop(device_buffer(16 * PAGE)));
	measure(&alloc::format!("mmap-of-16-{state}"), 2_000, || drop(Mapping::new(16, 1)));
	measure(&alloc::format!("task-of-32-KiB-{state}"), 500, || task(32 << 10));
	measure(&alloc::format!("task-of-1-MiB-{state}"), 500, || task(1 << 20));
}

#[unsafe(no_mangle)]
extern "C" fn runtime_entry(_argc: i32, _argv: *const *const u8, _env: *const *const u8) -> ! {
	measure_all("plain");
	let pages: Vec<_> = (0..2 * HOLES).map(|_| addresses(PAGE)).collect();
	pages.iter().step_by(2).for_each(|page| free_addresses(*page, PAGE));
	settle();
	measure_all("holes");
	common::exit(false)
}
