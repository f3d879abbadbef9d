//! An MMU for page tables that somebody else's code writes: the map, unmap and flush of any kernel,
//! run on CPUs that forget nothing by themselves.
//!
//! The code under test writes real tables of x86-64, of four levels, into the frames of an [`Mmu`].
//! Accesses go the way of the hardware:
//!
//! ```text
//!   access by CPU 1 ─► TLB 1 ──hit───────────────────────────────► frame
//!                        │ miss
//!                        ▼
//!                      table cache 1: (level, address) ─► table    the lowest table that it has
//!                        │
//!                        ▼
//!                      tables in frames ─► entry … entry ─► frame   both caches are filled
//! ```
//!
//! After each access the tables are walked once more, from the root. Where the caches led
//! elsewhere, the access is an [`MmuFault`]. So is a frame that is freed while a cache of any CPU
//! leads to it, as a page or as a table: that is the flush that came too late or not at all, found
//! before it does damage.
//!
//! ```
//! use stale_tlb::mmu::{Mmu, MmuFault};
//!
//! let mmu = Mmu::new(2, 16);
//! let table: Vec<u64> = (0..4).map(|_| mmu.alloc().unwrap()).collect();
//! let page = mmu.alloc().unwrap();
//! table.iter().for_each(|frame| mmu.clear(*frame));
//! // Address 0 leads through the first entry of each table.
//! for (nth, frame) in table.iter().enumerate() {
//!     let next = table.get(nth + 1).copied().unwrap_or(page);
//!     mmu.store(*frame, 0, next << 12 | 0b11);
//! }
//! (0..2).for_each(|cpu| mmu.load_root(cpu, table[0]));
//! mmu.write(0, 0, 42)?;
//! assert_eq!(mmu.read(1, 0), Ok(42));
//! mmu.store(table[3], 0, 0);
//! mmu.flush_page(0, 0);
//! assert_eq!(mmu.read(0, 0), Err(MmuFault::NotMapped { cpu: 0, addr: 0 }));
//! assert_eq!(mmu.free(page), Err(MmuFault::FreedWhileCached { cpu: 1, frame: page, addr: 0 }));
//! # Ok::<(), MmuFault>(())
//! ```
//!
//! # What is not simulated
//! Five levels, tags of address spaces (PCID), global pages, the bits for users, dirty and
//! accessed, and writes that are held in a store buffer.

mod cpu;
#[cfg(test)]
mod tests;

use cpu::{Cpu, Translation};
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// A way to access a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes to it.
    Write,
    /// Executes what is there.
    Fetch,
}

/// Words in a frame.
const WORDS: usize = 512;
/// Bits of an address within a page.
const PAGE_BITS: u32 = 12;

/// An access, or a frame given back, that real hardware would get wrong; and accesses that it
/// refuses. Frames by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MmuFault {
    /// An access without translation, as a page fault is. Not recorded.
    #[error("cpu {cpu}: {addr:#x} is not mapped")]
    NotMapped {
        /// The CPU that accessed it.
        cpu: usize,
        /// The address that was accessed.
        addr: u64,
    },
    /// An access that the translation does not allow. Not recorded.
    #[error("cpu {cpu}: {access:?} of {addr:#x} is not allowed")]
    Denied {
        /// The CPU that accessed it.
        cpu: usize,
        /// The address that was accessed.
        addr: u64,
        /// How.
        access: Access,
    },
    /// An access through a translation that the tables do not have any more: a flush is missing.
    #[error("cpu {cpu}: {addr:#x} led to frame {held:#x} by a stale translation; the tables have {now:x?}")]
    StaleAccess {
        /// The CPU that accessed it.
        cpu: usize,
        /// The address that was accessed.
        addr: u64,
        /// The frame that was reached.
        held: u64,
        /// The frame that the tables lead to.
        now: Option<u64>,
    },
    /// An access that the tables do not allow any more: a flush is missing.
    #[error("cpu {cpu}: {access:?} of {addr:#x} by a translation that allowed it once")]
    StaleProtection {
        /// The CPU that accessed it.
        cpu: usize,
        /// The address that was accessed.
        addr: u64,
        /// How.
        access: Access,
    },
    /// A frame was freed while a CPU has a translation to it: whatever has it next is reached by
    /// the old address.
    #[error("frame {frame:#x} was freed while cpu {cpu} has it at {addr:#x}")]
    FreedWhileCached {
        /// The CPU that has it.
        cpu: usize,
        /// The frame that was freed.
        frame: u64,
        /// The address that leads to it.
        addr: u64,
    },
    /// A table was freed while a CPU may start its walks there: whatever is written there next is
    /// read as entries.
    #[error("table {frame:#x} was freed while cpu {cpu} has it cached for {addr:#x}")]
    FreedTableWhileCached {
        /// The CPU that has it.
        cpu: usize,
        /// The frame of the table.
        frame: u64,
        /// The first address that it translates.
        addr: u64,
    },
    /// A frame was freed that is free.
    #[error("frame {frame:#x} was freed twice")]
    FreedTwice {
        /// The frame.
        frame: u64,
    },
    /// A table leads out of the memory that there is.
    #[error("cpu {cpu}: {addr:#x} leads to frame {frame:#x}, which there is not")]
    BeyondMemory {
        /// The CPU that accessed it.
        cpu: usize,
        /// The address that was accessed.
        addr: u64,
        /// The frame that the tables name.
        frame: u64,
    },
}

