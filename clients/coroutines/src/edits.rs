//! What is changed in the published sources, so that their stacks are ours.

use published::Source;
use std::path::Path;

/// The file that maps stacks, in both libraries.
const FILE: &str = "src/stack/unix.rs";

/// Makes `generator` take its stacks from a pool: in its functions that map, protect and unmap.
pub(crate) fn generator(folder: &Path) {
    Source::edit(&folder.join(FILE), |source| {
        source
            .before("allocate_stack", GENERATOR_POOL)
            // The flag of mmap(2) has no use any more, and the crate allows no warnings.
            .words_anywhere("const MAP_STACK", "const _MAP_STACK", 2)
            .body("allocate_stack", GENERATOR_ALLOC)
            .body("protect_stack", GENERATOR_PROTECT)
            .body(
                "deallocate_stack",
                "drop(ptr.cast::<u8>().add(size).cast::<vmalloc_stacks::Stack>().read());",
            )
    });
}

/// Makes the `DefaultStack` of `corosensei` a stack of a pool. This is for the library's tests, which use no other.
pub(crate) fn corosensei(folder: &Path) {
    Source::edit(&folder.join(FILE), |source| {
        source
            .unimport(&["ptr"])
            .remove(&["page_size"])
            .replace("DefaultStack", COROSENSEI_STACK)
            .body("DefaultStack::new", COROSENSEI_ALLOC)
            // The stack is dropped after its registration.
            .body("impl Drop for DefaultStack::drop", "unsafe { ManuallyDrop::drop(&mut self.valgrind) };")
            .body("impl Stack for DefaultStack::base", "StackPointer::new(self.stack.top()).unwrap()")
            .body(
                "impl Stack for DefaultStack::limit",
                "StackPointer::new(self.stack.guard().start).unwrap()",
            )
    });
}

/// The pool. Each stack keeps its owner in the bytes above its top.
const GENERATOR_POOL: &str = r#"
static POOL: std::sync::LazyLock<vmalloc_stacks::Stacks> = std::sync::LazyLock::new(|| {
    let bytes = crate::DEFAULT_STACK_SIZE * std::mem::size_of::<usize>();
    // A stack of generator's is touched at both ends, so it keeps all of its memory.
    let settings = vmalloc_stacks::StacksOptions::new().stack_bytes(bytes).keep_bytes(bytes);
    vmalloc_stacks::Stacks::open(&settings.name("generators")).expect("no addresses for stacks")
});

const OWNER_BYTES: usize = 64;
const _: () = assert!(std::mem::size_of::<vmalloc_stacks::Stack>() <= OWNER_BYTES);
"#;

const GENERATOR_ALLOC: &str = "
    // `size` counts a guard, which the pool has of its own, and a page for what is above the top.
    let stack = POOL.request().bytes(size - page_size()).stack().map_err(io::Error::other)?;
    let top = std::ptr::with_exposed_provenance_mut::<u8>(stack.top()).sub(OWNER_BYTES);
    let bottom = std::ptr::with_exposed_provenance_mut::<c_void>(stack.guard().start);
    top.cast::<vmalloc_stacks::Stack>().write(stack);
    Ok(SysStack::new(top.cast(), bottom))";

/// The pool has made the guard already.
const GENERATOR_PROTECT: &str = "
    let above_guard = stack.bottom().cast::<u8>().add(page_size());
    Ok(SysStack::new(stack.top(), above_guard.cast()))";

const COROSENSEI_STACK: &str = r#"
/// A stack of a pool of vmalloc's.
pub struct DefaultStack {
    stack: vmalloc_stacks::Stack,
    valgrind: ManuallyDrop<ValgrindStackRegistration>,
}

static POOL: std::sync::LazyLock<vmalloc_stacks::Stacks> = std::sync::LazyLock::new(|| {
    vmalloc_stacks::Stacks::open(&vmalloc_stacks::StacksOptions::new()).expect("no addresses for stacks")
});
"#;

const COROSENSEI_ALLOC: &str = "
    let stack = POOL.request().bytes(size.max(MIN_STACK_SIZE)).stack().map_err(Error::other)?;
    let bytes = stack.len();
    let registration = ValgrindStackRegistration::new(stack.bottom() as *mut u8, bytes);
    Ok(Self { stack, valgrind: ManuallyDrop::new(registration) })";
