//! The loader's information, and the way from the loader to Rust: `boot.s`.

use crate::memory::direct;
use core::ffi::CStr;

core::arch::global_asm!(include_str!("boot.s"), options(att_syntax));

/// The start information of a PVH loader, as its protocol lays it out.
#[repr(C)]
pub(crate) struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    modules_at: u64,
    command_line_at: u64,
    /// Where the ACPI tables begin; 0 if the loader does not know.
    pub(crate) rsdp_at: u64,
    memory_at: u64,
    memory_entries: u32,
    reserved: u32,
}

const MAGIC: u32 = 0x336e_c578;

/// A piece of physical memory, as the machine describes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    kind: u32,
    reserved: u32,
}

impl Piece {
    /// Returns true if it is ordinary memory.
    pub(crate) fn is_ram(&self) -> bool {
        self.kind == 1
    }
}

impl StartInfo {
    /// That at physical address `at`.
    ///
    /// # Safety
    /// A PVH loader said that it is there.
    pub(crate) unsafe fn at(at: usize) -> Self {
        // SAFETY: by the protocol, and nothing writes it; the direct map shows it.
        let info: Self = unsafe { direct::<Self>(at as u64).read() };
        assert_eq!(info.magic, MAGIC, "not started by a PVH loader");
        info
    }

    pub(crate) fn memory(&self) -> &'static [Piece] {
        // SAFETY: the protocol says that so many are there, and nothing writes them.
        unsafe { core::slice::from_raw_parts(direct(self.memory_at), self.memory_entries as usize) }
    }

    pub(crate) fn command_line(&self) -> &'static str {
        if self.command_line_at == 0 {
            return "";
        }
        // SAFETY: a string that ends with zero, by the protocol, and nothing writes it.
        unsafe { CStr::from_ptr(direct(self.command_line_at)) }.to_str().unwrap_or("")
    }
}

/// Where a CPU that is started begins: the start-up interrupt carries the page's number.
pub(crate) const TRAMPOLINE: u64 = 0x8000;

unsafe extern "C" {
    static trampoline_start: [u8; 0];
    static trampoline_end: [u8; 0];
    static root_table: [u8; 0];
    static image_end: [u8; 0];
    static mut next_stack: u64;
    static mut next_number: u64;
}

/// The physical address of the table of the fourth level.
pub(crate) fn root() -> u64 {
    (&raw const root_table).addr() as u64
}

/// The physical address behind the image.
pub(crate) fn image_end_addr() -> u64 {
    (&raw const image_end).addr() as u64
}

/// Makes the trampoline start CPU `number` on a stack that ends at `stack`.
///
/// # Safety
/// No other CPU is being started, and the stack is for that one alone.
pub(crate) unsafe fn prepare(number: usize, stack: u64) {
    let (start, end) = (&raw const trampoline_start, &raw const trampoline_end);
    let bytes = end.addr() - start.addr();
    // SAFETY: the page below 1 MiB is unused; the symbols are the linker's; no CPU is being
    // started that reads the two words.
    unsafe {
        core::ptr::copy_nonoverlapping(start.cast::<u8>(), direct(TRAMPOLINE), bytes);
        (&raw mut next_stack).write_volatile(stack);
        (&raw mut next_number).write_volatile(number as u64);
    }
}
