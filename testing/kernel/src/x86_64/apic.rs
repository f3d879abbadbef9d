//! The local interrupt controller of each CPU: interrupts to others.

use super::boot;
use crate::clock;
use crate::memory::direct;
use core::time::Duration;
use x86_64::instructions::port::Port;
use x86_64::registers::model_specific::Msr;

/// Interrupts of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Vector {
    /// Forget translations, and acknowledge.
    Shootdown = 0xf0,
    /// Look for work.
    Wake = 0xf1,
    /// The controller's own, without meaning.
    Spurious = 0xff,
}

impl Vector {
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        [Self::Shootdown, Self::Wake, Self::Spurious].into_iter().find(|&vector| vector as u64 == number)
    }
}

const ID: usize = 0x20;
const END_OF_INTERRUPT: usize = 0xb0;
const SPURIOUS: usize = 0xf0;
const COMMAND_LOW: usize = 0x300;
const COMMAND_HIGH: usize = 0x310;

const ENABLE: u32 = 1 << 8;
const PENDING: u32 = 1 << 12;
const INIT: u32 = 0x4500;
const START_UP: u32 = 0x4600;
const ASSERT: u32 = 1 << 14;

/// The register's place. All CPUs have theirs at the same address.
#[inline]
fn register(offset: usize) -> *mut u32 {
    const BASE: u64 = 0xfee0_0000;
    direct(BASE + offset as u64)
}

#[inline]
fn write(offset: usize, value: u32) {
    // SAFETY: a register of this CPU's controller, uncached.
    unsafe { register(offset).write_volatile(value) };
}

fn read(offset: usize) -> u32 {
    // SAFETY: as above.
    unsafe { register(offset).read_volatile() }
}

/// Makes this CPU's controller take interrupts.
pub(crate) fn enter() {
    const BASE: u32 = 0x1b;
    const ENABLED: u64 = 1 << 11;
    // SAFETY: its base and switch.
    unsafe {
        let mut base = Msr::new(BASE);
        base.write(base.read() | ENABLED);
    }
    write(SPURIOUS, ENABLE | Vector::Spurious as u32);
}

/// Keeps the old interrupt controllers silent.
pub(crate) fn mask_old_ones() {
    for port in [0x21, 0xa1] {
        // SAFETY: their masks.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

/// The number of this CPU's controller.
pub(crate) fn id() -> u8 {
    (read(ID) >> 24) as u8
}

/// The handler is through.
#[inline]
pub(crate) fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Makes a CPU acknowledge a shootdown.
pub(crate) fn interrupt(cpu: u8) {
    command(cpu, Vector::Shootdown as u32 | ASSERT);
}

/// Makes a CPU look for work.
pub(crate) fn wake(cpu: u8) {
    command(cpu, Vector::Wake as u32 | ASSERT);
}

fn command(to: u8, what: u32) {
    while read(COMMAND_LOW) & PENDING != 0 {
        core::hint::spin_loop();
    }
    write(COMMAND_HIGH, u32::from(to) << 24);
    write(COMMAND_LOW, what);
}

/// Starts a CPU, on a stack that ends there.
pub(crate) fn start_cpu(
    cpu: u8,
    number: usize,
    stack: u64,
    is_up: impl Fn() -> bool,
) -> Result<bool, &'static str> {
    const PAGE: u32 = (boot::TRAMPOLINE >> 12) as u32;
    // SAFETY: the one before is up.
    unsafe { boot::prepare(number, stack) };
    command(cpu, INIT);
    clock::wait(Duration::from_millis(10), || false);
    command(cpu, START_UP | PAGE);
    if !clock::wait(Duration::from_millis(200), &is_up) {
        command(cpu, START_UP | PAGE);
    }
    Ok(clock::wait(Duration::from_secs(20), is_up))
}
