//! Addresses of which the owner decides where memory is.

use super::{Owner, made, request};
use crate::dice::Dice;
use crate::world::{PAGE, Sp, World};
use std::ops::Range;
use vmalloc::PagedArea;

/// An area, and the number that each committed page begins with.
struct Paged {
    area: PagedArea<Sp>,
    held: Vec<Option<u64>>,
}

pub(crate) fn paged(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    let most = if dice.one_in(5) { 5000 } else { 200 };
    let bytes = (1 + dice.below(most)) * PAGE - dice.below(PAGE);
    let request = request(world, dice, bytes);
    let area = made(PagedArea::new(world.space.clone(), &request))?;
    let held = vec![None; area.len() / PAGE];
    Some(Box::new(Paged { area, held }))
}

impl Paged {
    fn place(&self, page: usize) -> *mut u64 {
        std::ptr::with_exposed_provenance_mut(self.area.addr() + page * PAGE)
    }

    /// Returns whether all pages of a range are committed, and whether none is.
    fn committed(&self, pages: &Range<usize>) -> (bool, bool) {
        let held = &self.held[pages.clone()];
        (held.iter().all(Option::is_some), held.iter().all(Option::is_none))
    }
}

impl Owner for Paged {
    fn check(&self) {
        for (page, held) in self.held.iter().enumerate() {
            let Some(held) = held else { continue };
            // SAFETY: the page is this owner's, and committed.
            let found = unsafe { self.place(page).read() };
            assert_eq!(found, *held, "committed page {page} at {:#x}", self.area.addr());
        }
        assert_eq!(self.area.committed_bytes() / PAGE, self.held.iter().flatten().count());
    }

    fn change(&mut self, _: &World, dice: &mut Dice) {
        let start = dice.below(self.held.len());
        let pages = start..(start + 1 + dice.below(90)).min(self.held.len());
        let bytes = pages.start * PAGE..pages.end * PAGE;
        let (is_whole, is_empty) = self.committed(&pages);
        let (done, is_allowed, held) = match dice.below(5) {
            0 | 1 => (made(self.area.commit(bytes)), is_empty, Some(0)),
            2 => (made(self.area.decommit(bytes)), is_whole, None),
            3 => (made(self.area.discard(bytes)), is_whole, Some(0)),
            _ => (made(self.area.reset(bytes)), is_whole, Some(0)),
        };
        assert!(is_allowed || done.is_none(), "{pages:?} was changed, and {is_whole} and {is_empty}");
        if done.is_some() {
            self.held[pages.clone()].fill(held);
        }
        self.check();
        for page in pages {
            if self.held[page].is_some() && dice.one_in(2) {
                let value = dice.any();
                // SAFETY: the page is this owner's, and committed.
                unsafe { self.place(page).write(value) };
                self.held[page] = Some(value);
            }
        }
    }

    fn end(self: Box<Self>, world: &World, _: &mut Dice) {
        world.freed(self.area.addr(), self.area.len());
    }
}
