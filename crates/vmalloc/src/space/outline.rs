//! The outline of a space: where its records lie and how they are laid out, for a reader in another
//! process, or of a core dump.
//!
//! ```text
//!   outline ─┬─► bitmaps: leaf ─► leaf ─► …      segments and their states, in address order
//!            ├─► tables of annotations           tags, kinds, other guards, cookies
//!            ├─► nodes ─► stacks, lists          which areas are cached, pooled, lazy
//!            ├─► large areas, the purge          the others that are retired
//!            └─► specimens                       a list and a table with known content
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
use crate::areas::{Annotation, Kind, Table};
use crate::platform::Platform;
use crate::purge::{Purger, Refused};
use crate::wait::{Lazy, MAX_PAGES, Node, SizeStacks, Stock, places};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::ptr::from_ref;
use vmalloc_map::parts::{Bitmaps, Leaf, Once};
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
    /// Places in a node: cached, pooled, and the list of lazy areas.
    pub node: [u64; 3],
    /// The place of the list of stacks; in a stack, of the starts and their count; its size.
    pub stacks: [u64; 4],
    /// Stacks in a list, at most.
    pub sizes: u64,
    /// Large areas: the list, the place of an area in an entry, the size of an entry.
    pub large: [u64; 3],
    /// The purge: the list of what each node gave and of one more set, its size of an entry, the
    /// place of the list in an entry, and the list of refused areas.
    pub purge: [u64; 4],
    /// The word with the address of the last area freed by `free_atomic`, which has in its first
    /// word that of the one before.
    pub deferred: u64,
    /// Counts: purges, areas purged, areas in the purge, frees that did not trap at once.
    pub counts: [u64; 4],
    /// Specimens: of a list, its first element, how many, and how many it has room for.
    pub list: [u64; 4],
    /// Of a table of annotations: the table, how many entries, their first key and the entry of
    /// that key.
    pub table: [u64; 4],
    /// Bytes of a list and of a table.
    pub containers: [u64; 2],
    /// An entry: its size, the places of the key, kind, guard pages and cookie, of whether there is
    /// a tag, and of the length and the bytes of that.
    pub entry: [u64; 8],
}

impl Outline {
    /// The version of the layouts that this one has. A reader reads outlines of its own version.
    pub const VERSION: u64 = 8;
    /// How many entries the specimen has: other numbers than its room or the room that is left.
    pub const SPECIMEN_ENTRIES: u64 = 5;
    /// Its keys follow each other from this one.
    pub const SPECIMEN_KEY: u64 = 0x7370_6563_0000;
}

/// A list and a table with known content.
struct Specimens {
    list: Vec<u64>,
    table: Table,
}

static SPECIMENS: Once<Specimens> = Once::new();

impl Specimens {
    /// Returns the specimens of the program; `None` when memory is short.
    fn get() -> Option<&'static Self> {
        SPECIMENS.get_or_try_init(|| Self::new().ok_or(())).ok()
    }

    fn new() -> Option<Box<Self>> {
        let (mut list, mut table) = (Vec::new(), Table::default());
        list.try_reserve_exact(11).ok()?;
        list.extend(0..3);
        let annotation = Annotation::new(Kind::Vmalloc, 0, None);
        let mut keys = (0..Outline::SPECIMEN_ENTRIES).map(|nth| Outline::SPECIMEN_KEY + nth);
        if !keys.all(|key| table.enter(key, &annotation)) {
            return None;
        }
        vmalloc_map::parts::try_box(Self { list, table }).ok()
    }

    /// Returns the facts of the list.
    fn list(&self) -> [u64; 4] {
        let list = &self.list;
        [from_ref(list).addr(), list.as_ptr().addr(), list.len(), list.capacity()].map(|word| word as u64)
    }

    /// Returns the facts of the entries of the table.
    fn entries(&self) -> Option<[u64; 4]> {
        let entry = self.table.place(Outline::SPECIMEN_KEY)?;
        Some([
            from_ref(&self.table).addr() as u64,
            Outline::SPECIMEN_ENTRIES,
            Outline::SPECIMEN_KEY,
            entry as u64,
        ])
    }
}

impl Outline {
    /// Returns where the records of `space` lie: see [`Space::outline`].
    pub(super) fn of<P: Platform>(space: &Space<P>) -> Self {
        let words = |all: [usize; 4]| all.map(|word| word as u64);
        let specimens = Specimens::get();
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
            purge: words([
                purger + offset_of!(Purger, taken),
                size_of::<Lazy>(),
                offset_of!(Lazy, areas),
                purger + offset_of!(Purger, refused) + Refused::AREAS,
            ]),
            deferred: space.deferred.last_word() as u64,
            counts: counts.map(|count| count.addr() as u64),
            list: specimens.map(Specimens::list).unwrap_or_default(),
            table: specimens.and_then(Specimens::entries).unwrap_or_default(),
            containers: [size_of::<Vec<u64>>() as u64, size_of::<Table>() as u64],
            entry: Table::FIELDS.map(|word| word as u64),
        }
    }
}

/// The places of what waits in a node.
const NODE: [usize; 3] =
    [offset_of!(Node, cached), offset_of!(Node, pooled), offset_of!(Node, lazy) + offset_of!(Lazy, areas)];
