//! A set with a page table that writes down every call, as published and as a drop-in.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;

use ax_memory_addr::{AddrRange, VirtAddr};

/// The page table of a test, which writes down every call of a backend and can refuse one.
#[derive(Default)]
pub struct Table {
    base: usize,
    /// Addresses that one cell stands for.
    cell: usize,
    pub cells: Vec<u8>,
    pub calls: RefCell<Vec<String>>,
    /// Counts down to the call that is refused.
    pub until_refusal: Cell<usize>,
}

impl Table {
    /// Writes a call down, and returns whether it is agreed to.
    fn agree(&self, call: String) -> bool {
        let left = self.until_refusal.get();
        self.until_refusal.set(left.saturating_sub(1));
        self.calls.borrow_mut().push(format!("{call}, {}", left != 1));
        left != 1
    }

    /// Fills addresses; half of them only, where the call is refused.
    fn fill(&mut self, start: usize, size: usize, flags: u8, call: String) -> bool {
        let is_agreed = self.agree(call);
        let (first, count) = ((start - self.base) / self.cell, size / self.cell);
        let count = if is_agreed { count } else { count / 2 };
        self.cells[first..first + count].fill(flags);
        is_agreed
    }
}

/// A request to a set: its name, an address, a size, flags, and one word more.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub name: &'static str,
    pub start: usize,
    pub size: usize,
    pub flags: u8,
    pub word: usize,
}

/// An area as a test sees it: start, size, the three flags, and the number and offset of its backend.
pub type Seen = (usize, usize, [u8; 3], usize, usize);

/// A set with its page table, as published or as a drop-in.
pub trait Played {
    fn new(base: usize, cell: usize, cells: usize) -> Self;
    fn table(&self) -> &Table;
    fn areas(&self) -> Vec<Seen>;
    fn find_free(&self, hint: usize, size: usize, limit: (usize, usize), align: usize) -> Option<usize>;
    /// Plays a request, and returns the answer as text.
    fn play(&mut self, request: Request) -> String;
    fn debug(&self) -> String;
}

fn text(answer: impl Debug) -> String {
    format!("{answer:?}")
}

