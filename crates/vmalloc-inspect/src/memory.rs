//! Memory of another process: read once a page, and never more than a bound.

use crate::error::InspectError;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

/// A part of an address space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct KernelMapping {
    /// Its first address.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// Its rights, as `/proc/PID/maps` shows them.
    pub rights: String,
    /// The file or name, if one is known.
    pub name: Option<String>,
    /// True if a file is known to be behind it.
    pub(crate) is_file: bool,
}

/// How many pages of a range have memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Residency {
    /// Pages in memory; of a core dump, pages whose content is in the file.
    pub resident: u64,
    /// Pages in swap.
    pub swapped: u64,
    /// Pages closed by a guard mark: a touch of them traps. Of a core dump not known.
    pub closed: u64,
    /// Pages looked at: of a large range, the first million.
    pub pages: u64,
}

/// The most pages whose memory is looked up for one range.
pub(crate) const MOST_PAGES: u64 = 1 << 20;

/// The memory of a process or of a core dump.
pub trait Source {
    /// Reads bytes from `addr` on and returns how many could be read: none where nothing is mapped.
    ///
    /// # Errors
    /// When the whole source is gone.
    fn read_at(&self, addr: u64, buffer: &mut [u8]) -> Result<usize, InspectError>;

    /// Returns the mappings, by address.
    ///
    /// # Errors
    /// When the whole source is gone.
    fn mappings(&self) -> Result<Vec<KernelMapping>, InspectError>;

    /// Returns how much of a range of addresses has memory behind it, if that is known.
    fn residency(&self, addrs: Range<u64>, page_bytes: u64) -> Option<Residency>;

    /// Returns the milliseconds of the clock by which frees are recorded, if it still runs.
    fn clock(&self) -> Option<u64>;

    /// Returns the error to tell where nothing is found in a source that is not whole.
    fn cut(&self) -> Option<InspectError> {
        None
    }
}

/// Bytes that are read and remembered together: no page size, for no machine has smaller pages.
const PAGE: usize = 4096;
/// Pages that are asked for at once.
const AHEAD: usize = 4;
/// The most bytes that one look reads: the records of a span of terabytes in small areas.
pub(crate) const LIMIT: u64 = 4 << 30;

/// The most pages that are remembered: 256 MiB. Beyond it all are forgotten, and read again when
/// they are asked for. A process shows one page at as many addresses as it likes.
const MOST_KEPT: usize = 1 << 16;

/// A page that was read; `None` where nothing can be.
type Page = Option<Box<[u8]>>;

/// Bytes that are handed out for each byte that is read, and those handed out besides.
///
/// Of a real space each record is read once, and five words at most lead to it: a leaf of 128 bytes
/// is 448 handed out. So every space within [`LIMIT`] is read: one of 10 million areas, each in a
/// leaf of its own, reads 1.3 GB and hands out 4.5 GB, of 10 GB that it may. (Small ones side by
/// side with tags, half of them freed again, read 1.1 GB and hand out 0.4 GB.) Records that lie one
/// upon another are handed out again and again without new reads. Those end here, after four
/// million words at most that no read pays for: the work is linear in the memory that is there.
const MOST_TIMES: u64 = 8;
const FREE_OF_CHARGE: u64 = 256 << 20;
/// Each part that is handed out costs as much as so many bytes.
const LEAST: u64 = 64;

/// The bytes that one look has read so far.
pub(crate) struct Memory<'s> {
    source: &'s dyn Source,
    pages: RefCell<HashMap<u64, Page>>,
    read: Cell<u64>,
    handed_out: Cell<u64>,
}

impl<'s> Memory<'s> {
    /// Returns a look at `source` that has read nothing yet.
    pub(crate) fn new(source: &'s dyn Source) -> Self {
        Self { source, pages: RefCell::default(), read: Cell::new(0), handed_out: Cell::new(0) }
    }

    /// Returns `len` bytes from `addr` on.
    pub(crate) fn bytes(&self, addr: u64, len: u64) -> Result<Vec<u8>, InspectError> {
        let end = addr.checked_add(len).ok_or(InspectError::Unreadable { addr })?;
        let (read, handed_out) = (self.read.get(), self.handed_out.get());
        if read.saturating_add(len) > LIMIT || handed_out > FREE_OF_CHARGE + MOST_TIMES * read {
            return Err(InspectError::TooLarge { limit: LIMIT });
        }
        self.handed_out.set(handed_out + len.max(LEAST));
        let (mut bytes, mut at) = (Vec::new(), addr);
        while at < end {
            let (number, from) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let to = PAGE.min(from + (end - at) as usize);
            self.load(number)?;
            let pages = self.pages.borrow();
            let page = pages.get(&number).and_then(Option::as_ref);
            let part =
                page.and_then(|page| page.get(from..to)).ok_or(InspectError::Unreadable { addr: at })?;
            bytes.extend_from_slice(part);
            at += (to - from) as u64;
        }
        Ok(bytes)
    }

