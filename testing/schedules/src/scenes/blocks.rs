//! Scenarios of blocks: short mappings made, ended and purged by several CPUs. Frames are given
//! back as soon as their mapping is ended, so that a CPU that still reaches them is noticed.
//!
//! A block has eight slots here, and a request up to four pages.

use super::{done, hold};
use crate::world::{Mapping, World, ended, page_of};
use shuttle::sync::mpsc;
use vmalloc::FrameSupply;
use vmalloc::sync::point;
use vmalloc_short::UnmapError;
use vmalloc_sim::{Discard, TlbVisibility};

/// The fate of slots that are returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slots {
    /// They are unmapped at once, and recycled after a flush.
    Recycled,
    /// They stay mapped until the flush.
    Kept,
    /// They are mapped again without a flush.
    Replaced,
}

fn world(slots: Slots) -> World {
    world_of(64, slots)
}

fn world_of(pages: u64, slots: Slots) -> World {
    let options = World::options(pages).frames(2 * pages);
    let options = match slots {
        Slots::Recycled => options,
        Slots::Kept => options.discard(Discard::Keeps),
        Slots::Replaced => options.discard(Discard::Keeps).remaps_atomically(),
    };
    let world = World::on(options, World::tight().lazy_max_pages(100));
    // Before there are threads.
    let _ = world.short();
    world
}

/// Maps `PAGES` pages and ends that, a few times.
fn come_and_go<const PAGES: u64>(world: &World) {
    for _ in 0..4 {
        let mapping = world.map_ram(PAGES);
        point();
        world.unmap_ram(mapping);
    }
}

/// Every CPU works with its own queue, and a purge takes what they return.
pub fn each_with_its_own(slots: Slots) {
    let world = world(slots);
    world.run([come_and_go::<1>, come_and_go::<4>, |world| {
        world.purge_all();
        world.flush_all();
    }]);
    world.finish();
}

/// One CPU maps and another unmaps, whatever the first does with its queue meanwhile.
pub fn unmapped_elsewhere(slots: Slots) {
    let world = world(slots);
    let (sender, receiver) = mpsc::channel();
    let threads = [
        world.beside(move |world| {
            for pages in [4, 4, 2, 4, 1] {
                sender.send(world.map_ram(pages)).expect("the other side waits");
            }
        }),
        world.beside(move |world| {
            while let Ok(mapping) = receiver.recv() {
                world.unmap_ram(mapping);
            }
        }),
    ];
    come_and_go::<2>(&world);
    threads.into_iter().for_each(ended);
    world.finish();
}

fn unmap_all(world: &World, mappings: impl IntoIterator<Item = Mapping>) {
    mappings.into_iter().for_each(|mapping| world.unmap_ram(mapping));
}

/// The last slots of a block are returned while its queue closes the used-up window for a new one.
pub fn last_slot_meets_closing(slots: Slots) {
    let world = world(slots);
    let mappings = [world.map_ram(4), world.map_ram(4)];
    let thread = world.beside(|world| unmap_all(world, mappings));
    // From the same queue: the window is used up.
    let next = world.map_ram(4);
    world.unmap_ram(next);
    ended(thread);
    world.finish();
}

/// Slots are returned while a purge has their block, and mapped again after it.
pub fn unmapped_while_purged(slots: Slots) {
    let world = world(slots);
    // Two blocks, of one of which slots are returned already.
    let [a, b, c, d] = [2, 2, 4, 4].map(|pages| world.map_ram(pages));
    world.unmap_ram(a);
    let threads = [
        world.beside(|world| unmap_all(world, [b, c])),
        world.beside(|world| {
            world.flush_all();
            world.unmap_ram(d);
        }),
        world.beside(come_and_go::<2>),
    ];
    threads.into_iter().for_each(ended);
    world.finish();
}

/// One CPU purges everything, windows too, while others map from theirs.
pub fn purges_meet_mapping(slots: Slots) {
    let world = world(slots);
    let stays = world.map_ram(1);
    world.run([come_and_go::<1>, come_and_go::<2>, |world| {
        for _ in 0..3 {
            world.purge_all();
        }
    }]);
    world.unmap_ram(stays);
    world.finish();
}