macro_rules! played {
    ($module:ident, $crate_:ident) => {
        pub mod $module {
            use super::*;
            use $crate_::{MappingBackend, MemoryArea, MemorySet};

            #[derive(Clone, Debug)]
            struct Backend {
                number: usize,
                /// How far the start is from where the backend was made.
                offset: usize,
            }

            impl MappingBackend for Backend {
                type Addr = VirtAddr;
                type Flags = u8;
                type MutationContext = usize;
                type PageTable = Table;

                fn map(
                    &self,
                    start: VirtAddr,
                    size: usize,
                    flags: u8,
                    calls: &mut usize,
                    table: &mut Table,
                ) -> bool {
                    *calls += 1;
                    table.fill(start.into(), size, flags, text(("map", self, start, size, flags)))
                }

                fn validate_map(&self, start: VirtAddr, size: usize, flags: u8, table: &Table) -> bool {
                    table.agree(text(("validate_map", self, start, size, flags)))
                }

                fn unmap(&self, start: VirtAddr, size: usize, calls: &mut usize, table: &mut Table) -> bool {
                    *calls += 1;
                    table.fill(start.into(), size, 0, text(("unmap", self, start, size)))
                }

                fn validate_unmap(&self, start: VirtAddr, size: usize, table: &Table) -> bool {
                    table.agree(text(("validate_unmap", self, start, size)))
                }

                fn validate_protect(&self, start: VirtAddr, size: usize, flags: u8, table: &Table) -> bool {
                    table.agree(text(("validate_protect", self, start, size, flags)))
                }

                fn protect(
                    &self,
                    start: VirtAddr,
                    size: usize,
                    flags: u8,
                    calls: &mut usize,
                    table: &mut Table,
                ) -> bool {
                    *calls += 1;
                    table.fill(start.into(), size, flags, text(("protect", self, start, size, flags)))
                }

                // Some backends refuse to be split, and some to be shrunk on one side.
                fn split(&mut self, at: usize) -> Option<Self> {
                    let offset = self.offset + at;
                    (self.number % 8 != 1).then(|| Self { offset, ..self.clone() })
                }

                fn shrink_left(&mut self, size: usize) -> bool {
                    self.offset += size;
                    self.number % 8 != 2
                }

                fn shrink_right(&mut self, _: usize) -> bool {
                    self.number % 8 != 3
                }
            }

            pub struct Set {
                set: MemorySet<Backend>,
                /// A copy of some time before.
                before: MemorySet<Backend>,
                table: Table,
                calls: usize,
            }

            impl Played for Set {
                fn new(base: usize, cell: usize, cells: usize) -> Self {
                    let table = Table { base, cell, cells: vec![0; cells], ..Table::default() };
                    Self { set: MemorySet::new(), before: MemorySet::default(), table, calls: 0 }
                }

                fn table(&self) -> &Table {
                    &self.table
                }

                fn areas(&self) -> Vec<Seen> {
                    assert_eq!(
                        (self.set.len(), self.set.is_empty()),
                        (self.set.iter().count(), self.set.iter().next().is_none())
                    );
                    let seen = |area: &MemoryArea<Backend>| {
                        let flags = [area.flags(), area.reported_flags(), area.max_flags()];
                        (
                            area.start().into(),
                            area.size(),
                            flags,
                            area.backend().number,
                            area.backend().offset,
                        )
                    };
                    self.set.iter().map(seen).collect()
                }

                fn find_free(
                    &self,
                    hint: usize,
                    size: usize,
                    limit: (usize, usize),
                    align: usize,
                ) -> Option<usize> {
                    let limit = AddrRange { start: limit.0.into(), end: limit.1.into() };
                    self.set.find_free_area(hint.into(), size, limit, align).map(usize::from)
                }

                fn play(&mut self, request: Request) -> String {
                    let Request { name, start, size, flags, word } = request;
                    let (start, set) = (VirtAddr::from(start), &mut self.set);
                    let (calls, table) = (&mut self.calls, &mut self.table);
                    let backend = Backend { number: word, offset: 0 };
                    let area = MemoryArea::try_new_with_permissions(
                        start,
                        size,
                        flags,
                        flags ^ 64,
                        127,
                        backend.clone(),
                    );
                    let update = |flags: u8| (flags % 4 != 3).then_some(flags.wrapping_add(1) | 1);
                    match name {
                        "map" => text(area.and_then(|area| set.map(area, calls, table, word % 2 == 0))),
                        "unmap" => text(set.unmap(start, size, calls, table)),
                        "unmap_exact" => text(set.unmap_exact(start, size, calls, table)),
                        "unmap_metadata" => text(set.unmap_metadata(start, size)),
                        "validate_unmap" => text(set.validate_unmap(start, size, table)),
                        "protect" => text(set.protect(start, size, update, calls, table)),
                        "protect_with_reported_flags" => {
                            let update =
                                |old: u8, reported: u8| update(old).map(|new| (new, reported ^ flags));
                            text(set.protect_with_reported_flags(start, size, update, calls, table))
                        }
                        "extend_area" => text(set.extend_area(start, size, calls, table)),
                        "rollback_extend_area" => text(set.rollback_extend_area(start, size, calls, table)),
                        "insert_prepared_area" => text(area.and_then(|area| set.insert_prepared_area(area))),
                        "replace_area_metadata" => text(area.and_then(|area| {
                            let is_valid = set.validate_area_metadata_replacement(&area).is_ok();
                            let replaced = set.replace_area_metadata(area);
                            assert!(is_valid || replaced.is_err());
                            replaced
                        })),
                        "replace_exact_backend" => text(set.replace_exact_backend(start, size, backend)),
                        "clear" => text(set.clear(calls, table)),
                        "remember" => text(self.before = set.clone()),
                        "restore" => text(set.restore_metadata_preimage(self.before.clone())),
                        "find" => text(set.find(start)),
                        "overlaps" => {
                            text(AddrRange::try_from_start_size(start, size).map(|range| set.overlaps(range)))
                        }
                        _ => unreachable!("{name}"),
                    }
                }

                fn debug(&self) -> String {
                    text((&self.set, self.calls))
                }
            }
        }
    };
}

played!(ours, ax_memory_set);
played!(theirs, ax_memory_set_original);
