//! Pages that are moved out of a buffer.

use super::{Owner, made, sure};
use crate::dice::Dice;
use crate::world::{PAGE, Sp, World};
use vmalloc::{Buffer, Request, Zeroed};
use vmalloc_linux::gather::GatherArea;

/// An area, and what each of its pages is full of.
struct Gathered {
    area: GatherArea<Sp>,
    held: Vec<Option<u8>>,
}

pub(crate) fn gathered(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    let pages = 1 + dice.below(30);
    let area = made(GatherArea::new(world.space.clone(), pages))?;
    Some(Box::new(Gathered { area, held: vec![None; pages] }))
}

impl Gathered {
    fn gather(&mut self, world: &World, dice: &mut Dice, at: usize, pages: usize) {
        let request = Request::new(pages * PAGE);
        let Some(mut source) = made(Buffer::<_, Zeroed>::new(world.space.clone(), &request)) else { return };
        let values: Vec<u8> = (0..pages).map(|_| 1 + dice.below(255) as u8).collect();
        source.chunks_mut(PAGE).zip(&values).for_each(|(page, value)| page.fill(*value));
        let mut turn: Vec<usize> = (0..pages).collect();
        if dice.one_in(2) {
            turn.reverse();
        }
        let from: Vec<usize> = turn.iter().map(|page| source.addr() + page * PAGE).collect();
        let is_empty = self.held[at..at + pages].iter().all(Option::is_none);
        // SAFETY: the pages are this function's, which uses them as the zeros that are left.
        if made(unsafe { self.area.gather(at, &from) }).is_some() {
            assert!(is_empty, "pages were gathered over others");
            let gathered = turn.iter().map(|page| Some(values[*page]));
            self.held[at..at + pages].iter_mut().zip(gathered).for_each(|(held, value)| *held = value);
            assert!(source.iter().all(|byte| *byte == 0), "gathered pages have left bytes behind");
        } else {
            let mut all = source.chunks(PAGE).zip(&values);
            assert!(all.all(|(page, value)| page.iter().all(|byte| byte == value)), "a refusal lost bytes");
        }
    }
}

impl Owner for Gathered {
    fn check(&self) {
        for (page, held) in self.held.iter().enumerate() {
            match (self.area.get(page, 1), held) {
                (Some(bytes), Some(held)) => assert!(bytes.iter().all(|byte| byte == held), "page {page}"),
                (found, held) => assert!(found.is_none() && held.is_none(), "page {page} is full or not"),
            }
        }
    }

    fn change(&mut self, world: &World, dice: &mut Dice) {
        let at = dice.below(self.held.len());
        let pages = 1 + dice.below(self.held.len() - at);
        if dice.one_in(3) {
            if made(self.area.clear(at, pages)).is_some() {
                self.held[at..at + pages].fill(None);
            }
        } else {
            self.gather(world, dice, at, pages);
        }
        self.check();
    }

    fn end(self: Box<Self>, world: &World, _: &mut Dice) {
        world.freed(self.area.addr(), self.held.len() * PAGE);
        let info = world.space.find(self.area.addr());
        sure(info.ok_or("it is no area"), "the gathered pages");
    }
}