/// Two CPUs return the last slots of a closed block: one of them notices.
pub fn last_slots_of_two(slots: Slots) {
    let world = world(slots);
    let (one, other) = (world.map_ram(4), world.map_ram(4));
    // Closes the window.
    world.flush_all();
    [one, other].map(|it| world.beside(|world| world.unmap_ram(it))).into_iter().for_each(ended);
    let stats = world.stats();
    assert!(
        stats.tenant_areas == 0 || stats.busy_pages == 0 || slots == Slots::Replaced,
        "the block is spent: {stats:?}"
    );
    world.finish();
}

/// After a flush no CPU translates what was returned before, though others are returned meanwhile.
pub fn flushed_while_unmapping(slots: Slots) {
    let world = world(slots);
    let [gone, one, other] = [2, 2, 4].map(|pages| world.map_ram(pages));
    let first = page_of(gone.addr);
    let sim = world.platform().sim();
    (0..4).for_each(|cpu| sim.prefetch(cpu, vmalloc::PageRange::from_len(first, 2).expect("two")));
    world.unmap_ram(gone);
    let threads = [one, other].map(|mapping| world.beside(|world| world.unmap_ram(mapping)));
    world.flush_all();
    for (cpu, page) in (0..4).flat_map(|cpu| [(cpu, first), (cpu, first + 1)]) {
        assert_eq!(
            world.platform().sim().look(cpu, page),
            TlbVisibility::Nothing,
            "cpu {cpu} translates {page:#x}"
        );
    }
    threads.into_iter().for_each(ended);
    world.finish();
}

/// The content of frames that no CPU may reach after a flush.
const MARK: u64 = 0x0dd;

/// Writes the mark through every CPU, and ends the mapping. Its frames are not given back.
fn end_marked(world: &World, gone: &Mapping) {
    let sim = world.platform().sim();
    for (cpu, page) in (0..4).flat_map(|cpu| pages_of(gone).map(move |page| (cpu, page))) {
        sim.write(cpu, page, MARK).expect("it is mapped");
    }
    assert!(world.try_unmap_ram(gone), "it is mapped");
}

/// Flushes while `threads` go on, and sees that no CPU reaches the frames of a mapping that was
/// ended before.
fn flush_marked(
    world: &World,
    slots: Slots,
    gone: Mapping,
    threads: impl IntoIterator<Item = shuttle::thread::JoinHandle<()>>,
) {
    world.flush_all();
    // Where mappings replace earlier ones, slots that a thread is about to map show what was there
    // until then. No thread uses them.
    let may_show = slots == Slots::Replaced && pages_of(&gone).any(|page| is_taken(world, page));
    for (cpu, page) in (0..4).flat_map(|cpu| pages_of(&gone).map(move |page| (cpu, page))) {
        let seen = world.platform().sim().look(cpu, page);
        let is_reached = matches!(seen, TlbVisibility::Right(MARK) | TlbVisibility::Stale(MARK));
        assert!(!is_reached || may_show, "cpu {cpu} reaches a returned frame at {page:#x}");
    }
    threads.into_iter().for_each(ended);
    // SAFETY: nothing uses them any more.
    unsafe { world.platform().give_frames(&gone.frames) };
}

/// Returns whether a thread has taken the slot.
fn is_taken(world: &World, page: u64) -> bool {
    // SAFETY: no mapping of these scenes has three pages, so this ends none.
    let answer = unsafe { world.short().unmap(page as usize * World::PAGE, 3) };
    matches!(answer, Err(UnmapError::WrongCount { .. }))
}

fn pages_of(mapping: &Mapping) -> std::ops::Range<u64> {
    let first = page_of(mapping.addr);
    first..first + mapping.frames.len() as u64
}

