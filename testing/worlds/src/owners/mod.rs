//! Owners of areas, each of a kind, with the model of what it holds.

mod code;
mod frames;
mod gathered;
pub(crate) mod memory;
mod paged;
mod plain;

use crate::dice::Dice;
use crate::world::World;
use std::fmt::Display;
use vmalloc::{Policy, Request};

/// One owner, of one area or of several.
pub(crate) trait Owner: Send {
    /// Checks all that it should hold.
    fn check(&self);

    /// Does something with it. What fails leaves it as it was.
    fn change(&mut self, world: &World, dice: &mut Dice);

    /// Ends it in one of the ways that there are.
    fn end(self: Box<Self>, world: &World, dice: &mut Dice);
}

/// Makes an owner of a random kind; `None` where the space has no room for it.
pub(crate) fn make(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    match dice.below(16) {
        0..=4 => memory::raw(world, dice),
        5..=7 => memory::buffer(world, dice),
        8 => memory::list(world, dice),
        9 => code::code(world, dice),
        10..=11 => paged::paged(world, dice),
        12..=13 => frames::frames(world, dice),
        14 => gathered::gathered(world, dice),
        _ => plain::addresses(world, dice),
    }
}

/// Returns what a call made, or counts its error, which has to have a text.
pub(crate) fn made<T, E: Display>(result: Result<T, E>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().is_empty())).ok()
}

/// Panics with an error of a call that may not fail.
pub(crate) fn sure<T, E: Display>(result: Result<T, E>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Returns a request for `bytes` bytes with random conditions.
pub(crate) fn request(world: &World, dice: &mut Dice, bytes: usize) -> Request {
    let mut request = Request::new(bytes);
    if dice.one_in(2) {
        return request;
    }
    if dice.one_in(2) {
        request = request.align(1 << dice.below(24));
    }
    if dice.one_in(4) {
        request = request.tag(format!("tag {}", dice.below(50)).as_str());
    }
    if dice.one_in(5) {
        request = request.guard(false);
    }
    if dice.one_in(6) {
        request = request.node(dice.below(8));
    }
    if dice.one_in(6) {
        request = request.policy(dice.pick(&[Policy::Lowest, Policy::Highest, Policy::Random { seed: 7 }]));
    }
    if dice.one_in(8) {
        request = request.huge();
    }
    if dice.one_in(8) {
        request = request.may_block(false);
    }
    if dice.one_in(8) {
        let (start, bytes) = world.span();
        let from = start + dice.below(bytes);
        request = request.within(from, from + dice.below(start + bytes - from) + 1);
    }
    request
}
