//! `Tunables` of wasmer: its own, but for memories that are not shared.

use crate::memory::{Pool, SlotMemory};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use vmalloc::SpaceOptions;
use vmalloc_linux::{Error, SharedSpace, open};
use vmalloc_slots::{Slots, SlotsOptions};
use wasmer::sys::{BaseTunables, Tunables};
use wasmer::{MemoryError, MemoryType, Pages, TableType};
use wasmer_types::{MemoryStyle, TableStyle};
use wasmer_vm::{MaybeInstanceOwned, VMConfig, VMMemory, VMMemoryDefinition, VMTable, VMTableDefinition};

/// The most pools. Programs have few kinds of memories: the minimum sizes of their modules.
const POOLS: usize = 64;

/// Pools of slots: one for each minimum of a memory, for a memory traps from its size on.
#[derive(Debug)]
pub struct Pools {
    space: SharedSpace,
    template: SlotsOptions,
    /// Filled from the start, never changed: a look writes nothing that threads share.
    made: [OnceLock<(Pages, Pool)>; POOLS],
}

impl Pools {
    /// Reserves addresses: 64 TiB, which are 8,000 memories of 4 GiB with a guard of 4 GiB.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open() -> Result<Self, Error> {
        let space = open(vmalloc_linux::LinuxOptions::new().max_bytes(1 << 46), SpaceOptions::default())?;
        Ok(Self::on(space, SlotsOptions::new(0)))
    }

    /// Returns pools on a space. Of the options all but the sizes of slots count, for each pool.
    pub fn on(space: SharedSpace, template: SlotsOptions) -> Self {
        Self { space, template, made: [const { OnceLock::new() }; POOLS] }
    }

    /// Returns the pools, one for each minimum so far.
    pub fn all(&self) -> impl Iterator<Item = &Pool> {
        self.made.iter().map_while(OnceLock::get).map(|(_, pool)| pool)
    }

    /// Returns the pool of a minimum, and makes it the first time. The last one is for all minimums that came too late: its memories begin as
    /// empty slots and grow, which costs one system call more.
    fn of(&self, minimum: Pages) -> Result<&Pool, MemoryError> {
        for (number, place) in self.made.iter().enumerate() {
            let head = if number == POOLS - 1 { Pages(0) } else { minimum };
            let (made, pool) = match place.get() {
                Some(entry) => entry,
                None => {
                    let pool = self.make(head)?;
                    // Another thread may have been first, with another minimum.
                    place.get_or_init(|| (head, pool))
                }
            };
            if *made == head {
                return Ok(pool);
            }
        }
        unreachable!("the last pool is for all")
    }

    fn make(&self, head: Pages) -> Result<Pool, MemoryError> {
        let guard = MemoryStyle::static_offset_guard_size() as usize;
        let mut options = self.template;
        options.slot_bytes = MemoryStyle::static_bound().bytes().0;
        let options = options.head_bytes(head.bytes().0).guard_after_bytes(guard);
        let pool = Slots::new(self.space.clone(), options);
        pool.map(Arc::new).map_err(|error| MemoryError::Generic(error.to_string()))
    }
}

/// wasmer's own tunables, with memories in slots. Shared memories stay wasmer's: its waiters live in them.
pub struct SlotTunables {
    pools: Arc<Pools>,
    base: BaseTunables,
}

impl SlotTunables {
    /// Returns tunables with pools of their own.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open() -> Result<Self, Error> {
        Ok(Self::on(Arc::new(Pools::open()?)))
    }

    /// Returns tunables on pools.
    pub fn on(pools: Arc<Pools>) -> Self {
        Self { pools, base: BaseTunables::new() }
    }

    fn memory(
        &self,
        ty: &MemoryType,
        at: Option<NonNull<VMMemoryDefinition>>,
    ) -> Result<VMMemory, MemoryError> {
        check(ty)?;
        let definition = at.map(MaybeInstanceOwned::Instance);
        let memory = SlotMemory::new(self.pools.of(ty.minimum)?, *ty, definition)?;
        Ok(VMMemory(Box::new(memory)))
    }
}

/// Checks the limits of a memory as wasmer's own does.
fn check(ty: &MemoryType) -> Result<(), MemoryError> {
    let most = Pages::max_value();
    let (minimum, maximum) = (ty.minimum, ty.maximum.unwrap_or(most));
    if minimum > most {
        Err(MemoryError::MinimumMemoryTooLarge { min_requested: minimum, max_allowed: most })
    } else if maximum > most {
        Err(MemoryError::MaximumMemoryTooLarge { max_requested: maximum, max_allowed: most })
    } else if maximum < minimum {
        let reason = format!("it starts with {} pages, and may have {} at most", minimum.0, maximum.0);
        Err(MemoryError::InvalidMemory { reason })
    } else {
        Ok(())
    }
}

impl Tunables for SlotTunables {
    fn memory_style(&self, memory: &MemoryType) -> MemoryStyle {
        self.base.memory_style(memory)
    }

    fn table_style(&self, table: &TableType) -> TableStyle {
        self.base.table_style(table)
    }

    fn create_host_memory(&self, ty: &MemoryType, style: &MemoryStyle) -> Result<VMMemory, MemoryError> {
        match ty.shared {
            true => self.base.create_host_memory(ty, style),
            false => self.memory(ty, None),
        }
    }

    unsafe fn create_vm_memory(
        &self,
        ty: &MemoryType,
        style: &MemoryStyle,
        at: NonNull<VMMemoryDefinition>,
    ) -> Result<VMMemory, MemoryError> {
        match ty.shared {
            // SAFETY: the caller's promise is passed on.
            true => unsafe { self.base.create_vm_memory(ty, style, at) },
            false => self.memory(ty, Some(at)),
        }
    }

    fn create_host_table(&self, ty: &TableType, style: &TableStyle) -> Result<VMTable, String> {
        self.base.create_host_table(ty, style)
    }

    unsafe fn create_vm_table(
        &self,
        ty: &TableType,
        style: &TableStyle,
        at: NonNull<VMTableDefinition>,
    ) -> Result<VMTable, String> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.base.create_vm_table(ty, style, at) }
    }

    fn vmconfig(&self) -> &VMConfig {
        self.base.vmconfig()
    }
}
