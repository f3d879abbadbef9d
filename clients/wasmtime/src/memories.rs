//! `MemoryCreator` of wasmtime over `vmalloc-slots`.
//!
//! A memory traps from its size on. Memories of a kind that seldom grow come from a pool whose slots lose what they grew. Where most
//! of them grow, they come from a second pool, whose slots keep it; what a new memory has not yet is closed by `mprotect`:
//!
//! ```text
//!   │ minimum │ grown by a memory before │ addresses only │ guard │
//!   │ memory  │ closed: traps, and keeps │ traps          │ traps │
//!             │ its pages, full of zeros │
//!           bytes ─► grow_to         committed
//! ```

use rustix::mm::{MprotectFlags, mprotect};
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use vmalloc::SpaceOptions;
use vmalloc_linux::{SharedSpace, open};
use vmalloc_slots::{BeyondHead, Dirty, Slot, Slots, SlotsOptions};
use wasmtime::{Error, LinearMemory, MemoryCreator, MemoryType};

/// The slots of one kind of memory.
pub type Pool = Arc<Slots<SharedSpace>>;

/// How far a memory can grow in place if it does not say: all that 32 bits address.
const MOST_BYTES: usize = 4 << 30;

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

/// The pools of one kind.
#[derive(Debug)]
struct Pools {
    kind: Kind,
    pool: Pool,
    /// For memories that grow. Made when they are the rule.
    growing: OnceLock<Pool>,
    habit: Habit,
}

/// How often the memories of a kind have grown lately: 0 to [`Habit::MOST`].
#[derive(Debug)]
struct Habit(AtomicU8);

impl Habit {
    const MOST: u8 = 8;

    /// Notes whether a memory has grown. Writes nothing while all do, or none does.
    fn note(&self, grew: bool) {
        // Relaxed, here and below: a hint, of which a thread may overwrite what another noted.
        let habit = self.0.load(Relaxed);
        let next = if grew { (habit + 1).min(Self::MOST) } else { habit.saturating_sub(1) };
        if next != habit {
            self.0.store(next, Relaxed);
        }
    }

    fn grows(&self) -> bool {
        self.0.load(Relaxed) > Self::MOST / 2
    }
}

/// A maker of memories, for [`wasmtime::Config::with_host_memory`]. It has no limit but the addresses of its span.
#[derive(Debug)]
pub struct Memories {
    space: SharedSpace,
    template: SlotsOptions,
    /// Filled from the start, never changed: a look writes nothing that threads share.
    pools: [OnceLock<Arc<Pools>>; POOLS],
}

impl Memories {
    /// Reserves addresses: 64 TiB, which are 16,000 memories of 4 GiB with guards.
    ///
    /// # Errors
    /// [`vmalloc_linux::Error`].
    pub fn open() -> Result<Self, vmalloc_linux::Error> {
        let space = open(vmalloc_linux::LinuxOptions::new().max_bytes(1 << 46), SpaceOptions::default())?;
        Ok(Self::on(space, SlotsOptions::new(MOST_BYTES)))
    }

    /// Returns a maker on a space. Of the options all but the sizes of slots count, for each pool.
    pub fn on(space: SharedSpace, template: SlotsOptions) -> Self {
        Self { space, template, pools: [const { OnceLock::new() }; POOLS] }
    }

