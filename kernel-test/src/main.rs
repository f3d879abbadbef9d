//! A small kernel: it starts all CPUs, makes spaces of `vmalloc` and tests or measures them, and ends the machine with a status.
//!
//! ```text
//!   boot.s ─► start ─► memory, traps, clock, CPUs ─► checks, cases      ─► exit
//!                                                 └► counts (measure)
//! ```
//! Its command line is made of words: `loops=N` (turns of a case), `count` (measure instead of testing), `crash=WHAT` (end badly).
#![no_std]
#![no_main]

extern crate alloc;

mod access;
mod acpi;
mod apic;
mod boot;
mod bytes;
mod clock;
mod cpu;
mod crew;
mod exit;
mod machine;
mod memory;
mod serial;
mod traps;

use alloc::boxed::Box;
use alloc::vec;
use boot::StartInfo;
use core::sync::atomic::{AtomicPtr, Ordering};
use exit::{Status, exit};
use machine::Kernel;
use serial::say;
use vmalloc_x86_64::{Interrupts, Machine};

const STACK_BYTES: usize = 128 << 10;

/// For CPUs that come up.
static KERNEL: AtomicPtr<Kernel> = AtomicPtr::new(core::ptr::null_mut());

/// Where the first CPU comes from the loader.
#[unsafe(no_mangle)]
extern "C" fn start(info: usize) -> ! {
    // SAFETY: the first of all, with interrupts off, called once; the loader's information is there.
    let (info, supply) = unsafe {
        cpu::enter(0);
        let info = StartInfo::at(info);
        (info, memory::enter(info.memory()))
    };
    traps::enter();
    apic::mask_old_ones();
    apic::enter();
    clock::calibrate();
    let kernel = Box::leak(Box::new(Kernel::new(supply, cpus(info))));
    let kernel: &'static Kernel = kernel;
    KERNEL.store(core::ptr::from_ref(kernel).cast_mut(), Ordering::Release);
    cpu::Here::on();
    start_others(kernel);
    say!("{} CPUs, {} frames free", kernel.apics.len(), kernel.supply.free());
    exit(Status::Passed)
}

/// Controllers of all CPUs, this one's first.
fn cpus(info: &StartInfo) -> alloc::vec::Vec<u8> {
    let mut apics = acpi::cpus(info).unwrap_or_else(|| vec![apic::id()]);
    apics.truncate(cpu::MAX);
    apics.sort_by_key(|&id| id != apic::id());
    apics
}

fn start_others(kernel: &'static Kernel) {
    for number in 1..kernel.apics.len() {
        let stack = Box::leak(vec![0u128; STACK_BYTES / 16].into_boxed_slice());
        // SAFETY: the one before is up.
        unsafe { boot::prepare(number, stack.as_ptr_range().end.addr() as u64) };
        let is_up = || kernel.is_online(number);
        assert!(apic::start(kernel.apics[number], is_up), "CPU {number} does not come up");
    }
}

/// Where every other CPU comes from the trampoline.
#[unsafe(no_mangle)]
extern "C" fn start_other(number: usize) -> ! {
    // SAFETY: the first it does, with interrupts off; numbers are given once. The kernel is there for ever.
    let kernel: &'static Kernel = unsafe {
        cpu::enter(number);
        &*KERNEL.load(Ordering::Acquire)
    };
    traps::enter();
    apic::enter();
    kernel.join();
    cpu::Here::on();
    crew::serve(kernel)
}
