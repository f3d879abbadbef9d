//! Memory: areas by address, buffers, and a vector.

use super::{Owner, made, request, sure};
use crate::dice::Dice;
use crate::world::{PAGE, Sp, World};
use std::ops::Range;
use vmalloc::{Buffer, FreeError, Request, Stale, Zeroed};
use vmalloc_malloc::SpaceAllocator;

/// The model of memory: the number that each page begins with, where it is known.
pub(crate) struct Pages {
    addr: usize,
    bytes: usize,
    held: Vec<Option<u64>>,
}

const WORD: usize = size_of::<u64>();

impl Pages {
    pub(crate) fn new(addr: usize, bytes: usize, is_zero: bool) -> Self {
        Self { addr, bytes, held: vec![is_zero.then_some(0); bytes.div_ceil(PAGE)] }
    }

    pub(crate) fn addr(&self) -> usize {
        self.addr
    }

    /// Returns where a page begins, and where its last whole word is.
    fn places(&self, page: usize) -> Option<[usize; 2]> {
        let start = self.addr + page * PAGE;
        let end = (self.addr + self.bytes).min(start + PAGE);
        (end - start >= WORD).then(|| [start, (end - WORD) / WORD * WORD])
    }

    pub(crate) fn write(&mut self, page: usize, value: u64) {
        let Some(places) = self.places(page) else { return };
        for place in places {
            // SAFETY: the memory is this owner's.
            unsafe { std::ptr::with_exposed_provenance_mut::<u64>(place).write(value) };
        }
        self.held[page] = Some(value);
    }

    /// Returns whether the number of a page is known.
    pub(crate) fn is_known(&self, page: usize) -> bool {
        self.held[page].is_some()
    }

    /// Forgets the numbers of these pages.
    pub(crate) fn forget(&mut self, pages: Range<usize>) {
        self.held[pages].fill(None);
    }

    /// Knows that these pages are zeros.
    pub(crate) fn set_zero(&mut self, pages: Range<usize>) {
        self.held[pages].fill(Some(0));
    }

    /// Returns how many pages there are.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Has so many bytes from now on; more of them hold anything.
    pub(crate) fn resize(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.held.resize(bytes.div_ceil(PAGE), None);
    }

    pub(crate) fn write_some(&mut self, dice: &mut Dice) {
        let pages = self.held.len();
        if pages == 0 {
            return;
        }
        if pages <= 600 && dice.one_in(3) {
            (0..pages).for_each(|page| self.write(page, dice.any()));
        }
        for _ in 0..4 {
            let page = dice.below(pages);
            self.write(page, dice.any());
        }
        self.write(pages - 1, dice.any());
    }

    pub(crate) fn check(&self) {
        for (page, held) in self.held.iter().enumerate() {
            held.iter().for_each(|held| self.check_page(page, *held));
        }
    }

    /// Checks the number of a page.
    pub(crate) fn check_page(&self, page: usize, held: u64) {
        for place in self.places(page).into_iter().flatten() {
            // SAFETY: the memory is this owner's.
            let found = unsafe { std::ptr::with_exposed_provenance::<u64>(place).read() };
            assert_eq!(found, held, "page {page} of {} bytes at {:#x}", self.bytes, self.addr);
        }
    }

    /// Checks that the bytes from `from` on are zeros.
    pub(crate) fn check_zeros(&self, from: usize) {
        let start = std::ptr::with_exposed_provenance::<u8>(self.addr);
        // SAFETY: the memory is this owner's.
        let all = unsafe { std::slice::from_raw_parts(start, self.bytes) };
        let stale = all[from..].iter().position(|byte| *byte != 0);
        assert_eq!(stale, None, "a byte behind {from} of {} at {:#x} is not zero", self.bytes, self.addr);
    }

    /// Goes on with the same content at another address, or of another size. Of a page that is cut,
    /// or was, the content is not known any more.
    pub(crate) fn moved(&mut self, addr: usize, bytes: usize) {
        let whole = self.bytes.min(bytes) / PAGE;
        let mut moved = Self::new(addr, bytes, false);
        moved.held[..whole].copy_from_slice(&self.held[..whole]);
        *self = moved;
        self.check();
    }
}

/// An area of [`Raw::alloc`](vmalloc::Raw::alloc).
struct Raw {
    space: Sp,
    pages: Pages,
    /// True if zeros were asked for in each call.
    has_zeros: bool,
}