/// After a flush no CPU reaches frames that were returned before, though others map meanwhile, in
/// the same blocks.
pub fn flushed_while_mapping(slots: Slots) {
    let world = world(slots);
    let [gone, stays] = [2, 2].map(|pages| world.map_ram(pages));
    end_marked(&world, &gone);
    let threads = [world.beside(come_and_go::<1>), world.beside(come_and_go::<2>)];
    flush_marked(&world, slots, gone, threads);
    world.unmap_ram(stays);
    world.finish();
}

/// After a flush no CPU reaches frames that were returned before, though the CPU that returned them
/// uses up its window, opens others, and displaces runs that it kept mapped.
pub fn flushed_while_the_window_moves_on(slots: Slots) {
    let world = world_of(128, slots);
    // Blocks that are all clean.
    let ready = [4; 8].map(|pages| world.map_ram(pages));
    unmap_all(&world, ready);
    world.flush_all();
    let (sender, receiver) = mpsc::channel();
    let thread = world.beside(move |world| {
        let [kept, one, two, three, gone] = [2; 5].map(|pages| world.map_ram(pages));
        world.unmap_ram(kept);
        end_marked(world, &gone);
        sender.send(gone).expect("it is waited for");
        unmap_all(world, [one, two, three]);
        let others = [2; 6].map(|pages| world.map_ram(pages));
        unmap_all(world, others);
    });
    let gone = receiver.recv().expect("it is sent");
    flush_marked(&world, slots, gone, [thread]);
    world.finish();
}

/// Of two threads that end a mapping one succeeds.
pub fn unmapped_twice(slots: Slots) {
    let world = world(slots);
    let beside = world.map_ram(2);
    // Without frames: those would be discarded twice, which their owner answers for.
    let addr = world.short().reserve(2).expect("room");
    // SAFETY: nothing uses the addresses any more.
    let end = move |world: &World| unsafe { world.short().unreserve(addr, 2) }.is_ok();
    assert_eq!(done([world.beside(end), world.beside(end)]), 1, "how often a mapping was ended");
    world.unmap_ram(beside);
    world.finish();
}

/// Two threads look for the short mappings of a space that has none yet: both find the first.
pub fn found_by_two(_: Slots) {
    let world = World::new(64, World::tight());
    let found = world.run([|world| world.short().reserve(1), |world| world.short().reserve(2)]);
    for (addr, pages) in found.into_iter().zip(1..) {
        // SAFETY: nothing uses the addresses any more.
        unsafe { world.short().unreserve(addr.expect("room"), pages) }.expect("of the same blocks");
    }
    world.finish();
}

/// A fork holds everything for a while, and mappings go on afterwards.
pub fn fork_meets_blocks(slots: Slots) {
    let world = world(slots);
    world.run([come_and_go::<2>, hold, |world| {
        let mapping = world.map_ram(4);
        world.purge_all();
        world.unmap_ram(mapping);
    }]);
    world.finish();
}

/// A child of a fork has what others had, and ends what they were doing: it loses no more than what
/// they own. is theirs.
pub fn forked_meanwhile(slots: Slots) {
    let world = world(slots);
    let mapping = world.map_ram(2);
    let _others = [world.beside(come_and_go::<2>), world.beside(come_and_go::<4>)];
    point();
    world.fork(|world| {
        come_and_go::<1>(world);
        come_and_go::<4>(world);
        world.unmap_ram(mapping);
        world.purge_all();
        // Each of the others has a mapping, and a block that is noted nowhere yet.
        let stats = world.stats();
        assert!(
            stats.tenant_areas <= 2 && stats.busy_pages <= 2 * 2 * 8,
            "more than others have is gone: {stats:?}"
        );
    });
}

/// Addresses are few: a thread that finds none waits for those on their way back.
pub fn slots_run_out(slots: Slots) {
    let world = world_of(24, slots);
    let take_turns = |world: &World| {
        for _ in 0..3 {
            let mapping = world.map_ram(4);
            world.unmap_ram(mapping);
        }
    };
    let thread = world.beside(take_turns);
    take_turns(&world);
    ended(thread);
    world.finish();
}
