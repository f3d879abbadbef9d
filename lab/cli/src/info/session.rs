//! The session: a few areas of each kind, some of them freed again.

use crate::borrowed_frames::BorrowedFrames;
use crate::cases::Area;
use crate::machine::Machine;
use std::error::Error;
use vmalloc::{Frame, Protection, Request};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Frames of the session.
const FRAMES: usize = 4;

/// Areas that stay.
fn kept() -> [Request; 5] {
    [
        Request::new(8 * MIB).align(2 * MIB).zeroed().tag("frame_buffer"),
        Request::new(256 * KIB).tag("ring_buffer"),
        Request::new(16 * KIB).align(16 * KIB).tag("stack"),
        Request::new(100_000).tag("symbol_table"),
        Request::new(64 * KIB).guard(false).tag("dense_table"),
    ]
}

/// Areas that are freed: small ones that may be kept for reuse, and one that is too large for that.
fn freed() -> [Request; 3] {
    [4 * KIB, 128 * KIB, 4 * MIB].map(|bytes| Request::new(bytes).tag("scratch"))
}

/// Allocates, reserves, maps, and frees some; looks; frees the rest.
pub(super) fn session<T>(machine: &Machine, look: impl FnOnce() -> T) -> Result<T, Box<dyn Error>> {
    let raw = machine.space.raw();
    let mut areas = touched(machine, &kept())?;
    let scratch = touched(machine, &freed())?;
    let reserved = raw.reserve(&Request::new(MIB).tag("device_registers"))?;
    // The area of code is freed as the others are.
    areas.push(Area::from_addr(machine, raw.alloc_exec(&Request::new(8 * KIB).tag("code"))?));
    let look = || -> Result<T, Box<dyn Error>> {
        scratch.into_iter().try_for_each(Area::free)?;
        Ok(look())
    };
    // Where addresses are too few for a supply of frames, nothing is mapped.
    let seen = if machine.space.geometry().linear_map.is_some() { mapped(machine, look) } else { look() };
    areas.into_iter().try_for_each(Area::free)?;
    // SAFETY: nothing uses the addresses any more.
    unsafe { raw.unreserve(reserved) }?;
    seen
}

fn touched<'m>(machine: &'m Machine, requests: &[Request]) -> Result<Vec<Area<'m>>, vmalloc::AllocError> {
    let mut areas: Vec<_> =
        requests.iter().map(|request| Area::new(machine, request)).collect::<Result<_, _>>()?;
    areas.iter_mut().for_each(Area::touch);
    Ok(areas)
}

/// Maps pages that belong to an owner already in every way, looks, and unmaps them.
fn mapped<T>(
    machine: &Machine,
    look: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    let (space, page_bytes, write) = (&machine.space, machine.page_bytes, Protection::ReadWrite);
    let (raw, request) = (space.raw(), |pages: usize, tag| Request::new(pages * page_bytes).tag(tag));
    let borrowed = BorrowedFrames::take(machine, FRAMES)?;
    // As a list that begins at its end, so they are not where they always are.
    let frames: Vec<Frame> = borrowed.frames().iter().rev().copied().collect();
    let list = raw.map(&frames, write, Some("page_list"))?;
    let brief = machine.short.map(&frames)?;
    let user = raw.alloc_shared(&request(16, "shared_buffer"))?;
    let shown = raw.map_shared(user, 4 * page_bytes, Protection::Read, Some("shown_again"))?;
    let sparse = raw.reserve(&request(1024, "sparse_file"))?;
    // SAFETY: the area has just been made, and nothing else knows it.
    unsafe { raw.map_pages(sparse + 7 * page_bytes, &frames, write) }?;
    let offsets: Vec<_> = (0..space.geometry().cpus).map(|cpu| cpu * 16 * page_bytes).collect();
    let sizes = vec![page_bytes; offsets.len()];
    let percpu = vmalloc_percpu::alloc(space, &offsets, &sizes, page_bytes)?;
    let seen = look();
    // SAFETY: the session made all of these, and nothing uses them.
    unsafe {
        vmalloc_percpu::free(space, percpu, &offsets, &sizes)?;
        raw.unreserve(sparse)?;
        raw.unmap(shown)?;
        raw.free(user)?;
        machine.short.unmap(brief, FRAMES)?;
        raw.unmap(list)?;
    }
    seen
}
