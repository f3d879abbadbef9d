//! The outline of a space: where its records lie and how they are laid out, for a reader in another
//! process, or of a core dump.
//!
//! ```text
//!   outline ─┬─► bitmaps: leaf ─► leaf ─► …      segments and their states, in address order
//!            ├─► notes                           records, kinds, other guards: by the page
//!            ├─► tables of annotations           what has a tag
//!            ├─► nodes ─► stacks, lists          which areas are cached, pooled, lazy
//!            ├─► large areas, the purge          the others that are retired
//!            └─► specimen                        a list with known content
//! ```
//!
//! It is made once, of numbers alone, and nothing on any path of the space knows of it. Places in
//! our own records are told by `offset_of`. Those in lists and tables of other crates are private
//! there. So the outline leads to one of each whose content it tells, and the reader finds the
//! places by looking for that. Where it does not find them it goes without.
//!
//! The words of records change while they are read. A reader checks the version of the bitmaps, as
//! the space itself does where it reads without a lock.

use super::Space;
use crate::PageRange;
use crate::areas::Table;
use crate::platform::Platform;
use crate::purge::{Purger, Refused};
use crate::wait::{Lazy, MAX_PAGES, Node, SizeStacks, Stock, places};
use alloc::vec::Vec;
use core::mem::offset_of;
use core::ptr::from_ref;
use vmalloc_map::parts::{Bitmaps, Leaf, Once, OutOfMemory, try_box};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where the records of a space lie, and how they are laid out. All are addresses in the process of
/// the space, places in records (`…_place`), or sizes in bytes, unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Outline {
    /// [`Outline::VERSION`] of the program that made it.
    pub version: u64,
    pub page_shift: u64,
    /// Guard pages of an area without an annotation.
    pub guard_pages: u64,
    /// The first page of the span, and of the first leaf.
    pub first_pages: [u64; 2],
    /// The end of the span, the version of the bitmaps, the pointer to the array of sparse leaves,
    /// the array of dense ones, and the dense leaves in one piece with their number.
    pub bitmaps: [u64; 6],
    /// Places of tables in an array of leaves: of the far one, of the near one; leaves in a row,
    /// rows in the near table and in the far one; the place of a list of tables like the far one,
    /// as many as that has rows.
    pub rows: [u64; 6],
    /// Places in a leaf: starts, used, busy, tag, the link to the next; its size.
    pub leaf: [u64; 6],
    /// Places in a range of pages: start, end; its size.
    pub range: [u64; 3],
    /// Records behind locks: the first, how many, bytes from each to the next, the place in each.
    pub nodes: [u64; 4],
    pub tables: [u64; 4],
    /// Places in a node: cached, pooled, the list of lazy areas, and the list of full ones.
    pub node: [u64; 4],
    /// The place of the list of stacks; in a stack, of the starts and their count; its size.
    pub stacks: [u64; 4],
    /// Stacks in a list, at most.
    pub sizes: u64,
    /// Large areas: the list, the place of an area in an entry, the size of an entry.
    pub large: [u64; 3],
    /// The purge: the list of what each node gave and of one more set, its size of an entry, the
    /// places of the list in an entry and of that of full ones, and the list of refused areas.
    pub purge: [u64; 5],
    /// The word with the address of the last area freed by `free_atomic`, which has in its first
    /// word that of the one before.
    pub deferred: u64,
    /// Counts: purges, areas purged, areas in the purge, frees that did not trap at once.
    pub counts: [u64; 4],
    /// The specimen of a list, its first element, how many, and how many it has room for.
    pub list: [u64; 4],
    /// The place of the first link in a table. An entry: its size, the places of the page, kind,
    /// guard pages and record, of whether there is a tag, of the length and the bytes of that, and
    /// of the links to four more.
    pub root: u64,
    pub entry: [u64; 9],
    /// The pointer to the array of notes, and as in `rows` the places in it. A note has two words:
    /// the record, and facts, where bit 1 is set if the kind is in byte 1 and the guard pages are
    /// above it.
    pub notes: u64,
    pub note_rows: [u64; 6],
}

impl Outline {
    /// The version of the layouts that this one has. A reader reads outlines of its own version.
    pub const VERSION: u64 = 10;
}

/// A list with known content.
static SPECIMEN: Once<Vec<u64>> = Once::none();

/// Returns the facts of the specimen of the program; `None` when memory is short.
fn specimen() -> Option<[u64; 4]> {
    let make = || {
        let mut list = Vec::new();
        list.try_reserve_exact(11).map_err(|_| OutOfMemory)?;
        list.extend(0..3);
        try_box(|| list)
    };
    let list = SPECIMEN.get_or_try_init(make).ok()?;
    let words = [from_ref(list).addr(), list.as_ptr().addr(), list.len(), list.capacity()];
    Some(words.map(|word| word as u64))
}

impl Outline {
    /// Returns where the records of `space` lie: see [`Space::outline`].
    pub(super) fn of<P: Platform>(space: &Space<P>) -> Self {
        let words = |all: [usize; 4]| all.map(|word| word as u64);
        let bitmaps = &space.areas.bitmaps;
        let counts = &space.counts;
        let counts =
            [&counts.purges, &counts.purged_areas, &counts.taken_areas, &counts.late_frees].map(from_ref);
        let [areas, area, size] = Stock::FIELDS;
        let purger = space.purger.data_ptr().addr();
        Self {
            version: Self::VERSION,
            page_shift: space.shift().into(),
            guard_pages: space.guard_pages,
            first_pages: bitmaps.first_pages(),
            bitmaps: bitmaps.places().map(|word| word as u64),
            rows: Bitmaps::ROW_ARRAY.map(|word| word as u64),
            leaf: Leaf::FIELDS.map(|word| word as u64),
            range: PageRange::FIELDS.map(|word| word as u64),
            nodes: words(places(&space.cache.nodes)),
            tables: words(space.areas.table_places()),
            node: NODE.map(|word| word as u64),
            stacks: words(SizeStacks::FIELDS),
            sizes: MAX_PAGES,
            large: [space.cache.stock.data_ptr().addr() + areas, area, size].map(|word| word as u64),
            purge: [
                purger + offset_of!(Purger, taken),
                size_of::<Lazy>(),
                offset_of!(Lazy, areas),
                offset_of!(Lazy, full),
                purger + offset_of!(Purger, refused) + Refused::AREAS,
            ]
            .map(|word| word as u64),
            deferred: space.deferred.last_word() as u64,
            counts: counts.map(|count| count.addr() as u64),
            list: specimen().unwrap_or_default(),
            root: Table::ROOT as u64,
            notes: bitmaps.notes_place() as u64,
            note_rows: Bitmaps::NOTES.map(|word| word as u64),
            entry: Table::FIELDS.map(|word| word as u64),
        }
    }
}

/// The places of what waits in a node.
const NODE: [usize; 4] = [
    offset_of!(Node, cached),
    offset_of!(Node, pooled),
    offset_of!(Node, lazy) + offset_of!(Lazy, areas),
    offset_of!(Node, lazy) + offset_of!(Lazy, full),
];
