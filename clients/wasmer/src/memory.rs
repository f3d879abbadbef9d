//! `LinearMemory` of wasmer over a slot.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use vmalloc_linux::SharedSpace;
use vmalloc_slots::{Dirty, Slot, Slots};
use wasmer::{MemoryError, MemoryType, Pages};
use wasmer_types::MemoryStyle;
use wasmer_vm::{LinearMemory, MaybeInstanceOwned, VMMemoryDefinition};

/// The slots of memories with one minimum.
pub type Pool = Arc<Slots<SharedSpace>>;

/// One memory.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    /// Only `Drop` takes it.
    slot: Option<Slot<Pool>>,
    ty: MemoryType,
    size: Pages,
    /// The largest size so far: what the guest may have written to.
    used: Pages,
    definition: MaybeInstanceOwned<VMMemoryDefinition>,
}

// SAFETY: the definition points into this memory's slot, and lies on the heap or in the instance, which has no thread of its own.
unsafe impl Send for SlotMemory {}
// SAFETY: as for `Send`; shared references read alone.
unsafe impl Sync for SlotMemory {}

impl SlotMemory {
    /// Takes a slot of a pool, with `ty.minimum` pages.
    pub(crate) fn new(
        pool: &Pool,
        ty: MemoryType,
        definition: Option<MaybeInstanceOwned<VMMemoryDefinition>>,
    ) -> Result<Self, MemoryError> {
        let slot = Slot::new(pool.clone()).map_err(|error| MemoryError::Generic(error.to_string()))?;
        let own = || {
            let empty = VMMemoryDefinition { base: slot.as_ptr(), current_length: 0 };
            MaybeInstanceOwned::Host(Box::new(UnsafeCell::new(empty)))
        };
        let definition = definition.unwrap_or_else(own);
        let mut memory = Self { slot: Some(slot), ty, size: Pages(0), used: Pages(0), definition };
        memory.set_size(ty.minimum).map_err(|error| MemoryError::Generic(error.to_string()))?;
        Ok(memory)
    }

    fn slot(&self) -> &Slot<Pool> {
        self.slot.as_ref().expect("only dropping takes it")
    }

    fn slot_mut(&mut self) -> &mut Slot<Pool> {
        self.slot.as_mut().expect("only dropping takes it")
    }

    fn set_size(&mut self, size: Pages) -> Result<(), vmalloc_slots::SlotError> {
        self.slot_mut().grow(size.bytes().0)?;
        self.size = size;
        self.used = self.used.max(size);
        let definition = VMMemoryDefinition { base: self.slot().as_ptr(), current_length: size.bytes().0 };
        // SAFETY: it lies on this memory's heap, or where the caller of `create_vm_memory` has promised.
        unsafe { self.definition.as_ptr().write(definition) };
        Ok(())
    }
}

impl LinearMemory for SlotMemory {
    fn ty(&self) -> MemoryType {
        MemoryType { minimum: self.size, ..self.ty }
    }

    fn size(&self) -> Pages {
        self.size
    }

    fn style(&self) -> MemoryStyle {
        MemoryStyle::Static
    }

    fn grow(&mut self, delta: Pages) -> Result<Pages, MemoryError> {
        let (before, refused) =
            (self.size, MemoryError::CouldNotGrow { current: self.size, attempted_delta: delta });
        let most = self.ty.maximum.unwrap_or(Pages::max_value()).min(Pages::max_value());
        match before.checked_add(delta) {
            Some(after) if after <= most => self.set_size(after).map(|()| before).map_err(|_| refused),
            _ => Err(refused),
        }
    }

    fn grow_at_least(&mut self, bytes: u64) -> Result<(), MemoryError> {
        let missing =
            bytes.saturating_sub(self.size.bytes().0 as u64).div_ceil(wasmer::WASM_PAGE_SIZE as u64);
        self.grow(Pages(u32::try_from(missing).unwrap_or(u32::MAX))).map(drop)
    }

    /// Makes the memory empty. Its pages stay accessible, as wasmer's own do, and read as zero, which those of wasmer's own do not.
    fn reset(&mut self) -> Result<(), MemoryError> {
        let used = self.used.bytes().0;
        // SAFETY: this is borrowed exclusively, so no guest runs, and nothing was written beyond what it has used.
        let reset = unsafe { self.slot_mut().reset(Dirty::Below(used)) };
        reset.map_err(|error| MemoryError::Generic(error.to_string()))?;
        self.set_size(Pages(0)).map_err(|error| MemoryError::Generic(error.to_string()))
    }

    fn vmmemory(&self) -> NonNull<VMMemoryDefinition> {
        self.definition.as_ptr()
    }

    fn try_clone(&self) -> Result<Box<dyn LinearMemory + Send + Sync + 'static>, MemoryError> {
        Err(MemoryError::MemoryNotShared)
    }

    fn copy(&self) -> Result<Box<dyn LinearMemory + Send + Sync + 'static>, MemoryError> {
        let mut copy = Self::new(self.slot().slots(), self.ty, None)?;
        copy.set_size(self.size.max(self.ty.minimum))
            .map_err(|error| MemoryError::Generic(error.to_string()))?;
        let bytes = self.size.bytes().0;
        // SAFETY: both are committed so far, and different slots; nothing writes to either.
        unsafe { copy.slot().as_ptr().copy_from_nonoverlapping(self.slot().as_ptr(), bytes) };
        Ok(Box::new(copy))
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // SAFETY: wasmer uses it no more, and could write below its largest size alone.
            unsafe { slot.free(Dirty::Below(self.used.bytes().0)) };
        }
    }
}