    /// Returns the pools: one or two for each kind of memory so far.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        let kinds = self.pools.iter().map_while(OnceLock::get);
        kinds.flat_map(|pools| std::iter::once(&pools.pool).chain(pools.growing.get()))
    }

    /// Returns the pools of a kind, and makes the first of them if there is none.
    fn of_kind(&self, mut kind: Kind) -> Result<&Arc<Pools>, String> {
        for (number, place) in self.pools.iter().enumerate() {
            if number == EXACT_POOLS {
                kind.head = 0;
            }
            let pools = match place.get() {
                Some(pools) => pools,
                None => {
                    let pool = self.make(kind, BeyondHead::Decommit)?;
                    let pools =
                        Pools { kind, pool, growing: OnceLock::new(), habit: Habit(AtomicU8::new(0)) };
                    // Another thread may have been first, with another kind.
                    place.get_or_init(|| Arc::new(pools))
                }
            };
            if pools.kind == kind {
                return Ok(pools);
            }
        }
        Err(format!("memories of more than {POOLS} kinds of addresses"))
    }

    /// Returns a slot of which the first `minimum` bytes are open: with what memories before have grown where they are known to grow.
    fn slot(&self, pools: &Pools, minimum: usize) -> Result<Slot<Pool>, String> {
        if pools.habit.grows() {
            let growing = match pools.growing.get() {
                Some(pool) => pool,
                None => {
                    let pool = self.make(pools.kind, BeyondHead::Commit)?;
                    pools.growing.get_or_init(|| pool)
                }
            };
            let slot = Slot::new(growing.clone()).map_err(|error| error.to_string())?;
            let beyond = pages(minimum)..slot.committed_bytes();
            if close(&slot, beyond.clone()).is_ok() {
                return Ok(slot);
            }
            // There are too many mappings. The other pool needs none.
            if open_again(&slot, beyond).is_err() {
                std::mem::forget(slot);
            }
        }
        Slot::new(pools.pool.clone()).map_err(|error| error.to_string())
    }

    fn make(&self, kind: Kind, beyond: BeyondHead) -> Result<Pool, String> {
        let mut options = self.template.beyond_head(beyond);
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
        let pools = self.of_kind(Kind { head: minimum, slot, guard })?.clone();
        let slot = self.slot(&pools, minimum)?;
        let bytes = minimum.min(slot.committed_bytes());
        let mut memory = Memory { slot: Some(slot), pools, minimum, bytes };
        if bytes < minimum {
            memory.grow_to(minimum).map_err(|error| error.to_string())?;
        }
        Ok(Box::new(memory))
    }
}

/// One memory: its first `bytes` bytes are committed and open, the others that are committed are closed.
struct Memory {
    /// Only `Drop` takes it.
    slot: Option<Slot<Pool>>,
    pools: Arc<Pools>,
    minimum: usize,
    bytes: usize,
}

impl Memory {
    fn slot(&self) -> &Slot<Pool> {
        self.slot.as_ref().expect("only dropping takes it")
    }
}

/// Closes pages of a slot, which keep their content. The range may be empty.
fn close(slot: &Slot<Pool>, bytes: Range<usize>) -> rustix::io::Result<()> {
    protect(slot, bytes, MprotectFlags::empty())
}

/// Opens pages that were closed.
fn open_again(slot: &Slot<Pool>, bytes: Range<usize>) -> rustix::io::Result<()> {
    protect(slot, bytes, MprotectFlags::READ | MprotectFlags::WRITE)
}

fn protect(slot: &Slot<Pool>, bytes: Range<usize>, flags: MprotectFlags) -> rustix::io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: the pages are committed ones of a slot that the caller owns, and beyond the memory's size: nothing refers to them.
    unsafe { mprotect(slot.as_ptr().add(bytes.start).cast(), bytes.len(), flags) }
}

/// Returns the bytes of whole pages.
fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(rustix::param::page_size())
}

// SAFETY: a slot is committed and open up to its size here, never moves, and traps from there on.
unsafe impl LinearMemory for Memory {
    fn byte_size(&self) -> usize {
        self.bytes
    }

    fn byte_capacity(&self) -> usize {
        self.slot().len()
    }

    fn grow_to(&mut self, bytes: usize) -> Result<(), Error> {
        let slot = self.slot.as_mut().expect("only dropping takes it");
        let closed = pages(self.bytes)..pages(bytes).min(slot.committed_bytes());
        let opened = open_again(slot, closed.clone()).map_err(Error::from);
        if let Err(error) = opened.and_then(|()| slot.grow(bytes).map_err(Error::from)) {
            if close(slot, closed).is_err() {
                // The memory would go on beyond its size.
                std::process::abort();
            }
            return Err(error);
        }
        self.bytes = bytes;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.slot().as_ptr()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        self.pools.habit.note(self.bytes > self.minimum);
        if open_again(&slot, pages(self.bytes)..slot.committed_bytes()).is_err() {
            // The pool would meet closed pages.
            std::mem::forget(slot);
            return;
        }
        // SAFETY: wasmtime uses it no more, and could write below its size alone.
        unsafe { slot.free(Dirty::Below(self.bytes)) };
    }
}
