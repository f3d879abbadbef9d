//! What is changed in the published kernel.

use published::{Manifest, Source};
use std::path::Path;

/// Our tests, beside the published ones.
pub(super) const TESTS: [&str; 3] = ["stale", "stacks", "measure"];

/// Lets the kernel be built by a compiler of today, booted without its loader, and looked at.
pub(super) fn boot(kernel: &Path) {
    let tests = TESTS
        .map(|test| format!("[[test]]\nname = \"{test}\"\npath = \"tests/{test}.rs\"\nharness = false\n\n"));
    Manifest::read(kernel)
        .set("[dependencies.hermit-entry]", "features", "[\"kernel\", \"loader\"]")
        .with(&tests.concat())
        .with("[workspace]\n")
        .write();
    Source::edit(&kernel.join("build.rs"), |source| {
        source
            .unimport(&["File", "Write", "Path", "Context", "anyhow", "LlvmTools"])
            .remove(&["binutil"])
            .body("assemble_x86_64_smp_boot", ASSEMBLE)
    });
    Source::edit(&kernel.join("src/lib.rs"), |source| source.append(MODULES));
    let x86 = kernel.join("src/arch/x86_64");
    for (file, count) in [("scheduler", 1), ("start", 1), ("switch", 2)] {
        Source::edit(&x86.join("kernel").join(file).with_extension("rs"), |source| {
            source.words_anywhere("#[naked]", "#[unsafe(naked)]", count)
        });
    }
    Source::edit(&x86.join("mm/paging.rs"), |source| {
        // Of the two handlers, that without user spaces.
        source
            .words_anywhere(
                "\n\tstack_frame: ExceptionStackFrame,",
                "\n\tmut stack_frame: ExceptionStackFrame,",
                1,
            )
            .words_anywhere(") {\n\terror!(\"Page fault (#PF)!\");", RECOVER, 1)
    });
}

/// Adds what the probe calls in the kernel as published.
pub(super) fn published(kernel: &Path) {
    Source::edit(&kernel.join("src/arch/x86_64/mm/virtualmem.rs"), |source| {
        source.append("/// There is nothing that was put off.\npub fn settle() {}\n")
    });
}

/// Has the kernel get its virtual addresses from a space, and its frames from an area map. `repository` has both.
pub(super) fn vmalloc(kernel: &Path, repository: &Path) {
    let tables = repository.join("crates/vmalloc-tables");
    let frames = repository.join("clients/range-allocators/free-list");
    Manifest::read(kernel)
        .with(&format!("[dependencies.vmalloc-tables]\npath = {tables:?}\n"))
        .with(&format!("[patch.crates-io]\nfree-list.path = {frames:?}\n"))
        .write();
    Source::edit(&kernel.join("src/lib.rs"), |source| {
        source.before_statement(
            "application_processor_main",
            "synch_all_cores",
            "arch::mm::virtualmem::join();",
        )
    });
    Source::edit(&kernel.join("src/mm/mod.rs"), |source| {
        source
            .before_statement("init", "info!(\"Heap is located", "arch::mm::virtualmem::init_space();")
            .body("allocate", "let _ = no_execution;\narch::mm::virtualmem::device_memory(size.align_up(BasePageSize::SIZE as usize)).unwrap()")
            .body("deallocate", "arch::mm::virtualmem::deallocate(virtual_address, size);")
    });
    Source::edit(&kernel.join("src/scheduler/mod.rs"), |source| {
        let start = "fn reschedule(self) {\n\t\twithout_interrupts(|| {\n\t\t\tif let";
        let put_off = "fn reschedule(self) {\n\t\tif arch::mm::machine::puts_off_reschedule() {\n\t\t\treturn;\n\t\t}\n\t\twithout_interrupts(|| {\n\t\t\tif let";
        source.words_anywhere(start, put_off, 1)
    });
    let x86 = kernel.join("src/arch/x86_64");
    Source::edit(&x86.join("mm/mod.rs"), |source| source.append("pub(crate) mod machine;\n"));
    Source::edit(&x86.join("mm/paging.rs"), |source| {
        source.before_statement("map", "let pages", MAP).before_statement("unmap", "let first_page", UNMAP)
    });
    Source::edit(&x86.join("kernel/apic.rs"), |source| {
        let acknowledge = "crate::arch::mm::virtualmem::acknowledge();";
        source.before_statement("tlb_flush_handler", "eoi", acknowledge).append(ASK_TO_FORGET)
    });
    Source::edit(&x86.join("kernel/scheduler.rs"), |source| {
        source
            .replace("CommonStack", STACKS)
            .body("TaskStacks::new", NEW_STACKS)
            .words(
                "TaskStacks::get_user_stack_size",
                "stacks.total_size - DEFAULT_STACK_SIZE - IST_SIZE",
                "stacks.user_size",
                1,
            )
            .words(
                "TaskStacks::get_user_stack",
                "stacks.virt_addr + IST_SIZE + DEFAULT_STACK_SIZE + 3 * BasePageSize::SIZE",
                "stacks.user",
                1,
            )
            .words(
                "TaskStacks::get_kernel_stack",
                "stacks.virt_addr + IST_SIZE + 2 * BasePageSize::SIZE",
                "stacks.kernel",
                1,
            )
            .words(
                "TaskStacks::get_interrupt_stack",
                "stacks.virt_addr + BasePageSize::SIZE",
                "stacks.ist1",
                1,
            )
            .body("impl Drop for TaskStacks::drop", DROP_STACKS)
    });
}

