//! A small kernel: it starts all CPUs, makes spaces of `vmalloc` and tests or measures them, and
//! ends the machine with a status.
//!
//! ```text
//!   boot.s ─► start ─► memory, traps, clock, CPUs ─► checks, cases      ─► exit
//!                                                 ├► counts (measure)
//!                                                 └► stack
//! ```
//! Its command line is made of words: `loops=N` (turns of a case), `count` (measure instead of
//! testing), `stack` (measure the stack of each call), `only=NAME` (rows that begin so), `turns=N`
//! (of those), `crash=WHAT` (end badly).
#![no_std]
#![no_main]

extern crate alloc;

mod access;
mod apic;
mod boot;
mod bytes;
mod cases;
mod checks;
mod clock;
mod count;
mod cpu;
mod exit;
mod machine;
mod madt;
mod memory;
mod serial;
#[cfg(feature = "stack")]
mod stack;
mod traps;
mod vmap;
mod walk;
mod workers;
mod world;

use alloc::boxed::Box;
use alloc::vec;
use boot::StartInfo;
use core::sync::atomic::{AtomicPtr, Ordering};
use count::Rows;
use exit::{Status, exit};
use machine::Kernel;
use serial::say;
use vmalloc_tables::{Interrupts, Machine};
use world::{Failure, Outcome, World};

const STACK_BYTES: usize = 128 << 10;

/// For CPUs that come up.
static KERNEL: AtomicPtr<Kernel> = AtomicPtr::new(core::ptr::null_mut());

/// Where the first CPU comes from the loader.
#[unsafe(no_mangle)]
extern "C" fn start(info: usize) -> ! {
    // SAFETY: the first of all, with interrupts off, called once; the loader's information is
    // there.
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
    let options = Options::new(info.command_line());
    if !options.stack {
        start_others(kernel);
    }
    let world = World::new(kernel);
    say!("{} CPUs, {} frames free", world.cpus(), kernel.supply.free());
    if let Some(how) = options.crash {
        crash(how);
    }
    exit(match options {
        #[cfg(feature = "stack")]
        Options { stack: true, .. } => ended(stack::run(&world)),
        Options { counts: true, loops, turns, only, .. } => {
            ended(count::run(&world, &Rows { loops, turns, only }))
        }
        _ => test(&world, options.loops),
    })
}

/// The options of the command line.
struct Options<'a> {
    loops: u64,
    turns: u64,
    counts: bool,
    stack: bool,
    only: &'a str,
    crash: Option<&'a str>,
}

impl<'a> Options<'a> {
    fn new(line: &'a str) -> Self {
        let value =
            |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let has = |name| line.split_whitespace().any(|word| word == name);
        let number =
            |name, otherwise| value(name).and_then(|number| number.parse().ok()).unwrap_or(otherwise);
        Self {
            loops: number("loops", 1000),
            turns: number("turns", count::TURNS),
            counts: has("count"),
            stack: has("stack"),
            only: value("only").unwrap_or(""),
            crash: value("crash"),
        }
    }
}

fn test(world: &World, loops: u64) -> Status {
    let failed = checks::run(world) + cases::run(world, loops);
    if let Err(Failure(why)) = world.check_whole() {
        say!("FAILED everything is back: {why}");
        return Status::Failed;
    }
    say!("ok everything is back: all addresses, and all frames but for {} page tables", walk::tables());
    if failed == 0 { Status::Passed } else { Status::Failed }
}

fn ended(outcome: Outcome) -> Status {
    match outcome {
        Ok(()) => Status::Passed,
        Err(Failure(why)) => {
            say!("FAILED {why}");
            Status::Failed
        }
    }
}

/// Ends badly, to see that it is seen.
fn crash(how: &str) {
    match how {
        // SAFETY: its handler ends the machine.
        "interrupt" => unsafe { core::arch::asm!("int 0x42") },
        "double-fault" => {
            traps::lose_gates();
            fault();
        }
        "page-fault" => fault(),
        _ => panic!("asked to"),
    }
}

/// Reads where nothing is: behind all spaces.
fn fault() {
    // SAFETY: none: the handler ends the machine.
    let _ = unsafe { core::ptr::with_exposed_provenance::<u8>(0xffff_fe00_0000_0000).read_volatile() };
}

/// Controllers of all CPUs, this one's first.
fn cpus(info: &StartInfo) -> alloc::vec::Vec<u8> {
    let mut apics = madt::cpus(info).unwrap_or_else(|| vec![apic::id()]);
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
    // SAFETY: the first it does, with interrupts off; numbers are given once. The kernel is there
    // for ever.
    let kernel: &'static Kernel = unsafe {
        cpu::enter(number);
        &*KERNEL.load(Ordering::Acquire)
    };
    traps::enter();
    apic::enter();
    kernel.join();
    cpu::Here::on();
    workers::serve(kernel)
}
