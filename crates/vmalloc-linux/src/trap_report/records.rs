//! The last areas that were freed: a ring that a signal handler may read at any moment.
//!
//! Each record is words behind a version, which is odd while a thread writes. A reader that sees an
//! odd or changed version takes the record for another one. A writer that meets another, after a
//! turn around the whole ring, leaves its record out.

use crate::beacon::RecordPlaces;
use rustix::thread::gettid;
use std::cell::Cell;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use vmalloc::Tag;

/// How many areas are remembered. Each takes 144 bytes, which are there once they are used.
pub(super) const RECORDS: usize = 2048;

/// The most addresses of a backtrace that are remembered.
pub const FRAMES: usize = 8;

/// Words of a tag: its length and 31 bytes.
const TAG_WORDS: usize = 4;

/// An area that was freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Freed {
    /// Its first address.
    pub addr: usize,
    /// Its bytes, without the guard page.
    pub bytes: usize,
    /// Its tag.
    pub tag: Option<Tag>,
    /// The number of the thread that freed it (gettid(2)).
    pub thread: u32,
    /// The milliseconds since then, to within a few.
    pub milliseconds: u64,
    /// Return addresses of the calls that led to the free, innermost first, and zeros: with the
    /// feature `trap-backtrace`.
    pub frames: [usize; FRAMES],
}

struct Record {
    version: AtomicU64,
    addr: AtomicU64,
    bytes: AtomicU64,
    thread: AtomicU64,
    time: AtomicU64,
    tag: [AtomicU64; TAG_WORDS],
    frames: [AtomicU64; FRAMES],
}

#[allow(clippy::declare_interior_mutable_const)]
const EMPTY: Record = Record {
    version: AtomicU64::new(0),
    addr: AtomicU64::new(0),
    bytes: AtomicU64::new(0),
    thread: AtomicU64::new(0),
    time: AtomicU64::new(0),
    tag: [const { AtomicU64::new(0) }; TAG_WORDS],
    frames: [const { AtomicU64::new(0) }; FRAMES],
};

static RING: [Record; RECORDS] = [EMPTY; RECORDS];

/// The number of records so far.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Returns where the records lie, for a reader in another process.
pub(super) fn places() -> RecordPlaces {
    let places = [
        offset_of!(Record, version),
        offset_of!(Record, addr),
        offset_of!(Record, bytes),
        offset_of!(Record, thread),
        offset_of!(Record, time),
        offset_of!(Record, tag),
        offset_of!(Record, frames),
    ];
    RecordPlaces {
        ring: [RING.as_ptr().addr(), RECORDS, size_of::<Record>()].map(|word| word as u64),
        written: std::ptr::from_ref(&WRITTEN).addr() as u64,
        places: places.map(|place| place as u64),
        words: [TAG_WORDS as u64, FRAMES as u64],
    }
}

/// Remembers that the calling thread frees `area`.
pub(super) fn note(area: Range<usize>, tag: Option<&str>) {
    // Relaxed: the version of a record orders its words.
    let nth = WRITTEN.fetch_add(1, Ordering::Relaxed);
    RING[nth as usize % RECORDS].write(area, tag);
}

/// Returns the newest record of an area with `addr` in it.
pub(super) fn find(addr: usize) -> Option<Freed> {
    let end = WRITTEN.load(Ordering::Relaxed);
    let newest_first = (end.saturating_sub(RECORDS as u64)..end).rev();
    newest_first.map(|nth| &RING[nth as usize % RECORDS]).find_map(|record| record.read(addr))
}