    /// Reads page `number` and those behind it that were not read before.
    fn load(&self, number: u64) -> Result<(), InspectError> {
        let is_new = |page: &u64| !self.pages.borrow().contains_key(page);
        let count = (number..).take(AHEAD).take_while(is_new).count();
        if count == 0 {
            return Ok(());
        }
        let mut buffer = vec![0; PAGE * count];
        let addr = number.saturating_mul(PAGE as u64);
        let read = self.source.read_at(addr, &mut buffer)?.min(buffer.len());
        self.read.set(self.read.get() + read as u64);
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= MOST_KEPT {
            pages.clear();
        }
        for (page, number) in buffer[..read].chunks_exact(PAGE).zip(number..) {
            pages.entry(number).or_insert_with(|| Some(page.into()));
        }
        pages.entry(number).or_insert(None);
        Ok(())
    }

    /// Returns the words from `addr` on.
    pub(crate) fn words<const N: usize>(&self, addr: u64) -> Result<[u64; N], InspectError> {
        let bytes = self.bytes(addr, 8 * N as u64)?;
        Ok(std::array::from_fn(|nth| word(&bytes, 8 * nth as u64)))
    }

    /// Returns the word at `addr`.
    pub(crate) fn word(&self, addr: u64) -> Result<u64, InspectError> {
        self.words::<1>(addr).map(|[word]| word)
    }

    /// Returns the word at `addr` as it is now, whatever was read before.
    pub(crate) fn word_now(&self, addr: u64) -> Result<u64, InspectError> {
        let mut bytes = [0; 8];
        match self.source.read_at(addr, &mut bytes)? {
            8 => Ok(u64::from_le_bytes(bytes)),
            _ => Err(InspectError::Unreadable { addr }),
        }
    }
}

/// Returns the address `place` bytes behind `base`.
pub(crate) fn at(base: u64, place: u64) -> Result<u64, InspectError> {
    base.checked_add(place).ok_or(InspectError::Unreadable { addr: base })
}

/// Returns the address of record `nth` of those from `base` on.
pub(crate) fn nth(base: u64, nth: u64, size: u64) -> Result<u64, InspectError> {
    nth.checked_mul(size)
        .and_then(|bytes| base.checked_add(bytes))
        .ok_or(InspectError::Unreadable { addr: base })
}

/// Returns as many bytes at `place` of `bytes`, or zeros where there are fewer.
fn part<const N: usize>(bytes: &[u8], place: u64) -> [u8; N] {
    let rest = usize::try_from(place).ok().and_then(|from| bytes.get(from..));
    rest.and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Returns the word at `place` of `bytes`, or 0 where there is none.
pub(crate) fn word(bytes: &[u8], place: u64) -> u64 {
    u64::from_le_bytes(part(bytes, place))
}

/// Returns the half word at `place` of `bytes`, or 0 where there is none.
pub(crate) fn half(bytes: &[u8], place: u64) -> u32 {
    u32::from_le_bytes(part(bytes, place))
}

/// Returns the byte at `place` of `bytes`, or 0 where there is none.
pub(crate) fn byte(bytes: &[u8], place: u64) -> u8 {
    u8::from_le_bytes(part(bytes, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that is all zeros.
    struct Zeros;

    impl Source for Zeros {
        fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<usize, InspectError> {
            Ok(buffer.len())
        }

        fn mappings(&self) -> Result<Vec<KernelMapping>, InspectError> {
            Ok(Vec::new())
        }

        fn residency(&self, _: Range<u64>, _: u64) -> Option<Residency> {
            None
        }

        fn clock(&self) -> Option<u64> {
            None
        }
    }

    /// The entries of a table are read backwards.
    #[test]
    fn pages_are_read_once_backwards_too() {
        let memory = Memory::new(&Zeros);
        for page in (0..64).rev() {
            assert_eq!(memory.word(page * PAGE as u64), Ok(0));
        }
        assert_eq!(memory.read.get(), (64 + AHEAD as u64 - 1) * PAGE as u64);
    }

    #[test]
    fn no_more_than_a_bound_is_remembered_of_pages_that_differ_in_their_addresses_alone() {
        let memory = Memory::new(&Zeros);
        for page in 0..3 * MOST_KEPT as u64 {
            assert_eq!(memory.word(page * PAGE as u64), Ok(0));
            assert!(memory.pages.borrow().len() <= MOST_KEPT + AHEAD);
        }
    }
}
