//! `MemoryCreator` of wasmtime over `vmalloc-slots`.

use std::sync::{Arc, OnceLock};
use vmalloc::{Config, Space};
use vmalloc_linux::{Linux, OpenError, open};
use vmalloc_slots::{Dirty, Options, Slot, Slots};
use wasmtime::{Error, LinearMemory, MemoryCreator, MemoryType};

/// The slots of one kind of memory.
pub type Pool = Arc<Slots<Arc<Space<Linux>>>>;

/// How far a memory can grow in place if it does not say: all that 32 bits address.
const MOST_BYTES: usize = 4 << 30;

/// Free slots that keep their addresses, in each pool: they cost none of the memory that others could use, and a new one costs 50 µs.
const WARM_SLOTS: usize = 1 << 14;

/// The most pools. Programs have few kinds: the minimum sizes of their modules.
const POOLS: usize = 64;

/// From so many pools on, memories begin as empty slots and grow: one system call more for each, and no new pool.
const EXACT_POOLS: usize = POOLS / 2;

/// What memories of one pool have in common. A memory traps from its size on, so its minimum is the head of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    head: usize,
    slot: usize,
    guard: usize,
}

/// A maker of memories, for [`wasmtime::Config::with_host_memory`]. It has no limit but the addresses of its span.
#[derive(Debug)]
pub struct Memories {
    space: Arc<Space<Linux>>,
    template: Options,
    /// Filled from the start, never changed: a look writes nothing that threads share.
    pools: [OnceLock<(Kind, Pool)>; POOLS],
}

impl Memories {
    /// Reserves addresses: 64 TiB, which are 16,000 memories of 4 GiB with guards.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open() -> Result<Self, OpenError> {
        let space = open(vmalloc_linux::Options::new(), Config::default())?;
        Ok(Self::on(space, Options::new(MOST_BYTES).warm_slots(WARM_SLOTS)))
    }

    /// Returns a maker on a space. Of the options all but the sizes of slots count, for each pool.
    pub fn on(space: Arc<Space<Linux>>, template: Options) -> Self {
        Self { space, template, pools: [const { OnceLock::new() }; POOLS] }
    }

    /// Returns the pools, one for each kind of memory so far.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().map_while(OnceLock::get).map(|(_, pool)| pool)
    }

    /// Returns the pool of a kind, and makes it the first time.
    fn pool(&self, mut kind: Kind) -> Result<&Pool, String> {
        for (number, place) in self.pools.iter().enumerate() {
            if number == EXACT_POOLS {
                kind.head = 0;
            }
            let (made, pool) = match place.get() {
                Some(entry) => entry,
                None => {
                    let pool = self.make(kind)?;
                    // Another thread may have been first, with another kind.
                    place.get_or_init(|| (kind, pool))
                }
            };
            if *made == kind {
                return Ok(pool);
            }
        }
        Err(format!("memories of more than {POOLS} kinds of addresses"))
    }

    fn make(&self, kind: Kind) -> Result<Pool, String> {
        let mut options = self.template;
        options.slot_bytes = kind.slot;
        let options =
            options.head_bytes(kind.head).guard_before_bytes(kind.guard).guard_after_bytes(kind.guard);
        let pool = Slots::new(self.space.clone(), options).map_err(|error| error.to_string())?;
        Ok(Arc::new(pool))
    }
}

// SAFETY: each memory has a slot of its own, which reads as zero, never moves, and traps from its committed pages
// to the end of its guard (SLOT-2, SLOT-3 of vmalloc-slots).
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let reserved = reserved.unwrap_or(0).max(minimum).max(1);
        // A memory that may outgrow its reservation gets 4 GiB instead: addresses cost nothing, and it never moves.
        let slot = if maximum.is_some_and(|maximum| maximum <= reserved) {
            reserved
        } else {
            reserved.max(MOST_BYTES)
        };
        let pool = self.pool(Kind { head: minimum, slot, guard })?.clone();
        let slot = Slot::new(pool).map_err(|error| error.to_string())?;
        let mut memory = Memory { slot: Some(slot), bytes: 0 };
        memory.grow_to(minimum).map_err(|error| error.to_string())?;
        Ok(Box::new(memory))
    }
}

/// One memory.
struct Memory {
    /// Only `Drop` takes it.
    slot: Option<Slot<Pool>>,
    bytes: usize,
}

impl Memory {
    fn slot(&self) -> &Slot<Pool> {
        self.slot.as_ref().expect("only dropping takes it")
    }
}

// SAFETY: a slot is committed up to its size here, never moves, and traps from there on.
unsafe impl LinearMemory for Memory {
    fn byte_size(&self) -> usize {
        self.bytes
    }

    fn byte_capacity(&self) -> usize {
        self.slot().size()
    }

    fn grow_to(&mut self, bytes: usize) -> Result<(), Error> {
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
            // SAFETY: wasmtime uses it no more, and could write below its size alone.
            unsafe { slot.free(Dirty::Below(self.bytes)) };
        }
    }
}
