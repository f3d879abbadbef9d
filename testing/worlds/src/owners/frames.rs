//! Frames, and all the ways to show them.

use super::{Owner, made, request};
use crate::dice::Dice;
use crate::world::{PAGE, Sp, World};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc::{Frames, Mapping, PagedArea, Protection, ReadOnlyMapping, Request};
use vmalloc_short::{ShortMapping, ShortMaps};

/// A short mapping.
type Short = ShortMapping<Arc<ShortMaps<Sp>>>;

/// Frames with what each begins with, in the order of `frames`, and what shows them. A way to show
/// them keeps the order that they had when it was made.
struct Shown {
    frames: Frames<Sp>,
    held: Vec<u8>,
    mappings: Vec<(Mapping<Sp>, Vec<usize>)>,
    read_only: Vec<(ReadOnlyMapping<Sp>, Vec<usize>)>,
    short: Vec<(Short, Vec<usize>)>,
    sparse: PagedArea<Sp>,
    pieces: Vec<(usize, Vec<usize>)>,
    /// The number of the frame at each place, which `held` goes by.
    order: Vec<usize>,
    /// The process that took the frames. A child of a fork shares their bytes, and leaves them.
    process: u32,
}

pub(crate) fn frames(world: &World, dice: &mut Dice) -> Option<Box<dyn Owner>> {
    if !world.has_frames {
        return None;
    }
    let count = 1 + if dice.one_in(6) { dice.below(200) } else { dice.below(12) };
    let space = world.space.clone();
    let frames = match dice.one_in(3) {
        true => Frames::consecutive(space.clone(), count, 1 << dice.below(5)),
        false => Frames::new(space.clone(), count),
    };
    let frames = made(frames)?;
    let area = Request::new((1 + dice.below(400)) * PAGE);
    let area = if dice.one_in(2) { request(world, dice, area.bytes()) } else { area };
    let sparse = made(PagedArea::new(space, &area))?;
    let first = made(Mapping::new(&frames))?;
    let mut shown = Shown {
        frames,
        held: vec![0; count],
        mappings: vec![(first, (0..count).collect())],
        read_only: Vec::new(),
        short: Vec::new(),
        sparse,
        pieces: Vec::new(),
        order: (0..count).collect(),
        process: std::process::id(),
    };
    shown.write(dice);
    Some(Box::new(shown))
}

/// Returns the bytes of an area of frames.
fn bytes<'a>(addr: usize, pages: usize) -> &'a [AtomicU8] {
    // SAFETY: the callers own a mapping of so many pages there, for as long as they use this.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(addr), pages * PAGE) }
}

impl Shown {
    /// Writes to every frame, through the mapping that was there first.
    fn write(&mut self, dice: &mut Dice) {
        if self.process != std::process::id() {
            return;
        }
        let (mapping, order) = &self.mappings[0];
        for (page, frame) in order.iter().enumerate() {
            self.held[*frame] = dice.any() as u8;
            mapping.atomics()[page * PAGE].store(self.held[*frame], Relaxed);
        }
    }

    fn check_at(&self, found: impl Fn(usize) -> u8, order: &[usize], what: &str) {
        for (page, frame) in order.iter().enumerate() {
            assert_eq!(found(page * PAGE), self.held[*frame], "{what}: page {page}, frame {frame}");
        }
    }

    fn map_piece(&mut self, dice: &mut Dice) {
        let offset = dice.below(420) * PAGE + if dice.one_in(9) { 1 } else { 0 };
        let protection = dice.pick(&[Protection::ReadWrite, Protection::Read]);
        if let Some(addr) = made(self.sparse.map(offset, &self.frames, protection)) {
            let room = self.sparse.space().usable_size(self.sparse.addr()).expect("it is busy");
            assert!(addr == self.sparse.addr() + offset && offset + self.frames.len() * PAGE <= room);
            let meets = |(other, order): &(usize, Vec<usize>)| {
                *other < offset + self.frames.len() * PAGE && offset < other + order.len() * PAGE
            };
            assert!(!self.pieces.iter().any(meets), "frames are mapped over others");
            self.pieces.push((offset, self.order.clone()));
        }
    }

    fn unmap_piece(&mut self, dice: &mut Dice) {
        if self.pieces.is_empty() {
            return;
        }
        let piece = dice.below(self.pieces.len());
        // SAFETY: nothing uses the frames there any more.
        if made(unsafe { self.sparse.unmap(self.pieces[piece].0) }).is_some() {
            self.pieces.swap_remove(piece);
        }
    }
}

impl Owner for Shown {
    fn check(&self) {
        for (mapping, order) in &self.mappings {
            self.check_at(|at| mapping.atomics()[at].load(Relaxed), order, "a mapping");
        }
        for (mapping, order) in &self.read_only {
            let read = |at| {
                let mut byte = [0];
                assert_eq!(mapping.read(at, &mut byte), 1);
                byte[0]
            };
            self.check_at(read, order, "a read-only mapping");
        }
        for (mapping, order) in &self.short {
            self.check_at(|at| mapping.atomics()[at].load(Relaxed), order, "a short mapping");
        }
        for (offset, order) in &self.pieces {
            let all = bytes(self.sparse.addr() + offset, order.len());
            self.check_at(|at| all[at].load(Relaxed), order, "a piece");
        }
    }

    fn change(&mut self, world: &World, dice: &mut Dice) {
        let count = self.frames.len();
        for _ in 0..dice.below(4) {
            let (one, other) = (dice.below(count), dice.below(count));
            self.frames.swap(one, other);
            self.order.swap(one, other);
        }
        let order = self.order.clone();
        match dice.below(8) {
            0 => self.mappings.extend(made(Mapping::new(&self.frames)).map(|it| (it, order))),
            1 => self.read_only.extend(made(ReadOnlyMapping::new(&self.frames)).map(|it| (it, order))),
            2 | 3 => {
                let mapping = made(ShortMapping::new(world.short.clone(), &self.frames));
                self.short.extend(mapping.map(|it| (it, order)));
            }
            4 => self.map_piece(dice),
            5 => self.unmap_piece(dice),
            6 => self.short.clear(),
            _ => {
                self.mappings.truncate(1);
                self.read_only.clear();
            }
        }
        self.check();
        self.write(dice);
        self.check();
    }

    fn end(self: Box<Self>, world: &World, _: &mut Dice) {
        self.mappings.iter().for_each(|(it, order)| world.freed(it.addr(), order.len() * PAGE));
        self.pieces.iter().for_each(|(at, order)| world.freed(self.sparse.addr() + at, order.len() * PAGE));
    }
}
