//! The invariants of blocks, checked.

use super::{Block, BlockState, Blocks, Run, Window};
use alloc::vec::Vec;
use lock_api::RawMutex;
use vmalloc::area_map::Violation;

impl<L: RawMutex> Blocks<L> {
    /// Checks BLOCK-1 to BLOCK-4, while no thread is between two locks.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        // Made before the first lock, and dropped after the last.
        let mut queues = Vec::with_capacity(self.queues.len());
        queues.extend(self.queues.iter().map(|queue| queue.0.state.lock()));
        let lists = self.lists.lock();
        for &first in &lists.all {
            let Some(block) = self.get(first) else {
                return Err(Violation { invariant: "BLOCK-4: a block without its record", at: first });
            };
            let window = self.open_windows().find(|window| self.first(window.end - 1) == first);
            self.check_block(block, first, window.as_ref())?;
        }
        Ok(())
    }

    fn check_block(&self, block: &Block, first: u64, window: Option<&Window>) -> Result<(), Violation> {
        let wrong = |invariant| Err(Violation { invariant, at: first });
        let range = || self.range(first).into();
        if (block.state() == BlockState::Open) != window.is_some() {
            return wrong("BLOCK-4: a block is open without a window, or has one and is not");
        }
        if block.clean() == self.slots() || block.state() == BlockState::Spent {
            let is_right = block.held() == 0;
            let invariant = "BLOCK-2: something of a block is held that is not in use";
            return if is_right { Ok(()) } else { wrong(invariant) };
        }
        if block.state() == BlockState::Ready {
            return wrong("BLOCK-3: a block is ready, and not all clean");
        }
        let sum = |wanted| {
            let runs = block.runs(range()).filter(|(_, run)| *run == wanted);
            runs.map(|(pages, _)| pages.end - pages.start).sum::<u64>()
        };
        let [clean, live, dirty, reserved] = [Run::Clean, Run::Live, Run::Dirty, Run::Reserved].map(sum);
        let is_all = clean + live + dirty + reserved == self.slots();
        if !is_all || reserved != window.map_or(0, Window::len) {
            return wrong("BLOCK-1: the bytes of a block do not read as its runs");
        }
        if block.held() != live + reserved {
            return wrong("BLOCK-2: held slots");
        }
        if block.clean() != clean { wrong("BLOCK-3: clean slots") } else { Ok(()) }
    }
}
