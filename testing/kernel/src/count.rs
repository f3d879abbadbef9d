//! How many instructions calls take: the emulator's counter, under `-icount shift=0`, on one CPU.
//!
//! Lines `count NAME VALUE`, in instructions for one pair of calls, and in thousands for a case.
//! The loop around the calls counts as well.

use crate::arch::clock::a_million_instructions;
use crate::cases::{CASES, Context};
use crate::checks::BorrowedFrames;
use crate::clock::ticks;
use crate::machine::Space;
use crate::serial::say;
use crate::vmap;
use crate::world::{Failure, Outcome, World, free, pages};
use alloc::format;
use vmalloc::Frame;
use vmalloc_short::ShortMaps;

/// Pairs of a row: with a page each they pass the threshold of lazy pages once, so that a drain is
/// in it.
pub(crate) const TURNS: u64 = 12_000;

/// Ticks of a million instructions.
fn ticks_of_a_million() -> u64 {
    let start = ticks();
    a_million_instructions();
    ticks() - start
}

/// The rows to measure.
pub(crate) struct Rows<'a> {
    /// Turns of the driver's cases.
    pub(crate) loops: u64,
    /// Turns of the others: [`TURNS`], or fewer where every instruction is to be looked at.
    pub(crate) turns: u64,
    /// Only rows whose names begin so.
    pub(crate) only: &'a str,
}

/// Measures and prints the rows.
pub(crate) fn run(world: &World, rows: &Rows<'_>) -> Outcome {
    let scale = ticks_of_a_million();
    let instructions = |ticks: u64, turns: u64| ticks * 1_000_000 / scale / turns;
    let row = |name: &str, turn: &dyn Fn() -> Outcome| {
        if name.starts_with(rows.only) {
            say!("count {name} {}", instructions(measure(rows.turns, turn)?, rows.turns));
        }
        Ok::<_, Failure>(())
    };
    let spaces = [("unmapping", world.space), ("caching", world.caching)];
    for (name, space) in spaces {
        for count in [1, 16, 64] {
            row(&format!("{name}/vmalloc/{count}"), &|| alloc_and_free(space, count))?;
        }
        // What the rows before have left would be cut up.
        space.shrink(u64::MAX)?;
        row(&format!("{name}/vmalloc/4"), &|| alloc_and_free(space, 4))?;
    }
    for count in [1, 8, 16, 32, 64] {
        let (scattered, consecutive) =
            (BorrowedFrames::scattered(world, count)?, BorrowedFrames::consecutive(world, count)?);
        for (name, borrowed) in [("scattered", scattered), ("consecutive", consecutive)] {
            row(&format!("{name}/vm_map_ram/{count}"), &|| map_and_unmap(&world.short, &borrowed.frames))?;
            world.space.purge()?;
        }
    }
    for order in vmap::ORDERS {
        let name = format!("order-{order}/vmap");
        if name.starts_with(rows.only) {
            let ticks = vmap::measure(world, order)?;
            say!("count {name} {}", instructions(ticks.map, 1));
            say!("count order-{order}/map_runs {}", instructions(ticks.map_runs, 1));
            say!("count order-{order}/vunmap {}", instructions(ticks.unmap, 1));
        }
    }
    for (name, space) in spaces {
        for case in CASES.iter().filter(|case| format!("{name}/{}", case.name).starts_with(rows.only)) {
            let ticks = case.ticks(&mut Context::new(world, space, 1, rows.loops))?;
            say!("count {name}/{} {}", case.name, instructions(ticks, 1000));
            space.purge()?;
        }
    }
    world.check_whole()
}

/// Ticks of all turns, after some that are not counted.
fn measure(turns: u64, turn: &dyn Fn() -> Outcome) -> Result<u64, Failure> {
    (0..turns / 4).try_for_each(|_| turn())?;
    let start = ticks();
    (0..turns).try_for_each(|_| turn())?;
    Ok(ticks() - start)
}

fn alloc_and_free(space: &Space, count: usize) -> Outcome {
    free(space, pages(space, count)?)
}

fn map_and_unmap(short: &ShortMaps<&Space>, frames: &[Frame]) -> Outcome {
    let addr = short.map(frames)?;
    // SAFETY: nothing uses it.
    Ok(unsafe { short.unmap(addr, frames.len()) }?)
}
