//! Addresses without memory.

use super::{Owner, made, request, sure};
use crate::dice::Dice;
use crate::world::{PAGE, Sp, World};
use std::sync::Arc;
use vmalloc::{ReadNofault, Reservation, Tag};
use vmalloc_percpu::{CongruentAreas, TAG};
use vmalloc_short::ShortMaps;

/// Addresses of one of three kinds.
enum Addresses {
    Reserved(Reservation<Sp>, usize),
    Congruent(CongruentAreas<Sp>, usize),
    Short(Arc<ShortMaps<Sp>>, usize, u64),
}

pub(crate) fn addresses(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    let space = world.space.clone();
    let made = match dice.below(3) {
        0 => {
            let bytes = dice.size();
            let request = request(world, dice, bytes);
            Addresses::Reserved(made(Reservation::new(space, &request))?, bytes)
        }
        1 => {
            let count = 1 + dice.below(4);
            let sizes: Vec<_> = (0..count).map(|_| (1 + dice.below(20)) * PAGE).collect();
            let offsets: Vec<_> = (0..count).map(|nth| nth * (20 + dice.below(30)) * PAGE).collect();
            let align = PAGE << dice.below(4);
            Addresses::Congruent(made(CongruentAreas::new(space, &offsets, &sizes, align))?, count)
        }
        _ => {
            let pages = 1 + dice.below(64) as u64;
            Addresses::Short(world.short.clone(), made(world.short.reserve(pages))?, pages)
        }
    };
    Some(Box::new(made))
}

impl Owner for Addresses {
    fn check(&self) {
        match self {
            Self::Reserved(area, bytes) => {
                let mut byte = [0];
                let last = area.addr() + bytes - 1;
                assert_eq!(area.space().platform().read_nofault(last, &mut byte), 0, "{last:#x} is memory");
            }
            Self::Congruent(areas, count) => {
                let tag = |nth| areas.space().find(areas.area(nth)?)?.tag;
                assert!((0..*count).all(|nth| tag(nth) == Some(Tag::new(TAG))), "an area of a group is gone");
            }
            Self::Short(short, addr, _) => assert!(short.space().contains(*addr)),
        }
    }

    fn change(&mut self, _: &World, _: &mut Dice) {
        self.check();
    }

    fn end(self: Box<Self>, _: &World, dice: &mut Dice) {
        match *self {
            Self::Reserved(area, _) if dice.one_in(2) => {
                let space = area.space().clone();
                // SAFETY: the area was this owner's, and nothing uses it.
                sure(unsafe { space.raw().unreserve(area.leak()) }, "the end of a reservation");
            }
            Self::Short(short, addr, pages) => {
                // SAFETY: the addresses are this owner's, and nothing uses them.
                sure(unsafe { short.unreserve(addr, pages) }, "the end of short addresses");
            }
            others => drop(others),
        }
    }
}
