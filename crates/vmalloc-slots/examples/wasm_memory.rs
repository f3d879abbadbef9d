//! A linear memory of WebAssembly on slots: the two traits that a runtime asks an embedder for, in
//! the shape that wasmtime (`MemoryCreator`, `LinearMemory`) has for them. wasmer's `Tunables` ask
//! for no more: a base address, the size now, and growth in place.
//!
//! `cargo run --release -p vmalloc-slots --example wasm_memory`

use std::error::Error;
use std::sync::Arc;
use vmalloc::SpaceOptions;
use vmalloc_linux::{LinuxOptions, SharedSpace, open};
use vmalloc_slots::{Dirty, Slot, SlotError, Slots, SlotsOptions};

/// Bytes in a page of WebAssembly.
const WASM_PAGE: usize = 64 << 10;

/// A linear memory, as a runtime sees it.
///
/// # Safety
/// The memory is where `as_ptr` says for `byte_size` bytes, and traps from there to the end of its
/// guard.
unsafe trait LinearMemory: Send + Sync + 'static {
    fn byte_size(&self) -> usize;
    fn byte_capacity(&self) -> usize;
    fn grow_to(&mut self, bytes: usize) -> Result<(), SlotError>;
    fn as_ptr(&self) -> *mut u8;
}

/// A maker of linear memories, as a runtime sees it.
trait MemoryCreator: Send + Sync {
    fn new_memory(
        &self,
        minimum: usize,
        reserved: usize,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String>;
}

type Pool = Slots<SharedSpace>;

/// The adapter of one memory.
struct Memory {
    /// Only `Drop` takes it.
    slot: Option<Slot<Arc<Pool>>>,
    bytes: usize,
}

impl Memory {
    fn slot(&self) -> &Slot<Arc<Pool>> {
        self.slot.as_ref().expect("only dropping takes it")
    }
}

// SAFETY: a slot is committed up to its size here, never moves, and traps from there on.
unsafe impl LinearMemory for Memory {
    fn byte_size(&self) -> usize {
        self.bytes
    }

    fn byte_capacity(&self) -> usize {
        self.slot().len()
    }

    fn grow_to(&mut self, bytes: usize) -> Result<(), SlotError> {
        self.slot.as_mut().expect("only dropping takes it").grow(bytes)?;
        self.bytes = bytes;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.slot().as_ptr()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // SAFETY: the runtime uses it no more, and could write below its size alone.
            unsafe { slot.free(Dirty::Below(self.bytes)) };
        }
    }
}

/// The adapter of the maker. A memory must trap from its size on, so it is not smaller than the
/// head of a slot; for memories without pages there would be a pool with empty heads.
struct Creator(Arc<Pool>);

impl MemoryCreator for Creator {
    fn new_memory(
        &self,
        minimum: usize,
        reserved: usize,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let options = self.0.options();
        if reserved.max(minimum) > options.slot_bytes || guard > options.guard_after_bytes {
            return Err(format!("{reserved} bytes with a guard of {guard} are more than a slot"));
        }
        if minimum < options.head_bytes {
            return Err(format!("{minimum} bytes are less than a head of {}", options.head_bytes));
        }
        let slot = Slot::new(self.0.clone()).map_err(|error: SlotError| error.to_string())?;
        let mut memory = Memory { slot: Some(slot), bytes: 0 };
        memory.grow_to(minimum).map_err(|error| error.to_string())?;
        Ok(Box::new(memory))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Addresses for thousands of slots: they cost no memory. The default has room for 60.
    let space = open(LinuxOptions::new().max_bytes(64 << 40), SpaceOptions::default())?;
    let options = SlotsOptions::new(4 << 30)
        .head_bytes(WASM_PAGE)
        .guard_before_bytes(2 << 30)
        .guard_after_bytes(2 << 30);
    let pool = Arc::new(Slots::new(space, options)?);
    let creator = Creator(pool.clone());
    let idle = (0..4000).map(|_| creator.new_memory(WASM_PAGE, 4 << 30, 2 << 30));
    let idle = idle.collect::<Result<Vec<_>, _>>()?;
    println!("{} memories of 4 GiB at once", idle.len());
    drop(idle);
    for round in 0..1000 {
        let mut memory = creator.new_memory(WASM_PAGE, 4 << 30, 2 << 30)?;
        memory.grow_to(4 * WASM_PAGE)?;
        // SAFETY: the memory is this function's, and has so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), memory.byte_size()) };
        assert!(bytes.iter().all(|&byte| byte == 0), "round {round}");
        bytes.fill(7);
        assert_eq!((memory.byte_size(), memory.byte_capacity()), (4 * WASM_PAGE, 4 << 30));
        assert!(memory.grow_to((4 << 30) + 1).is_err());
    }
    assert!(creator.new_memory(WASM_PAGE, 8 << 30, 0).is_err());
    assert!(creator.new_memory(0, 4 << 30, 0).is_err());
    let stats = pool.stats();
    println!("1000 memories in {} slots, reset in {} batches", stats.reserved, stats.batches);
    Ok(())
}
