//! How many instructions calls take: the emulator's counter, under `-icount shift=0`, on one CPU.
//!
//! Lines `count NAME VALUE`, in instructions for one pair of calls, and in thousands for a case. The loop around the calls counts as well.

use crate::cases::{CASES, Context};
use crate::checks::Lent;
use crate::clock::ticks;
use crate::machine::Space;
use crate::serial::say;
use crate::world::{Failure, Outcome, World, free, pages};
use core::arch::asm;
use vmalloc::Frame;

/// Pairs of a row: with a page each they pass the threshold of lazy pages once, so that a drain is in it.
const TURNS: u64 = 12_000;

/// Ticks of a million instructions.
fn ticks_of_a_million() -> u64 {
    let start = ticks();
    // SAFETY: it counts down.
    unsafe {
        asm!("2:", "dec {left:e}", "jnz 2b", left = inout(reg) 500_000 => _, options(nomem, nostack));
    }
    ticks() - start
}

/// Measures and prints all rows.
pub(crate) fn run(world: &World, loops: u64) -> Outcome {
    let scale = ticks_of_a_million();
    say!("count ticks_of_a_million_instructions {scale}");
    let instructions = |ticks: u64, turns: u64| ticks * 1_000_000 / scale / turns;
    for (name, space) in [("unmapping", world.space), ("retaining", world.retaining)] {
        for count in [1, 16, 64] {
            let pairs = || alloc_and_free(space, count);
            say!("count {name}/vmalloc/{count} {}", instructions(measure(pairs)?, TURNS));
        }
    }
    for count in [1, 8, 16, 32, 64] {
        for (name, lent) in [("scattered", Lent::scattered(world, count)?), ("consecutive", Lent::consecutive(world, count)?)] {
            let pairs = || map_and_unmap(world.space, &lent.frames);
            say!("count {name}/vm_map_ram/{count} {}", instructions(measure(pairs)?, TURNS));
            world.space.purge()?;
        }
    }
    for (name, space) in [("unmapping", world.space), ("retaining", world.retaining)] {
        for case in &CASES {
            let ticks = case.ticks(&mut Context::new(world, space, 1, loops))?;
            say!("count {name}/{} {}", case.name, instructions(ticks, 1000));
            space.purge()?;
        }
    }
    world.check_whole()
}

/// Ticks of all turns, after some that are not counted.
fn measure(mut turn: impl FnMut() -> Outcome) -> Result<u64, Failure> {
    (0..TURNS / 4).try_for_each(|_| turn())?;
    let start = ticks();
    (0..TURNS).try_for_each(|_| turn())?;
    Ok(ticks() - start)
}

fn alloc_and_free(space: &Space, count: usize) -> Outcome {
    free(space, pages(space, count)?)
}

fn map_and_unmap(space: &Space, frames: &[Frame]) -> Outcome {
    let addr = space.vm_map_ram(frames)?;
    // SAFETY: nothing uses it.
    Ok(unsafe { space.vm_unmap_ram(addr, frames.len()) }?)
}
