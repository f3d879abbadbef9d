//! The beacon: a page by which a reader in another process, or of a core dump, finds the spaces of
//! this one.
//!
//! ```text
//!   beacon (one page, read-only, of no file)        slots (static)
//!   ┌───────────────────────────────┐          ┌───────┬─────────┐
//!   │ magic, version, its address   │   ┌─────►│ state │ outline │  of a space
//!   │ slots ────────────────────────┼───┘      ├───────┼─────────┤
//!   │ records of frees ─────────────┼───┐      │   0   │    –    │  empty
//!   └───────────────────────────────┘   │      └───────┴─────────┘
//!                                       └─► the ring of `trap_report`
//! ```
//!
//! Read-only private pages of no file are rare, so a reader looks at the first words of each of
//! those. It needs no symbols and no names of mappings: stripped programs, libraries opened late
//! and core dumps are all read in one way. The page is in core dumps, whatever the span is
//! ([`LinuxOptions::dump`](crate::LinuxOptions::dump)).
//!
//! [`share`](crate::share) enters an [`Outline`] of the space, and the end of its platform takes it
//! out. That costs a mapping for the process and 700 bytes for each space; no other call knows of
//! it. Nothing waits for a lock here, so a fork may come at any moment. A slot that another thread
//! was writing then is lost to the child. Spaces beyond the first 64 are not found.

use crate::os::madvise::Advice;
use crate::os::reservation::{Access, Mapping};
use crate::platform::Linux;
use crate::trap_report;
use std::any::Any;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use vmalloc::Outline;
use vmalloc::Space;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The content of the page. All are addresses in its process, places in records or sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[non_exhaustive]
pub struct Beacon {
    /// [`Beacon::MAGIC`].
    pub magic: [u8; 16],
    /// [`Beacon::VERSION`] of the program that made it.
    pub version: u64,
    /// The address of the page. A copy of it lies elsewhere.
    pub own: u64,
    /// The first slot, how many there are, the bytes of one, and the place of the outline in it.
    /// The state of a slot is its first word: 0 where it is empty, 1 while it is written.
    pub slots: [u64; 4],
    /// The records of frees ([`trap_report`]).
    pub records: RecordPlaces,
}

impl Beacon {
    /// The first bytes of the page.
    pub const MAGIC: [u8; 16] = *b"vmalloc\0beacon\0\n";
    /// The version of the layouts that this one has, of records of frees too.
    pub const VERSION: u64 = 1;
}

/// Where the records of frees lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[non_exhaustive]
pub struct RecordPlaces {
    /// The first record, how many there are, and the bytes of one.
    pub ring: [u64; 3],
    /// The word that counts how many were written so far.
    pub written: u64,
    /// Places in a record: version, address, bytes, thread, time in milliseconds, tag, frames.
    pub places: [u64; 7],
    /// Words of a tag, and of frames.
    pub words: [u64; 2],
}

/// The most spaces that are found.
const SLOTS: usize = 64;
/// Words of an outline.
const WORDS: usize = size_of::<Outline>() / 8;

/// The state of a slot that is being written. Larger ones are those of outlines.
const WRITING: u64 = 1;

/// A place for the outline of a space. Readers find the state first.
#[repr(C)]
struct BeaconSlot {
    state: AtomicU64,
    words: [AtomicU64; WORDS],
}

static ALL: [BeaconSlot; SLOTS] =
    [const { BeaconSlot { state: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] } }; SLOTS];

/// The address of the page; 0 = there is none yet.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// The slot of a space, which is empty again when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// 1 + the number of the slot; 0 = none.
    slot: AtomicUsize,
}

impl Entry {
    /// Enters `outline`, if there is a slot left, and makes the page if there is none yet.
    fn publish(&self, outline: &Outline) {
        // Relaxed, here and below: the owner of the space alone changes it.
        let own = self.slot.load(Ordering::Relaxed).checked_sub(1);
        let Some(nth) = own.or_else(|| ALL.iter().position(BeaconSlot::claim)) else { return };
        self.slot.store(nth + 1, Ordering::Relaxed);
        ALL[nth].write(outline);
        make_page();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(nth) = self.slot.get_mut().checked_sub(1) {
            // Release: pairs with the Acquire of the next claim.
            ALL[nth].state.store(0, Ordering::Release);
        }
    }
}

impl BeaconSlot {
    fn claim(&self) -> bool {
        // Acquire: pairs with the Release of the entry that was there before.
        self.state.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn write(&self, outline: &Outline) {
        self.state.store(WRITING, Ordering::Relaxed);
        // Release: a reader that sees a new word sees the state, too.
        fence(Ordering::Release);
        let words: [u64; WORDS] = zerocopy::transmute!(*outline);
        self.words.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        // Release: a reader that sees the state sees all words. The address of its bitmaps tells
        // this outline from another in this slot.
        self.state.store(outline.bitmaps[0].max(WRITING + 1), Ordering::Release);
    }
}

/// Enters `space` if it is one on a whole reservation, whose end takes it out again.
pub(crate) fn publish<T: Any>(space: &T) {
    if let Some(space) = (space as &dyn Any).downcast_ref::<Space<Linux>>() {
        space.platform().beacon.publish(&space.outline());
    }
}

/// Makes the page, unless there is one. Without memory for it no reader finds this process.
fn make_page() {
    if PAGE.load(Ordering::Relaxed) != 0 {
        return;
    }
    let Ok(mapping) = Mapping::new(crate::page_bytes(), Access::ReadWrite) else { return };
    let _ = mapping.advise_whole(Advice::DoDump);
    let own = mapping.base().as_ptr().addr();
    let beacon = Beacon {
        magic: Beacon::MAGIC,
        version: Beacon::VERSION,
        own: own as u64,
        slots: [ALL.as_ptr().addr(), SLOTS, size_of::<BeaconSlot>(), offset_of!(BeaconSlot, words)]
            .map(|word| word as u64),
        records: trap_report::record_places(),
    };
    // SAFETY: a page of this call's own, readable and writable, aligned, and larger than a beacon.
    unsafe { mapping.base().cast::<Beacon>().write(beacon) };
    // Relaxed: the page is for other processes. Of two threads that make one, the second frees its
    // page again.
    if mapping.seal().is_ok() && PAGE.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        // It stays for as long as the program.
        std::mem::forget(mapping);
    }
}

// A beacon fits in the smallest page of any machine: a bound, and no page size.
const _: () = assert!(size_of::<Beacon>() <= 4096);