impl Record {
    fn write(&self, area: Range<usize>, tag: Option<&str>) {
        let version = self.version.load(Ordering::Relaxed);
        // Acquire: as of a lock. Pairs with the Release at the end of the record before.
        let begin = |even| {
            self.version.compare_exchange(even, even + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if version % 2 != 0 || !begin(version) {
            return;
        }
        // Release: a reader that sees one of the new words sees the odd version, too.
        fence(Ordering::Release);
        let set = |word: &AtomicU64, value: u64| word.store(value, Ordering::Relaxed);
        set(&self.addr, area.start as u64);
        set(&self.bytes, area.len() as u64);
        set(&self.thread, thread().into());
        set(&self.time, now());
        self.tag.iter().zip(words_of(tag)).for_each(|(word, value)| set(word, value));
        self.frames.iter().zip(frames()).for_each(|(word, value)| set(word, value as u64));
        // Release: pairs with the Acquire of a reader.
        self.version.store(version + 2, Ordering::Release);
    }

    /// Returns the record, if it is of an area with `addr` in it.
    fn read(&self, addr: usize) -> Option<Freed> {
        // Acquire: pairs with the Release at the end of a record.
        let version = self.version.load(Ordering::Acquire);
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (start, bytes) = (get(&self.addr) as usize, get(&self.bytes) as usize);
        let freed = Freed {
            addr: start,
            bytes,
            tag: tag_of(std::array::from_fn(|nth| get(&self.tag[nth]))),
            thread: get(&self.thread) as u32,
            milliseconds: now().saturating_sub(get(&self.time)),
            frames: std::array::from_fn(|nth| get(&self.frames[nth]) as usize),
        };
        // Acquire: pairs with the fence of a writer.
        fence(Ordering::Acquire);
        let is_whole = version % 2 == 0 && version == get(&self.version);
        (is_whole && addr.wrapping_sub(start) < bytes).then_some(freed)
    }
}

/// Returns a tag as words: its length, one more than it is, and its bytes.
fn words_of(tag: Option<&str>) -> [u64; TAG_WORDS] {
    let mut bytes = [0; 8 * TAG_WORDS];
    if let Some(tag) = tag.map(str::as_bytes) {
        let len = tag.len().min(bytes.len() - 1);
        bytes[0] = 1 + len as u8;
        bytes[1..=len].copy_from_slice(&tag[..len]);
    }
    let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

fn tag_of(words: [u64; TAG_WORDS]) -> Option<Tag> {
    let mut bytes = [0; 8 * TAG_WORDS];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    let len = usize::from(bytes[0]).checked_sub(1)?;
    // Words of two records are no tag, and are not used.
    std::str::from_utf8(bytes.get(1..=len)?).ok().map(Tag::new)
}

/// Returns the number of the calling thread. It asks the kernel once for each thread and process.
fn thread() -> u32 {
    thread_local!(static NUMBER: Cell<(u64, u32)> = const { Cell::new((0, 0)) });
    let generation = crate::fork::locks::generation() + 1;
    match NUMBER.get() {
        (known, number) if known == generation => number,
        _ => {
            let number = gettid().as_raw_nonzero().get().unsigned_abs();
            NUMBER.set((generation, number));
            number
        }
    }
}

/// Returns the milliseconds of a clock that only goes on, which is read without a system call.
///
/// Asks the C library: rustix looks for the clock by dlsym(3) at its first call, and a free may not
/// wait for the lock of the dynamic loader.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer. The clock is there since Linux 2.6.32; without it the time is 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns where the free was called.
#[cfg(feature = "trap-backtrace")]
fn frames() -> [usize; FRAMES] {
    let (mut frames, mut skip, mut count) = ([0; FRAMES], OWN_FRAMES, 0);
    let see = |frame: &backtrace::Frame| {
        if skip != 0 {
            skip -= 1;
            return true;
        }
        frames[count] = frame.ip() as usize;
        count += 1;
        count < FRAMES
    };
    // Without the lock of the crate, which a thread of the parent may hold at a fork.
    // SAFETY: the crate locks for platforms whose calls are not safe for threads (dbghelp on
    // Windows), and for symbols, of which none is looked up here. On Linux it calls
    // `_Unwind_Backtrace`, which many threads call at once, as they do when they panic.
    unsafe { backtrace::trace_unsynchronized(see) };
    frames
}

/// Frames of this file and of the crate `backtrace`, at least.
#[cfg(feature = "trap-backtrace")]
const OWN_FRAMES: usize = 2;

#[cfg(not(feature = "trap-backtrace"))]
fn frames() -> [usize; FRAMES] {
    [0; FRAMES]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_as_words() {
        for tag in [None, Some(""), Some("a"), Some("äö"), Some("0123456789012345678901234567890")] {
            assert_eq!(tag_of(words_of(tag)), tag.map(Tag::new));
        }
    }

    #[test]
    fn the_newest_record_of_an_address_is_found_and_old_ones_go() {
        // Beyond all areas of other tests.
        const FAR: usize = 1 << (usize::BITS - 4);
        let area = |nth: usize| FAR + (nth << 16)..FAR + (nth << 16) + 0x3000;
        (0..RECORDS + 10).for_each(|nth| note(area(nth), Some("ring")));
        assert_eq!(find(area(0).start), None);
        let last = find(area(RECORDS + 9).end - 1).unwrap();
        assert_eq!((last.addr, last.bytes), (area(RECORDS + 9).start, 0x3000));
        assert_eq!((last.tag, last.thread), (Some(Tag::new("ring")), thread()));
        note(area(RECORDS + 9), None);
        assert_eq!(find(area(RECORDS + 9).start).unwrap().tag, None);
        assert_eq!(find(area(RECORDS + 9).end), None, "the guard page");
    }
}
