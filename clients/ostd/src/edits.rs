//! What is changed in the published ostd.

use published::{Manifest, Source};
use std::path::Path;

/// Lets the probe in: it looks at kernel addresses that may fault, and counts calls of other CPUs.
pub(super) fn probe(ostd: &Path) {
    Source::edit(&ostd.join("src/mm/fault/mod.rs"), |source| {
        source.before_statement("handle_user_page_fault", "panic!(\n", RECOVER)
    });
    Source::edit(&ostd.join("src/mm/kspace/mod.rs"), |source| {
        source.append("#[cfg(ktest)]\nmod probe;\n#[cfg(ktest)]\nmod way;\n")
    });
    Source::edit(&ostd.join("src/smp.rs"), |source| {
        let count = "#[cfg(ktest)]\nREMOTE_CALLS.fetch_add(1, Ordering::Relaxed);";
        let source = source.before_statement("IpiSender::inter_processor_call", "pending_ipis.add", count);
        source.append(REMOTE_CALLS)
    });
}

/// Has `KVirtArea` get its addresses from `vmalloc`, whose core is in a folder.
pub(super) fn vmalloc(ostd: &Path, core: &Path) {
    let dependencies = format!(
        "[dependencies.lock_api]\nversion = \"0.4\"\ndefault-features = false\n\n[dependencies.vmalloc]\npath = {core:?}\n"
    );
    Manifest::read(ostd).with(&dependencies).write();
    Source::edit(&ostd.join("src/mm/kspace/mod.rs"), |source| source.append("mod space;\n"));
    Source::edit(&ostd.join("src/mm/kspace/kvirt_area.rs"), areas);
    // A flush after each new area was to make CPUs see it.
    Source::edit(&ostd.join("src/io/io_mem/mod.rs"), |source| without_flush(source, "IoMem::new"));
    Source::edit(&ostd.join("src/mm/dma/util.rs"), |source| without_flush(source, "alloc_kva"));
    Source::edit(&ostd.join("src/task/kernel_stack.rs"), |source| {
        let return_early =
            "// As in `KVirtArea::make_coherent`.\nif cfg!(target_arch = \"x86_64\") { return; }";
        source.before_statement("KernelStack::flush_tlb", "let cur_cpu", return_early)
    });
    Source::edit(&ostd.join("src/task/atomic_mode.rs"), |source| source.append(IS_ATOMIC));
}

fn areas(source: Source) -> Source {
    let source = source
        .unimport(&["kvirt_area_allocator"])
        .replace("allocator", "use super::space;\nuse alloc::sync::Arc;")
        .replace("KVirtArea", AREA)
        .body("impl Split for KVirtArea::split", SPLIT)
        .body("impl Drop for KVirtArea::drop", DROP)
        .append(MAKE_COHERENT);
    ["KVirtArea::map_frames", "KVirtArea::map_untracked_frames"].into_iter().fold(source, |source, maker| {
        source
            // The space takes locks of its own, so it is asked before IRQs are off.
            .statement(maker, "let irq_guard", "let start = space::alloc(area_size);")
            .statement(
                maker,
                "let range",
                "let range = start..start + area_size;\nlet irq_guard = irq::disable_local();",
            )
            .words(maker, "Self { range }", "Self { range, whole: None }", 1)
    })
}

fn without_flush(source: Source, maker: &str) -> Source {
    source
        .unimport(&["AtomicCpuSet", "CpuSet", "TlbFlushOp", "TlbFlusher", "disable_preempt"])
        .statement(maker, "let target_cpus", "kva.make_coherent();")
        .statement(maker, "let mut flusher", "")
        .statement(maker, "flusher.issue", "")
        .statement(maker, "flusher.dispatch", "")
        .statement(maker, "flusher.sync", "")
}

const RECOVER: &str = "
    // The probe looks at addresses of the kernel, with instructions that recover.
    #[cfg(ktest)]
    if let Some(behind) = ExTable::find_recovery_inst_addr(f.instruction_pointer()) {
        return f.set_instruction_pointer(behind);
    }";

const REMOTE_CALLS: &str = "
/// Calls of other CPUs, which the probe counts.
#[cfg(ktest)]
pub(crate) static REMOTE_CALLS: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
";

const IS_ATOMIC: &str = "
/// Returns whether nothing may be waited for here: in atomic mode, and while booting.
pub(crate) fn is_atomic() -> bool {
    super::preempt::cpu_local::get_guard_count() != 0
        || !crate::arch::irq::is_local_enabled()
        || crate::IN_BOOTSTRAP_CONTEXT.load(Ordering::Relaxed)
}
";

const AREA: &str = "
/// Kernel addresses, into which pages may be mapped.
///
/// No CPU has a stale translation for a new area, and the frames of a dropped one go back after
/// every CPU has forgotten them. [`space`] sees to both.
#[derive(Debug)]
pub(crate) struct KVirtArea {
    range: Range<Vaddr>,
    /// The area that this one was split from.
    whole: Option<Arc<Whole>>,
}

/// The addresses of an area that was split. They go back with its last part.
#[derive(Debug)]
struct Whole(Vaddr);

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: The last part is gone, and nothing else uses the area.
        unsafe { space::free(self.0) };
    }
}
";

const SPLIT: &str = "
    assert!(offset % PAGE_SIZE == 0 && (1..self.size()).contains(&offset));
    let mut old = core::mem::ManuallyDrop::new(self);
    let whole = old.whole.take().unwrap_or_else(|| Arc::new(Whole(old.start())));
    let (start, middle, end) = (old.start(), old.start() + offset, old.end());
    let part = |range| KVirtArea { range, whole: Some(whole.clone()) };
    (part(start..middle), part(middle..end))";

const DROP: &str = "
    match self.whole {
        // SAFETY: The owner drops the area, and nothing uses it any more.
        None => unsafe { space::free(self.start()) },
        // SAFETY: As above. The addresses go back with the last part.
        Some(_) => unsafe { space::unmap_part(self.range()) },
    }";

const MAKE_COHERENT: &str = "
impl KVirtArea {
    /// Makes every CPU see what was mapped into a new area.
    ///
    /// On x86-64 nothing has to be done: a CPU does not cache that there was no translation, and
    /// every older one was flushed before the addresses were handed out.
    pub(crate) fn make_coherent(&self) {
        #[cfg(not(target_arch = \"x86_64\"))]
        {
            use crate::mm::tlb::{TlbFlushOp, TlbFlusher};

            let everywhere = crate::cpu::AtomicCpuSet::new(crate::cpu::CpuSet::new_full());
            let mut flush = TlbFlusher::new(&everywhere, crate::task::disable_preempt());
            flush.issue_tlb_flush(TlbFlushOp::for_range(self.range()));
            flush.dispatch_tlb_flush();
            flush.sync_tlb_flush();
        }
    }
}
";
