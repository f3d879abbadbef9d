// SPDX-License-Identifier: MPL-2.0

// The program around the kernel: that of cargo-osdk 0.19.0, `base_crate/main.rs.template`.

extern crate osdk_test_kernel;

#[ostd::early_cmdline_parser]
const fn settings(_: &str) -> ostd::boot::EarlyCmdline {
    // Lines about each interrupt would take most of the time.
    ostd::boot::EarlyCmdline { log_level: ostd::log::LevelFilter::Error, has_early_console: true }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    unsafe extern "Rust" {
        fn __ostd_panic_handler(info: &core::panic::PanicInfo) -> !;
    }
    // SAFETY: The test kernel defines it, with this signature.
    unsafe { __ostd_panic_handler(info) }
}

mod default_frame_allocator {
    use osdk_frame_allocator::FrameAllocator;
    use ostd::mm::frame::GlobalFrameAllocator;

    static FRAME_ALLOCATOR: FrameAllocator = FrameAllocator;

    // SAFETY: The name does not collide with other symbols.
    #[unsafe(no_mangle)]
    #[linkage = "weak"]
    static __GLOBAL_FRAME_ALLOCATOR_REF: &'static dyn GlobalFrameAllocator = &FRAME_ALLOCATOR;
}

mod default_heap_allocator {
    use osdk_heap_allocator::{HeapAllocator, type_from_layout};
    use ostd::mm::heap::GlobalHeapAllocator;

    static HEAP_ALLOCATOR: HeapAllocator = HeapAllocator;

    // SAFETY: The name does not collide with other symbols.
    #[unsafe(no_mangle)]
    #[linkage = "weak"]
    static __GLOBAL_HEAP_ALLOCATOR_REF: &'static dyn GlobalHeapAllocator = &HEAP_ALLOCATOR;

    // SAFETY: The name does not collide with other symbols.
    #[unsafe(no_mangle)]
    #[linkage = "weak"]
    fn __global_heap_slot_info_from_layout(
        layout: core::alloc::Layout,
    ) -> Option<ostd::mm::heap::SlotInfo> {
        type_from_layout(layout)
    }
}

// SAFETY: The name does not collide with other symbols.
#[unsafe(no_mangle)]
pub static KTEST_CRATE_WHITELIST: Option<&[&str]> = Some(&["ostd"]);