/// A frame, where the code under test finds it.
#[repr(align(4096))]
#[derive(Debug)]
struct Frame([AtomicU64; WORDS]);

/// Memory in frames, and CPUs that translate by the tables in it.
#[derive(Debug)]
pub struct Mmu {
    memory: Box<[Frame]>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cpus: Vec<Cpu>,
    /// Free frames: that freed last is handed out first.
    free: Vec<u64>,
    faults: Vec<MmuFault>,
}

impl Mmu {
    /// Returns a machine with so many CPUs and frames. Frame 0 is never handed out: many kernels
    /// take it for none.
    pub fn new(cpus: usize, frames: u64) -> Self {
        // Frames are dirty: a table that was not cleared leads out of memory.
        let frame = |_| Frame([const { AtomicU64::new(u64::MAX) }; WORDS]);
        let state = State {
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            free: (1..frames).rev().collect(),
            faults: Vec::new(),
        };
        Self { memory: (0..frames).map(frame).collect(), state: Mutex::new(state) }
    }

    /// Returns where frame 0 lies, with all others behind it: the "physical memory offset" of many
    /// kernels. The memory may be
    /// read and written by this pointer, as cells that are shared.
    pub fn base(&self) -> *mut u8 {
        // Cells of atomics: writes by the code under test are allowed though the machine is shared.
        self.memory.as_ptr().cast::<u8>().cast_mut()
    }

    /// Returns a free frame, or none. It holds anything.
    pub fn alloc(&self) -> Option<u64> {
        self.state.lock().free.pop()
    }

    /// Takes a frame back, which is handed out next.
    ///
    /// # Errors
    /// [`MmuFault`]: a CPU can still reach it, or it is free. The first is recorded, and the frame
    /// is free then, as on real
    /// hardware.
    pub fn free(&self, frame: u64) -> Result<(), MmuFault> {
        let mut state = self.state.lock();
        if state.free.contains(&frame) {
            return Err(state.record(MmuFault::FreedTwice { frame }));
        }
        state.free.push(frame);
        let held = state.cpus.iter().enumerate().find_map(|(cpu, it)| it.reaches(cpu, frame));
        held.map_or(Ok(()), |fault| Err(state.record(fault)))
    }

    /// Writes a word of a frame, past all translations.
    ///
    /// # Panics
    /// When there is no such frame or word.
    pub fn store(&self, frame: u64, word: usize, value: u64) {
        self.memory[frame as usize].0[word].store(value, Relaxed);
    }

    /// Fills a frame with zeros.
    ///
    /// # Panics
    /// When there is no such frame.
    pub fn clear(&self, frame: u64) {
        (0..WORDS).for_each(|word| self.store(frame, word, 0));
    }

    /// Makes a CPU translate by the tables below `root`. It forgets everything, as by a write to
    /// CR3.
    ///
    /// # Panics
    /// When there is no such CPU.
    pub fn load_root(&self, cpu: usize, root: u64) {
        self.state.lock().cpus[cpu] = Cpu::new(root);
    }