pub(crate) fn raw(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    let (bytes, is_zero, is_shared) = (dice.size(), dice.one_in(2), world.has_frames && dice.one_in(5));
    let request = request(world, dice, bytes);
    let asked = if is_zero { request.zeroed() } else { request };
    let raw = world.space.raw();
    let addr = made(if is_shared { raw.alloc_shared(&request) } else { raw.alloc(&asked) })?;
    assert!(addr.is_multiple_of(asked.alignment()) && world.space.usable_size(addr) >= Some(bytes));
    let inner = world.space.find(addr + dice.below(bytes)).expect("the area is busy");
    assert!(inner.addr == addr && inner.bytes >= bytes, "{inner:?} of {bytes} bytes at {addr:#x}");
    let mut pages = Pages::new(addr, bytes, is_zero || is_shared);
    if is_zero || is_shared {
        pages.check_zeros(0);
    }
    pages.write_some(dice);
    // Shared memory is never resized or discarded.
    match is_shared {
        true => Some(Box::new(Shared { space: world.space.clone(), pages, process: std::process::id() })),
        false => Some(Box::new(Raw { space: world.space.clone(), pages, has_zeros: is_zero })),
    }
}

impl Raw {
    fn realloc(&mut self, dice: &mut Dice) {
        let (bytes, is_zero) = (dice.size(), dice.one_in(2));
        let usable = self.space.usable_size(self.pages.addr).expect("the area is busy");
        let old = if self.has_zeros { self.pages.bytes } else { usable };
        let request = if is_zero { Request::new(bytes).zeroed() } else { Request::new(bytes) };
        // SAFETY: the area is this owner's.
        match made(unsafe { self.space.raw().realloc(self.pages.addr, &request) }) {
            Some(addr) => {
                self.pages.moved(addr, bytes);
                self.has_zeros &= is_zero;
                if is_zero && bytes > old {
                    self.pages.check_zeros(old);
                }
            }
            None => self.pages.check(),
        }
    }

    fn clear_page(&mut self, dice: &mut Dice) {
        let page = dice.below(self.pages.held.len());
        let range = self.pages.addr + page * PAGE..self.pages.addr + (page + 1) * PAGE;
        let is_discard = dice.one_in(2);
        // SAFETY: the area is this owner's, which does not need the page's content.
        let cleared = unsafe {
            if is_discard { self.space.raw().discard(&[range]) } else { self.space.raw().reset(&[range]) }
        };
        if made(cleared).is_some() {
            self.pages.held[page] = Some(0);
            self.pages.check();
        }
    }

    fn resize_in_place(&mut self, dice: &mut Dice) {
        let (addr, old) = (self.pages.addr, self.pages.bytes);
        let bytes = if dice.one_in(2) { 1 + dice.below(old) } else { old + dice.below(100_000) };
        let raw = self.space.raw();
        // SAFETY: the area is this owner's, which needs no byte behind the new size.
        let resized = unsafe {
            if bytes < old { raw.shrink_in_place(addr, bytes) } else { raw.grow_in_place(addr, bytes) }
        };
        match made(resized) {
            Some(()) => {
                self.has_zeros = false;
                self.pages.moved(addr, bytes);
            }
            None => self.pages.check(),
        }
    }
}

impl Owner for Raw {
    fn check(&self) {
        self.pages.check();
    }

    fn change(&mut self, _: &World, dice: &mut Dice) {
        match dice.below(5) {
            0 | 1 => self.realloc(dice),
            2 => self.clear_page(dice),
            3 => self.resize_in_place(dice),
            _ => {
                let start = std::ptr::with_exposed_provenance(self.pages.addr);
                if dice.one_in(8) {
                    // SAFETY: locking leaves the content. Beyond the limit nothing is locked.
                    unsafe { libc::mlock(start, self.pages.bytes.min(64 * PAGE)) };
                }
            }
        }
        self.pages.write_some(dice);
    }

    fn end(self: Box<Self>, world: &World, dice: &mut Dice) {
        world.freed(self.pages.addr, self.pages.bytes);
        let (raw, addr) = (self.space.raw(), self.pages.addr);
        // SAFETY: the area is this owner's, and nothing uses it any more.
        let ended = unsafe {
            match dice.below(6) {
                0 => raw.free_altered(addr),
                1 => match raw.free_atomic(addr) {
                    Err(FreeError::Contended { .. }) => raw.free(addr),
                    ended => ended,
                },
                2 if raw.free_to_node(addr) => Ok(()),
                3 => raw.remove(addr).map(drop),
                4 if world.defer(addr) => Ok(()),
                _ => raw.free(addr),
            }
        };
        sure(ended, "the end of an area");
    }
}

