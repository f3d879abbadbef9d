//! The caches of one CPU: translations of pages, and the tables where its walks may start.

use super::{Access, MmuFault, PAGE_BITS};
use std::collections::BTreeMap;

/// Levels of tables; the lowest is 0.
const LEVELS: u32 = 4;
/// Bits of an address that choose the entry of one table.
const LEVEL_BITS: u32 = 9;
/// Bits of an entry: present, writable, a large page, not executable, and the frame.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// A page of any size: where it starts, its first frame, and what may be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Translation {
    start: u64,
    /// The level of the entry: 0 for the smallest pages.
    level: u32,
    frame: u64,
    is_writable: bool,
    is_executable: bool,
}

impl Translation {
    pub(super) fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => true,
            Access::Write => self.is_writable,
            Access::Fetch => self.is_executable,
        }
    }

    pub(super) fn frame_of(&self, addr: u64) -> u64 {
        self.frame + ((addr - self.start) >> PAGE_BITS)
    }

    fn covers(&self, addr: u64) -> bool {
        start_of(addr, self.level) == self.start
    }

    fn has(&self, frame: u64) -> bool {
        (self.frame..self.frame + (1 << (LEVEL_BITS * self.level))).contains(&frame)
    }
}

/// Returns the first address of the page, or the table's reach, in which `addr` lies: that of one
/// entry at `level`.
fn start_of(addr: u64, level: u32) -> u64 {
    let bits = PAGE_BITS + LEVEL_BITS * level;
    addr >> bits << bits
}

/// One CPU. Nothing leaves its caches by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    pub(super) root: u64,
    /// By first address.
    pages: BTreeMap<u64, Translation>,
    /// By level of the table and first address of its reach: the table, and what the entries above
    /// it allow.
    tables: BTreeMap<(u32, u64), (u64, Rights)>,
}

/// The rights that the entries on the way have left so far.
#[derive(Clone, Copy, Debug)]
struct Rights {
    is_writable: bool,
    is_executable: bool,
}

impl Cpu {
    pub(super) fn new(root: u64) -> Self {
        Self { root, ..Self::default() }
    }

    pub(super) fn flush_page(&mut self, addr: u64) {
        self.pages.retain(|_, page| !page.covers(addr));
        self.tables.clear();
    }

    pub(super) fn flush_all(&mut self) {
        self.pages.clear();
        self.tables.clear();
    }

    /// Returns the translation of `addr` that this CPU has, or finds in the tables and keeps.
    pub(super) fn translate(
        &mut self,
        addr: u64,
        read: &dyn Fn(u64, usize) -> Option<u64>,
    ) -> Option<Translation> {
        if let Some(page) = self.pages.values().find(|page| page.covers(addr)) {
            return Some(*page);
        }
        let (mut level, mut table, mut rights) = self.lowest_table(addr);
        loop {
            let index = (addr >> (PAGE_BITS + LEVEL_BITS * level)) as usize % (1 << LEVEL_BITS);
            let entry = read(table, index).filter(|entry| entry & PRESENT != 0)?;
            rights.is_writable &= entry & WRITABLE != 0;
            rights.is_executable &= entry & NO_EXECUTE == 0;
            let frame = (entry & FRAME) >> PAGE_BITS;
            if level == 0 || entry & LARGE != 0 {
                let Rights { is_writable, is_executable } = rights;
                let page =
                    Translation { start: start_of(addr, level), level, frame, is_writable, is_executable };
                self.pages.insert(page.start, page);
                return Some(page);
            }
            level -= 1;
            table = frame;
            // A table is cached as soon as an entry leads to it, whatever is in it.
            self.tables.insert((level, start_of(addr, level + 1)), (table, rights));
        }
    }

    /// Returns the lowest table for `addr` that this CPU knows: level, frame, rights.
    fn lowest_table(&self, addr: u64) -> (u32, u64, Rights) {
        let cached = (0..LEVELS - 1).find_map(|level| {
            let (table, rights) = self.tables.get(&(level, start_of(addr, level + 1)))?;
            Some((level, *table, *rights))
        });
        cached.unwrap_or((LEVELS - 1, self.root, Rights { is_writable: true, is_executable: true }))
    }

    /// Returns the fault of freeing a frame that this CPU can reach.
    pub(super) fn reaches(&self, cpu: usize, frame: u64) -> Option<MmuFault> {
        let page = self.pages.values().find(|page| page.has(frame));
        if let Some(page) = page {
            let addr = page.start + ((frame - page.frame) << PAGE_BITS);
            return Some(MmuFault::FreedWhileCached { cpu, frame, addr });
        }
        let mut tables = self.tables.iter();
        let ((_, addr), _) = tables.find(|(_, (table, _))| *table == frame)?;
        Some(MmuFault::FreedTableWhileCached { cpu, frame, addr: *addr })
    }
}
