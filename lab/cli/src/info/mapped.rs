//! The part of the session that maps pages which belong to an owner already.

use super::session::refused;
use crate::borrowed_frames::BorrowedFrames;
use crate::error::Failure;
use crate::machine::Machine;
use vmalloc::{Frame, Protection, Request};

/// Frames of the session.
const FRAMES: usize = 4;

/// The mappings of the session: none where addresses are too few for a supply of frames.
pub(super) struct Mapped<'m>(Option<Areas<'m>>);

struct Areas<'m> {
    machine: &'m Machine,
    borrowed: BorrowedFrames<'m>,
    /// The frames as a list, which begins at its end; so they are not where they always are.
    list: usize,
    /// A short mapping of the frames.
    brief: usize,
    /// Memory that is shown a second time, and where.
    user: [usize; 2],
    sparse: usize,
    percpu: usize,
    offsets: Vec<usize>,
}

impl<'m> Mapped<'m> {
    /// Maps frames in every way.
    pub(super) fn begin(machine: &'m Machine) -> Result<Self, Failure> {
        if machine.space.geometry().linear_map.is_none() {
            return Ok(Self(None));
        }
        Areas::begin(machine).map(|areas| Self(Some(areas)))
    }

    /// Unmaps all of it.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.0.map_or(Ok(()), Areas::end)
    }
}

impl<'m> Areas<'m> {
    fn begin(machine: &'m Machine) -> Result<Self, Failure> {
        let (space, page_bytes) = (&machine.space, machine.page_bytes);
        let borrowed = BorrowedFrames::take(machine, FRAMES).map_err(refused)?;
        let frames: Vec<Frame> = borrowed.frames().iter().rev().copied().collect();
        let write = Protection::ReadWrite;
        let request = |pages: usize, tag| Request::new(pages * page_bytes).tag(tag);
        let list = space.raw().map(&frames, write, Some("page_list")).map_err(refused)?;
        let brief = machine.short.map(&frames).map_err(refused)?;
        let user = space.raw().alloc_shared(&request(16, "shared_buffer")).map_err(refused)?;
        let shown = space.raw().map_shared(user, 4 * page_bytes, Protection::Read, Some("shown_again"));
        let sparse = space.raw().reserve(&request(1024, "sparse_file")).map_err(refused)?;
        // SAFETY: the area has just been made, and nothing else knows it.
        unsafe { space.raw().map_pages(sparse + 7 * page_bytes, &frames, write) }.map_err(refused)?;
        let offsets: Vec<_> = (0..space.geometry().cpus).map(|cpu| cpu * 16 * page_bytes).collect();
        let percpu = vmalloc_percpu::alloc(space, &offsets, &vec![page_bytes; offsets.len()], page_bytes);
        let (user, percpu) = ([user, shown.map_err(refused)?], percpu.map_err(refused)?);
        Ok(Self { machine, borrowed, list, brief, user, sparse, percpu, offsets })
    }

    fn end(self) -> Result<(), Failure> {
        let space = &self.machine.space;
        let sizes = vec![self.machine.page_bytes; self.offsets.len()];
        // SAFETY: nothing uses the addresses any more.
        unsafe { vmalloc_percpu::free(space, self.percpu, &self.offsets, &sizes) }.map_err(refused)?;
        // SAFETY: the session made all of these, and nothing has used them.
        let ended = unsafe {
            [
                space.raw().unreserve(self.sparse),
                space.raw().unmap(self.user[1]),
                space.raw().free(self.user[0]),
                self.machine.short.unmap(self.brief, FRAMES),
                space.raw().unmap(self.list),
            ]
        };
        drop(self.borrowed);
        ended.into_iter().try_for_each(|result| result.map_err(refused))
    }
}
