//! From QEMU to [`_start`], in place of Hermit's loader, which the registry does not have.
//!
//! The kernel is linked to a fixed address and started as a PVH kernel. What a loader would tell it comes from the
//! information of PVH, from symbols of the linker script, and as a device tree that is made here.

use core::ffi::CStr;
use core::num::{NonZeroU16, NonZeroU64};

use hermit_entry::boot_info::{BootInfo, HardwareInfo, LoadInfo, PlatformInfo, RawBootInfo, TlsInfo};

mod tree;

core::arch::global_asm!(include_str!("boot.s"), options(att_syntax));

/// The information of PVH, as its protocol lays it out.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    modules_at: u64,
    command_line_at: u64,
    rsdp_at: u64,
    memory_at: u64,
    memory_entries: u32,
    reserved: u32,
}

const MAGIC: u32 = 0x336e_c578;

/// A piece of physical memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    start: u64,
    bytes: u64,
    kind: u32,
    reserved: u32,
}

/// Ordinary memory.
const RAM: u32 = 1;

unsafe extern "C" {
    static image_start: [u8; 0];
    static image_end: [u8; 0];
    /// Start, bytes in the file, bytes, and alignment.
    static boot_tls: [u64; 4];
    static mut second_level: [u64; 512];
    static mut boot_stack: [u8; 0];
    /// The entry of the kernel. It adds the size of the stack to the stack pointer itself.
    fn _start(info: &'static RawBootInfo, cpu: u32) -> !;
}

/// Returns the value of a symbol of the linker script.
fn value(symbol: *const [u8; 0]) -> u64 {
    symbol.addr() as u64
}

#[unsafe(no_mangle)]
unsafe extern "C" fn boot_start(info: &StartInfo) -> ! {
    assert_eq!(info.magic, MAGIC);
    // SAFETY: The protocol says that so many are there.
    let memory = unsafe {
        core::slice::from_raw_parts(
            core::ptr::with_exposed_provenance::<Piece>(info.memory_at as usize),
            info.memory_entries as usize,
        )
    };
    let command_line: &CStr = match info.command_line_at {
        0 => c"",
        // SAFETY: A string that ends with zero, by the protocol.
        at => unsafe { CStr::from_ptr(core::ptr::with_exposed_provenance(at as usize)) },
    };
    let ram = || memory.iter().filter(|piece| piece.kind == RAM);
    let end = ram().map(|piece| piece.start + piece.bytes).max().unwrap_or(0);
    let pieces = ram().map(|piece| (piece.start, piece.bytes));
    // SAFETY: Nothing writes it.
    let [start, filesz, memsz, align] = unsafe { boot_tls };
    let tree = tree::make(command_line, pieces);
    let boot_info = BootInfo {
        hardware_info: HardwareInfo {
            phys_addr_range: 0..end,
            serial_port_base: NonZeroU16::new(0x3f8),
            device_tree: NonZeroU64::new(tree as u64),
        },
        load_info: LoadInfo {
            kernel_image_addr_range: value(&raw const image_start)..value(&raw const image_end),
            tls_info: (memsz != 0).then_some(TlsInfo { start, filesz, memsz, align }),
        },
        platform_info: PlatformInfo::Fdt,
    };
    static mut INFO: Option<RawBootInfo> = None;
    // SAFETY: This runs once, on the only CPU. What follows reads nothing of the first 2 MiB.
    unsafe {
        let place = &mut *&raw mut INFO;
        let info = place.insert(RawBootInfo::from(boot_info));
        (&raw mut second_level).cast::<u64>().write_volatile(0);
        core::arch::asm!(
            "mov rax, cr3",
            "mov cr3, rax",
            "mov rsp, rcx",
            "xor esi, esi",
            "jmp {entry}",
            in("rcx") &raw mut boot_stack,
            in("rdi") info,
            entry = sym _start,
            options(noreturn),
        )
    }
}
