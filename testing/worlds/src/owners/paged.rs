//! Addresses of which the owner decides where memory is.

use super::memory::Pages;
use super::{Owner, made, request};
use crate::dice::Dice;
use crate::world::{PAGE, Sp, World};
use std::ops::Range;
use vmalloc::PagedArea;

/// An area, and the numbers of its committed pages.
struct Paged {
    area: PagedArea<Sp>,
    pages: Pages,
}

pub(crate) fn paged(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    let most = if dice.one_in(5) { 5000 } else { 200 };
    let bytes = (1 + dice.below(most)) * PAGE - dice.below(PAGE);
    let request = request(world, dice, bytes);
    let area = made(PagedArea::new(world.space.clone(), &request))?;
    let pages = Pages::new(area.addr(), area.len(), false);
    Some(Box::new(Paged { area, pages }))
}

impl Paged {
    /// Returns whether all pages of a range are committed, and whether none is.
    fn committed(&self, pages: &Range<usize>) -> (bool, bool) {
        let committed = pages.clone().filter(|page| self.pages.is_known(*page)).count();
        (committed == pages.len(), committed == 0)
    }
}

impl Owner for Paged {
    fn check(&self) {
        self.pages.check();
        let committed = (0..self.pages.len()).filter(|page| self.pages.is_known(*page)).count();
        assert_eq!(self.area.committed_bytes() / PAGE, committed);
    }

    fn change(&mut self, _: &World, dice: &mut Dice) {
        let start = dice.below(self.pages.len());
        let pages = start..(start + 1 + dice.below(90)).min(self.pages.len());
        let bytes = pages.start * PAGE..pages.end * PAGE;
        let (is_whole, is_empty) = self.committed(&pages);
        type Note = fn(&mut Pages, Range<usize>);
        let (done, is_allowed, note): (_, _, Note) = match dice.below(5) {
            0 | 1 => (made(self.area.commit(bytes)), is_empty, Pages::set_zero),
            2 => (made(self.area.decommit(bytes)), is_whole, Pages::forget),
            3 => (made(self.area.discard(bytes)), is_whole, Pages::set_zero),
            _ => (made(self.area.reset(bytes)), is_whole, Pages::set_zero),
        };
        assert!(is_allowed || done.is_none(), "{pages:?} was changed, and {is_whole} and {is_empty}");
        if done.is_some() {
            note(&mut self.pages, pages.clone());
        }
        self.check();
        for page in pages {
            if self.pages.is_known(page) && dice.one_in(2) {
                self.pages.write(page, dice.any());
            }
        }
    }

    fn end(self: Box<Self>, world: &World, _: &mut Dice) {
        world.freed(self.area.addr(), self.area.len());
    }
}
