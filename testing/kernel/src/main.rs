//! A small kernel: it starts all CPUs, makes spaces of `vmalloc` and tests or measures them, and
//! ends the machine with a status.
//!
//! ```text
//!   boot.s ─► start ─► memory, traps, clock, CPUs ─► checks, cases      ─► exit
//!                                                 ├► counts (measure)
//!                                                 └► stack
//! ```
//! What a machine's architecture decides is in a folder of its own, with the same names in each.
//!
//! Its command line is made of words: `loops=N` (turns of a case), `count` (measure instead of
//! testing), `stack` (measure the stack of each call), `only=NAME` (rows that begin so), `turns=N`
//! (of those), `node1=ADDRESS` (where memory node 1 begins, in bytes; check what is about nodes, and
//! no more), `crash=WHAT` (end badly).
#![no_std]
#![no_main]

extern crate alloc;

/// The architecture. Each folder has the same items.
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64/mod.rs")]
mod arch;

mod access;
mod cases;
mod checks;
mod clock;
mod count;
#[cfg(not(target_arch = "x86_64"))]
mod devicetree;
mod exit;
mod machine;
mod memory;
mod serial;
mod vmap;
mod walk;
mod workers;
mod world;

use arch::{boot, cpu};

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
        let supply = memory::enter(info.memory(), Options::new(info.command_line()).node1);
        (info, supply)
    };
    arch::enter();
    clock::calibrate();
    let mut cpus = arch::cpus(&info);
    cpus.truncate(cpu::MAX);
    let kernel = Box::leak(Box::new(Kernel::new(supply, cpus)));
    let kernel: &'static Kernel = kernel;
    KERNEL.store(core::ptr::from_ref(kernel).cast_mut(), Ordering::Release);
    cpu::Here::on();
    let options = Options::new(info.command_line());
    if !options.stack
        && let Err(why) = start_others(kernel)
    {
        say!("FAILED other CPUs do not come up: {why}");
        exit(Status::Failed);
    }
    let world = World::new(kernel);
    say!("{} CPUs, {} frames free", world.cpus(), kernel.supply.free());
    if let Some(how) = options.crash {
        crash(how);
    }
    exit(match options {
        #[cfg(feature = "stack")]
        Options { stack: true, .. } => ended(arch::stack::run(&world)),
        Options { counts: true, loops, turns, only, .. } => {
            ended(count::run(&world, &Rows { loops, turns, only }))
        }
        Options { node1: Some(_), .. } => ended(checks::nodes(&world)),
        _ => test(&world, options.loops),
    })
}

/// The options of the command line.
struct Options<'a> {
    loops: u64,
    turns: u64,
    node1: Option<u64>,
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
            node1: value("node1").and_then(|addr| addr.parse().ok()),
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
    arch::crash(how);
    match how {
        "page-fault" | "double-fault" => fault(),
        _ => panic!("asked to"),
    }
}

/// Reads where nothing is: behind all spaces.
fn fault() {
    // SAFETY: none: the handler ends the machine.
    let _ = unsafe { core::ptr::with_exposed_provenance::<u8>(arch::NOWHERE).read_volatile() };
}

/// Starts all CPUs but this one, or says why the machine does not.
fn start_others(kernel: &'static Kernel) -> Result<(), &'static str> {
    for number in 1..kernel.cpus.len() {
        let stack = Box::leak(vec![0u128; STACK_BYTES / 16].into_boxed_slice());
        let end = stack.as_ptr_range().end.addr() as u64;
        let is_up = || kernel.is_online(number);
        if !arch::start_cpu(kernel.cpus[number], number, end, is_up)? {
            return Err("it was started, and nothing is heard of it");
        }
    }
    Ok(())
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
    arch::enter();
    kernel.join();
    cpu::Here::on();
    workers::serve(kernel)
}