    /// Makes a CPU forget the page at `addr`, and all tables that it has cached, as `invlpg` does.
    ///
    /// # Panics
    /// When there is no such CPU.
    pub fn flush_page(&self, cpu: usize, addr: u64) {
        self.state.lock().cpus[cpu].flush_page(addr);
    }

    /// Makes a CPU forget everything.
    ///
    /// # Panics
    /// When there is no such CPU.
    pub fn flush_all(&self, cpu: usize) {
        self.state.lock().cpus[cpu].flush_all();
    }

    /// Makes every CPU forget the page at `addr`, as a shootdown does.
    pub fn shoot_down(&self, addr: u64) {
        self.state.lock().cpus.iter_mut().for_each(|cpu| cpu.flush_page(addr));
    }

    /// Reads the word at `addr`.
    ///
    /// # Errors
    /// [`MmuFault`]: not mapped, or stale.
    pub fn read(&self, cpu: usize, addr: u64) -> Result<u64, MmuFault> {
        self.access(cpu, addr, Access::Read, |word| word.load(Relaxed))
    }

    /// Writes the word at `addr`, wherever the caches lead.
    ///
    /// # Errors
    /// [`MmuFault`]: not mapped, not writable, or stale.
    pub fn write(&self, cpu: usize, addr: u64, value: u64) -> Result<(), MmuFault> {
        self.access(cpu, addr, Access::Write, |word| word.store(value, Relaxed))
    }

    /// Reads the word at `addr` as code.
    ///
    /// # Errors
    /// [`MmuFault`]: not mapped, not executable, or stale.
    pub fn fetch(&self, cpu: usize, addr: u64) -> Result<u64, MmuFault> {
        self.access(cpu, addr, Access::Fetch, |word| word.load(Relaxed))
    }

    /// Fills the caches of a CPU for `addr`, as speculation may at any time. Nothing is reported.
    ///
    /// # Panics
    /// When there is no such CPU.
    pub fn prefetch(&self, cpu: usize, addr: u64) {
        let _ = self.state.lock().cpus[cpu].translate(addr, &|frame, word| self.word(frame, word));
    }

    /// Returns all faults that were recorded: what real hardware would have got wrong.
    pub fn faults(&self) -> Vec<MmuFault> {
        self.state.lock().faults.clone()
    }

    /// Returns the word of a frame, or none where there is no such frame.
    fn word(&self, frame: u64, word: usize) -> Option<u64> {
        self.memory.get(frame as usize).map(|frame| frame.0[word].load(Relaxed))
    }

    fn access<R>(
        &self,
        cpu: usize,
        addr: u64,
        access: Access,
        act: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<R, MmuFault> {
        let (mut state, read) = (self.state.lock(), |frame, word| self.word(frame, word));
        let used = state.cpus[cpu].translate(addr, &read);
        let right = Cpu::new(state.cpus[cpu].root).translate(addr, &read);
        let Some(used) = used else { return Err(MmuFault::NotMapped { cpu, addr }) };
        if !used.allows(access) {
            return Err(MmuFault::Denied { cpu, addr, access });
        }
        let frame = used.frame_of(addr);
        let Some(memory) = self.memory.get(frame as usize) else {
            return Err(state.record(MmuFault::BeyondMemory { cpu, addr, frame }));
        };
        let answer = act(&memory.0[(addr >> 3) as usize % WORDS]);
        judge(cpu, addr, access, used, right).map_or(Ok(answer), |fault| Err(state.record(fault)))
    }
}

/// Returns what is wrong with an access that went by `used` where the tables have `right`.
fn judge(
    cpu: usize,
    addr: u64,
    access: Access,
    used: Translation,
    right: Option<Translation>,
) -> Option<MmuFault> {
    let (held, now) = (used.frame_of(addr), right.map(|right| right.frame_of(addr)));
    if now != Some(held) {
        return Some(MmuFault::StaleAccess { cpu, addr, held, now });
    }
    let is_allowed = right.is_some_and(|right| right.allows(access));
    (!is_allowed).then_some(MmuFault::StaleProtection { cpu, addr, access })
}

impl State {
    /// Records a fault, and returns it.
    fn record(&mut self, fault: MmuFault) -> MmuFault {
        self.faults.push(fault);
        fault
    }
}
