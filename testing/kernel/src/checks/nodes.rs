//! Memory nodes, on a machine that has two.

use super::memory::unexpected;
use crate::access;
use crate::memory::PAGE;
use crate::serial::say;
use crate::walk;
use crate::world::{Failure, Outcome, World, ensure, free};
use vmalloc::{AllocError, PlatformFault, Request};

/// Checks that frames are of the node that the context asks for, that a purge gives them back
/// there, and that a node that does not exist is refused.
pub(crate) fn nodes(world: &World) -> Outcome {
    for node in [1, 0, 1] {
        for pages in [1, 4, 16, 64, 600] {
            memory_of(world, node, &Request::new(pages * PAGE))?;
        }
        memory_of(world, node, &Request::new(4 << 20).huge())?;
    }
    say!("ok frames are of the memory node that was asked for, and go back there");
    for request in [Request::new(PAGE), Request::new(600 * PAGE), Request::new(4 << 20).huge()] {
        no_such_node(world, &request)?;
    }
    say!("ok a memory node that does not exist is refused, and nothing changes");
    world.check_whole()
}

/// Returns how many frames of each node are free.
fn free_frames(world: &World) -> Result<[u64; 2], Failure> {
    let supply = &world.kernel.supply;
    let free = |node| supply.node(node).map(|frames| supply.free_of(frames));
    Ok([free(0).ok_or(Failure("no node 0".into()))?, free(1).ok_or(Failure("no node 1".into()))?])
}

fn memory_of(world: &World, node: usize, request: &Request) -> Outcome {
    let (before, tables) = (free_frames(world)?, walk::tables());
    let addr = world.space.raw().with(Some(node)).alloc(request)?;
    let held = free_frames(world)?;
    let frames = world.kernel.supply.node(node).ok_or(Failure("no such node".into()))?;
    let pages = request.bytes() / PAGE;
    for page in 0..pages {
        let word = addr + page * PAGE;
        // SAFETY: the area is this check's.
        unsafe { access::write(word, word as u64) }.map_err(unexpected)?;
        let (physical, _) = walk::leaf(word).ok_or(Failure("no page".into()))?;
        ensure!(frames.contains(&(physical >> 12)), "{physical:#x} is not of node {node}");
    }
    free(world.space, addr)?;
    world.space.purge()?;
    let after = free_frames(world)?;
    same_frames(before, tables, after)?;
    ensure!(
        after[node] >= held[node] + pages as u64,
        "node {node}: {held:?} free before the purge, {after:?} behind it"
    );
    Ok(())
}

fn no_such_node(world: &World, request: &Request) -> Outcome {
    let (before, tables) = (free_frames(world)?, walk::tables());
    let refusal = match world.space.raw().with(Some(2)).alloc(request) {
        Err(AllocError::Unbacked(refusal)) => refusal,
        other => return Err(Failure(alloc::format!("{other:?} of node 2"))),
    };
    ensure!(refusal.cause.fault == PlatformFault::Unsupported, "{refusal}");
    world.space.verify()?;
    world.space.purge()?;
    same_frames(before, tables, free_frames(world)?)
}

/// Checks that as many frames are free as were, but for new page tables, which stay unless a large
/// page takes their place. They are of any node.
fn same_frames(before: [u64; 2], tables: u64, after: [u64; 2]) -> Outcome {
    let (sum, now) = (before[0] + before[1] + tables, walk::tables());
    ensure!(
        sum == after[0] + after[1] + now,
        "{before:?} frames were free beside {tables} tables, and are {after:?} beside {now}"
    );
    Ok(())
}