/// An area of [`Raw::alloc_shared`](vmalloc::Raw::alloc_shared). A child of a fork shares its
/// bytes,
/// and leaves them as they are.
struct Shared {
    space: Sp,
    pages: Pages,
    process: u32,
}

impl Owner for Shared {
    fn check(&self) {
        self.pages.check();
    }

    fn change(&mut self, _: &World, dice: &mut Dice) {
        if self.process == std::process::id() {
            self.pages.write_some(dice);
        }
    }

    fn end(self: Box<Self>, world: &World, _: &mut Dice) {
        world.freed(self.pages.addr, self.pages.bytes);
        // SAFETY: the area is this owner's, and nothing uses it any more.
        sure(unsafe { self.space.raw().free(self.pages.addr) }, "the end of shared memory");
    }
}

/// A buffer: of any content, or of zeros.
enum Content {
    Stale(Buffer<Sp, Stale>),
    Zeroed(Buffer<Sp, Zeroed>),
}

struct Bytes {
    content: Content,
    pages: Pages,
    align: usize,
}

pub(crate) fn buffer(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    let bytes = dice.size();
    let request = request(world, dice, bytes);
    let (content, mut pages) = if dice.one_in(2) {
        let buffer = made(Buffer::<_, Stale>::new(world.space.clone(), &request))?;
        let pages = Pages::new(buffer.addr(), buffer.len(), false);
        (Content::Stale(buffer), pages)
    } else {
        let buffer = made(Buffer::<_, Zeroed>::new(world.space.clone(), &request))?;
        let pages = Pages::new(buffer.addr(), buffer.len(), true);
        pages.check_zeros(0);
        (Content::Zeroed(buffer), pages)
    };
    pages.write_some(dice);
    Some(Box::new(Bytes { content, pages, align: request.alignment() }))
}

impl Owner for Bytes {
    fn check(&self) {
        self.pages.check();
    }

    fn change(&mut self, _: &World, dice: &mut Dice) {
        let (old, near) = (self.pages.bytes, dice.one_in(2));
        let bytes = if near { (old + dice.below(20_000)).saturating_sub(9000).max(1) } else { dice.size() };
        let (resized, addr) = match &mut self.content {
            Content::Stale(buffer) => (made(buffer.resize(bytes)), buffer.addr()),
            Content::Zeroed(buffer) => (made(buffer.resize(bytes)), buffer.addr()),
        };
        if resized.is_none() {
            return self.pages.check();
        }
        assert!(addr.is_multiple_of(self.align), "{addr:#x} is not aligned to {}", self.align);
        self.pages.moved(addr, bytes);
        if matches!(self.content, Content::Zeroed(_)) && bytes > old {
            self.pages.check_zeros(old);
        }
        self.pages.write_some(dice);
    }

    fn end(self: Box<Self>, world: &World, dice: &mut Dice) {
        world.freed(self.pages.addr, self.pages.bytes);
        if let Content::Stale(buffer) = self.content
            && dice.one_in(3)
        {
            let (start, bytes) = buffer.into_raw();
            // SAFETY: the buffer was just taken apart.
            drop(unsafe { Buffer::<_, Stale>::from_raw(world.space.clone(), start, bytes) });
        }
    }
}

/// A vector in the space.
struct List(vmalloc_malloc::allocator_api2_04::vec::Vec<u64, SpaceAllocator<Sp>>);

pub(crate) fn list(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    let mut list =
        vmalloc_malloc::allocator_api2_04::vec::Vec::new_in(SpaceAllocator::new(world.space.clone()));
    list.try_reserve(1 + dice.below(1000)).ok()?;
    Some(Box::new(List(list)))
}

impl Owner for List {
    fn check(&self) {
        assert!(self.0.iter().zip(0..).all(|(found, value)| *found == value), "a vector has changed");
    }

    fn change(&mut self, _: &World, dice: &mut Dice) {
        let more = dice.below(20_000);
        if self.0.try_reserve(more).is_ok() {
            self.0.extend(self.0.len() as u64..(self.0.len() + more) as u64);
        }
        if dice.one_in(3) {
            self.0.truncate(dice.below(self.0.len() + 1));
        }
    }

    fn end(self: Box<Self>, world: &World, _: &mut Dice) {
        if self.0.capacity() != 0 {
            world.freed(self.0.as_ptr().addr(), self.0.capacity() * WORD);
        }
    }
}