/// Of the published build script this needs `llvm-as`, which not every toolchain has.
const ASSEMBLE: &str = r##"
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let boot = fs::canonicalize("src/arch/x86_64/kernel/boot.s")?;
    println!("cargo:rerun-if-changed={}", boot.display());
    let program = format!(
        "#![no_std]\n#![no_main]\ncore::arch::global_asm!(include_str!({boot:?}), options(att_syntax, raw));\n\
         #[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {{ loop {{}} }}\n"
    );
    fs::write(out.join("boot.rs"), program)?;
    let status = Command::new(env::var_os("RUSTC").unwrap())
        .args(["--edition=2024", "--target=x86_64-unknown-none", "-Cpanic=abort", "-Crelocation-model=static"])
        .args(["-Cforce-unwind-tables=no", "-Awarnings", "-Clink-arg=--image-base=0"])
        .args(["-Clink-arg=--section-start=.text=0x8000", "-Clink-arg=--oformat=binary", "-o"])
        .args([out.join("boot.bin"), out.join("boot.rs")])
        .status()?;
    anyhow::ensure!(status.success(), "rustc can't assemble {}", boot.display());
    Ok(())"##;

const MODULES: &str = "
#[cfg(target_os = \"none\")]
mod boot;
#[cfg(target_os = \"none\")]
pub mod probe;
";

const RECOVER: &str = ") {
	if let Some(behind) = crate::probe::recover(stack_frame.instruction_pointer.as_u64()) {
		// SAFETY: The code there ends the call of the probe.
		unsafe {
			stack_frame.as_mut().update(|frame| frame.instruction_pointer = x86_64::VirtAddr::new(behind));
		}
		return;
	}
	error!(\"Page fault (#PF)!\");";

const MAP: &str = "
	if super::virtualmem::holds(virtual_address) {
		return super::virtualmem::map(virtual_address, physical_address, count * S::SIZE as usize, flags);
	}";

const UNMAP: &str = "
	if super::virtualmem::holds(virtual_address) {
		return super::virtualmem::unmap(virtual_address, count * S::SIZE as usize);
	}";

const ASK_TO_FORGET: &str = "
/// Interrupts a CPU, so that it forgets translations.
pub fn ask_to_forget(core_id: usize) {
	without_interrupts(|| {
		let destination = u64::from(CPU_LOCAL_APIC_IDS.lock()[core_id]) << 32;
		let kind = APIC_ICR_LEVEL_ASSERT | APIC_ICR_DELIVERY_MODE_FIXED;
		local_apic_write(IA32_X2APIC_ICR, destination | kind | u64::from(TLB_FLUSH_INTERRUPT_NUMBER));
	});
}
";

const STACKS: &str = "
/// Three areas, each with a guard page on both sides.
pub struct CommonStack {
	ist1: VirtAddr,
	kernel: VirtAddr,
	user: VirtAddr,
	user_size: usize,
}";

const NEW_STACKS: &str = "
	use crate::arch::mm::virtualmem::memory;

	let user_size = size.align_up(BasePageSize::SIZE as usize).max(KERNEL_STACK_SIZE);
	let memory = |size| memory(size).expect(\"memory for the stacks of a task\");
	let stacks = CommonStack {
		ist1: memory(IST_SIZE),
		kernel: memory(DEFAULT_STACK_SIZE),
		user: memory(user_size),
		user_size,
	};
	// It may hold what an earlier task left.
	// SAFETY: The area was just allocated.
	unsafe { ptr::write_bytes(stacks.user.as_mut_ptr::<u8>(), 0, user_size) };
	TaskStacks::Common(stacks)";

const DROP_STACKS: &str = "
	use crate::arch::mm::virtualmem::deallocate;

	if let TaskStacks::Common(stacks) = self {
		deallocate(stacks.ist1, IST_SIZE);
		deallocate(stacks.kernel, DEFAULT_STACK_SIZE);
		deallocate(stacks.user, stacks.user_size);
	}";
