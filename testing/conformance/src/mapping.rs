//! Mappings of a whole space over the platform, while calls fail.

use crate::bench::word;
use crate::faulty::{Call, Faulty};
use crate::look::{Look, Seen};
use crate::narrow::Narrow;
use std::sync::Arc;
use vmalloc::{AllocError, Config, Frame, FrameSupply, MapFrames, Origin, Protection, Space};

/// Frames of the longest mapping.
const FRAMES: usize = 70;
/// Failures after which a walk is given up.
const MOST: u64 = 500;

/// Maps and unmaps frames again and again, with the first, second, third … call of each kind
/// failing.
pub(crate) fn walk<P: MapFrames>(
    make: &dyn Fn() -> P,
    look: &Arc<dyn Look<P>>,
    narrow: Narrow,
) -> Result<u64, String> {
    let mut failed = 0;
    for call in [Call::MapFrames, Call::Unmap, Call::Flush] {
        for nth in 1..MOST {
            let platform = Faulty::new(make(), Arc::clone(look), narrow);
            if !once(platform, call, nth).map_err(|seen| format!("{call:?} {nth} fails: {seen}"))? {
                break;
            }
            failed += 1;
        }
    }
    Ok(failed)
}

/// Runs the program with one call failing. Returns false if it does not come to that call.
fn once<P: MapFrames>(platform: Faulty<P>, call: Call, nth: u64) -> Result<bool, String> {
    let mut frames = vec![Frame(0); FRAMES];
    platform.take_frames(&mut frames).map_err(|error| error.to_string())?;
    // Not consecutive, so that the linear map does not serve them.
    frames.reverse();
    let space = Space::new(platform, Config::default()).map_err(|error| error.to_string())?;
    space.platform().fail_nth(call, nth);
    for (round, count) in [1, 4, 33, FRAMES, 2, 1, 4].into_iter().enumerate() {
        mapped_short(&space, &frames[..count], round as u64)?;
        mapped(&space, &frames[..count], round as u64)?;
        if round % 3 == 2 {
            // It may be the call that fails.
            let _ = space.purge();
        }
        space.verify().map_err(|violation| violation.to_string())?;
    }
    let happened = space.platform().failed() > 0;
    space.platform().heal();
    space.purge().map_err(|error| error.to_string())?;
    let lost = frames.iter().find(|frame| space.platform().origin(**frame) != Origin::Supply);
    let faults = space.platform().look().faults(space.platform().inner());
    match lost {
        Some(frame) => Err(format!("{frame:?} is no longer taken")),
        None if faults.is_empty() => Ok(happened),
        None => Err(format!("the machine has found misuses: {faults:?}")),
    }
}

fn mapped<P: MapFrames>(space: &Space<Faulty<P>>, frames: &[Frame], seed: u64) -> Result<(), String> {
    let Some(addr) = made(space, space.raw().map(frames, Protection::ReadWrite, None))? else {
        return Ok(());
    };
    shows(space, addr, frames.len(), seed)?;
    // SAFETY: the kit has just mapped it, and uses it no more.
    unsafe { space.raw().unmap(addr) }.map_err(|error| error.to_string())
}

fn mapped_short<P: MapFrames>(space: &Space<Faulty<P>>, frames: &[Frame], seed: u64) -> Result<(), String> {
    let Some(addr) = made(space, space.raw().map_short(frames))? else { return Ok(()) };
    shows(space, addr, frames.len(), seed)?;
    // SAFETY: the kit has just mapped it, and uses it no more.
    unsafe { space.raw().unmap_short(addr, frames.len()) }.map_err(|error| error.to_string())
}

/// Returns the address, or `None` after a failure that has a reason.
fn made<P: MapFrames>(
    space: &Space<Faulty<P>>,
    result: Result<usize, AllocError>,
) -> Result<Option<usize>, String> {
    match result {
        Ok(addr) => Ok(Some(addr)),
        Err(_) if space.platform().failed() > 0 => Ok(None),
        Err(error) => Err(format!("no call failed, and yet: {error}")),
    }
}

/// Writes to each page of a mapping, and reads it back.
fn shows<P: MapFrames>(space: &Space<Faulty<P>>, addr: usize, count: usize, seed: u64) -> Result<(), String> {
    let (platform, shift) = (space.platform(), space.geometry().page_shift);
    let first = (addr >> shift) as u64;
    let (look, inner) = (platform.look(), platform.inner());
    (first..first + count as u64).for_each(|page| look.fill(inner, inner.cpu(), page, word(page, seed)));
    for page in first..first + count as u64 {
        let seen = look.read(inner, inner.cpu(), page);
        if ![Seen::Word(word(page, seed)), Seen::Unknown].contains(&seen) {
            return Err(format!("page {page:#x} of a mapping at {addr:#x} shows {seen:x?}"));
        }
    }
    Ok(())
}
