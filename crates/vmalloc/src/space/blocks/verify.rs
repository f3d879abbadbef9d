//! The invariants of blocks, checked.

use crate::area_map::Violation;
use crate::block::{Block, Hot, Place, Run, Window};
use crate::platform::Platform;
use crate::space::annotations::Table;
use crate::space::{Kind, Space};
use alloc::vec::Vec;
use lock_api::MutexGuard;

impl<P: Platform> Space<P> {
    /// S3 and B1 to B3, for a space at rest whose annotations and nodes are held.
    pub(in crate::space) fn verify_blocks(
        &self,
        tables: &[MutexGuard<'_, P::RawLock, Table>],
    ) -> Result<(), Violation> {
        let queues: Vec<_> =
            self.blocks.queues.iter().map(|queue| (queue.0.slow.lock(), &queue.0.hot)).collect();
        let hot = queues.iter().flat_map(|(_, hot)| hot.iter().map(Hot::window));
        let windows: Vec<Window> = hot.filter(Window::is_some).collect();
        let shelf = self.blocks.shelf.0.lock();
        let noted = tables.iter().flat_map(|table| table.values());
        if noted.filter(|annotation| annotation.kind == Kind::Block).count() != shelf.all.len() {
            return Err(Violation { invariant: "S3: not every block is an area", page: 0 });
        }
        for &first in &shelf.all {
            let Some(block) = self.blocks.get(first) else {
                return Err(Violation { invariant: "S3: a block without its record", page: first });
            };
            let window = windows.iter().find(|window| self.blocks.first(window.end - 1) == first);
            self.verify_block(block, first, window)?;
        }
        Ok(())
    }

    fn verify_block(&self, block: &Block, first: u64, window: Option<&Window>) -> Result<(), Violation> {
        let wrong = |invariant| Err(Violation { invariant, page: first });
        let end = first + self.blocks.slots();
        if (block.place() == Place::Open) != window.is_some() {
            return wrong("B4: a block is open without a window, or has one and is not");
        }
        if block.clean() == self.blocks.slots() || block.place() == Place::Spent {
            return if block.held() == 0 {
                Ok(())
            } else {
                wrong("B2: something of a block is held that is not in use")
            };
        }
        if block.place() == Place::Ready {
            return wrong("B3: a block is ready, and not all clean");
        }
        let sum = |wanted| {
            let wanted = block.runs(first..end).filter(|(_, run)| *run == wanted);
            wanted.map(|(pages, _)| pages.end - pages.start).sum::<u64>()
        };
        let (clean, live, dirty) = (sum(Run::Clean), sum(Run::Live), sum(Run::Dirty));
        let reserved = sum(Run::Reserved);
        if clean + live + dirty + reserved != self.blocks.slots() || reserved != window.map_or(0, Window::len)
        {
            return wrong("B1: the bytes of a block do not read as its runs");
        }
        if block.held() != live + reserved {
            return wrong("B2: held slots");
        }
        if block.clean() != clean { wrong("B3: clean slots") } else { Ok(()) }
    }
}
