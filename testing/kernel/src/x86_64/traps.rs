//! Interrupts and faults: those that are expected, and a dump of all registers for the others.
//!
//! Every entry runs on a stack of its own, for below the stack pointer the precompiled `core` keeps
//! a red zone, and a kernel stack that has run over must not take the report with it.

use super::apic::{self, Vector};
use super::cpu::{self, DEPTH};
use crate::access::{EXECUTE, WRITE};
use crate::exit::{Status, exit};
use crate::machine;
use crate::serial::print_in_need;
use alloc::boxed::Box;
use core::fmt;
use vmalloc_tables::Protection;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::{lidt, load_tss, sidt};
use x86_64::registers::control::{Cr2, Cr3};
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;

core::arch::global_asm!(include_str!("traps.s"), DEPTH = const DEPTH, trap = sym trap);

unsafe extern "C" {
    static trap_entries: [[u8; 16]; 256];
}

/// Exceptions that have names here.
const DOUBLE_FAULT: u64 = 8;
const PAGE_FAULT: u64 = 14;
/// Vectors below are the processor's own.
const FIRST_INTERRUPT: usize = 32;

/// Stacks of a CPU: for interrupts; for faults, also in a handler of an interrupt; and for faults
/// of those.
const STACKS: usize = 3;
const STACK_BYTES: usize = 16 << 10;

/// The state that the entry and the processor saved.
#[repr(C)]
pub(crate) struct Frame {
    /// r15 to rax, in the order in which they were pushed, from the last on.
    registers: [u64; 15],
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

const NAMES: [&str; 15] =
    ["r15", "r14", "r13", "r12", "r11", "r10", "r9 ", "r8 ", "rbp", "rdi", "rsi", "rdx", "rcx", "rbx", "rax"];

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vector, error, rip, cs, rflags, rsp, ss, .. } = self;
        let what = match *vector {
            DOUBLE_FAULT => "double fault",
            PAGE_FAULT => "page fault",
            0..32 => "exception",
            _ => "unexpected interrupt",
        };
        writeln!(f, "{what} (vector {vector}, error {error:#x}) on CPU {}", cpu::number())?;
        writeln!(f, "rip {rip:016x} cs {cs:x} rflags {rflags:x} rsp {rsp:016x} ss {ss:x}")?;
        let (fault, root) = (Cr2::read_raw(), Cr3::read_raw().0.start_address());
        writeln!(f, "cr2 {fault:016x} cr3 {root:x}")?;
        for row in [0, 5, 10] {
            for at in (row..row + 5).rev() {
                write!(f, "{} {:016x} ", NAMES[at], self.registers[at])?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

extern "C" fn trap(frame: &mut Frame) {
    match Vector::from_number(frame.vector) {
        Some(Vector::Shootdown) => {
            machine::acknowledge();
            apic::end_of_interrupt();
        }
        Some(Vector::Wake) => apic::end_of_interrupt(),
        Some(Vector::Spurious) => {}
        None if frame.vector == PAGE_FAULT && (is_back(frame.error) || resume(frame)) => {}
        None => {
            print_in_need(format_args!("\n{frame}"));
            exit(Status::Died)
        }
    }
}

/// Returns true if the access that faulted is to be tried again.
fn is_back(error: u64) -> bool {
    let access = match error & (WRITE | EXECUTE) {
        WRITE => Protection::ReadWrite,
        EXECUTE => Protection::ReadExecute,
        _ => Protection::Read,
    };
    machine::is_back(Cr2::read_raw() as usize, access)
}

/// Goes on behind the access that faulted, if that was expected.
fn resume(frame: &mut Frame) -> bool {
    // SAFETY: the access that set it is under way on this CPU, and nothing else uses the words
    // meanwhile.
    let local = unsafe { cpu::local() };
    if local.resume == 0 {
        return false;
    }
    local.fault_addr = Cr2::read_raw();
    local.fault_error = frame.error;
    frame.rip = core::mem::take(&mut local.resume);
    frame.rsp = local.resume_stack;
    true
}

/// Gates of all vectors, the same for all CPUs.
type Gates = [[u64; 2]; 256];

/// An interrupt gate: interrupts are off in the handler.
fn gate(vector: usize, selector: u16) -> [u64; 2] {
    const PRESENT_INTERRUPT_GATE: u64 = 0x8e;
    // SAFETY: only its address is taken.
    let entry = unsafe { (&raw const trap_entries[vector]).addr() } as u64;
    let stack = match vector as u64 {
        DOUBLE_FAULT | 2 | 18 => 3,
        _ if vector < FIRST_INTERRUPT => 2,
        _ => 1,
    };
    let low = entry & 0xffff | u64::from(selector) << 16;
    [low | stack << 32 | PRESENT_INTERRUPT_GATE << 40 | (entry >> 16 & 0xffff) << 48, entry >> 32]
}

/// Makes this CPU take interrupts and faults. For good.
pub(crate) fn enter() {
    enter_gates();
    apic::mask_old_ones();
    apic::enter();
}

/// Segments, stacks, gates.
fn enter_gates() {
    let tss = Box::leak(Box::new(TaskStateSegment::new()));
    // Whole, for the structure is packed.
    let mut stacks = tss.interrupt_stack_table;
    stacks[..STACKS].fill_with(|| {
        let memory = Box::leak(alloc::vec![0u128; STACK_BYTES / 16].into_boxed_slice());
        VirtAddr::from_ptr(memory.as_ptr_range().end)
    });
    tss.interrupt_stack_table = stacks;
    let gdt = Box::leak(Box::new(GlobalDescriptorTable::new()));
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    let task = gdt.append(Descriptor::tss_segment(tss));
    gdt.load();
    let gates: &'static Gates = Box::leak(Box::new(core::array::from_fn(|vector| gate(vector, code.0))));
    let pointer =
        DescriptorTablePointer { limit: (size_of::<Gates>() - 1) as u16, base: VirtAddr::from_ptr(gates) };
    // SAFETY: the tables live for ever, and say what is there; GS, whose base leads to this CPU's
    // words, is left alone.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        DS::set_reg(SegmentSelector::NULL);
        ES::set_reg(SegmentSelector::NULL);
        load_tss(task);
        lidt(&pointer);
    }
}

/// Makes the next fault a double fault: there are no gates left behind that one's.
pub(crate) fn lose_gates() {
    let mut pointer = sidt();
    pointer.limit = (DOUBLE_FAULT as u16 + 1) * size_of::<[u64; 2]>() as u16 - 1;
    // SAFETY: the gates that are left stay as they are.
    unsafe { lidt(&pointer) };
}
