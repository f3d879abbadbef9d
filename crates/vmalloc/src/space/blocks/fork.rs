//! Blocks in a child of a fork: what other threads were in the middle of, nobody will end.

use super::life::ANNOTATION;
use crate::block::{Block, Hot, List, Mark, Place, Run, Window};
use crate::platform::Platform;
use crate::space::{Kind, Space};
use core::sync::atomic::Ordering;

impl<P: Platform> Space<P> {
    /// Ends what threads of the parent were doing with blocks, without locks or between two of them, when it forked. The caller is the
    /// only thread there is, and nobody was purging.
    ///
    /// A block that was being made or given back is given back. Slots taken out of a window and not marked yet are dirty, those
    /// marked as returned are not held, and what was kept for the next one and is in no queue is dirty. Then every block goes where it belongs.
    pub(in crate::space) fn mend_blocks(&self) {
        let mut purger = self.purger.0.lock();
        self.put_off(&mut purger.blocks);
        let refused = self.put_off(&mut purger.refused.blocks);
        self.move_from_refused(refused, refused * self.blocks.slots());
        self.counts.refused_blocks.store(0, Ordering::Relaxed);
        drop(purger);
        while let Some(first) = self.lone_annotation() {
            self.give_up(self.blocks.range(first), ANNOTATION);
        }
        let mut shelf = self.blocks.shelf.0.lock();
        shelf.ready = List::default();
        shelf.part = Default::default();
        drop(shelf);
        self.each_block(|mut shelf, first, block| {
            if block.place() == Place::Spent {
                return;
            }
            if block.clean() == self.blocks.slots() {
                block.put(Place::Ready);
                return shelf.ready.push(first, block);
            }
            let is_open = self.mend_block(block, first);
            match block.held() {
                _ if is_open => block.put(Place::Open),
                // The next purge sees to it.
                0 => block.put(Place::Closed),
                _ => self.settle(shelf, block, first),
            }
        });
    }

    /// An area that is noted as a block and is none.
    fn lone_annotation(&self) -> Option<u64> {
        let shelf = self.blocks.shelf.0.lock();
        let is_lone = |page: &u64| self.blocks.get(*page).is_none_or(|block| !shelf.has(*page, block));
        self.annotations.tables().find_map(|table| {
            let table = table.lock();
            let blocks = table.iter().filter(|(_, annotation)| annotation.kind == Kind::Block);
            blocks.map(|(&page, _)| page).find(is_lone)
        })
    }

    /// Corrects what is known of the slots of a block that has some in use; whether a queue has a window of it.
    fn mend_block(&self, block: &Block, first: u64) -> bool {
        let range = self.blocks.range(first);
        let of_block = |window: Window| window.is_some() && range.contains(window.end - 1);
        let mut windows = self
            .blocks
            .queues
            .iter()
            .filter_map(|queue| queue.0.hot.iter().map(Hot::window).find(|window| of_block(*window)));
        let window = windows.next();
        let (mut held, mut clean) = (0, 0);
        for (run, state) in block.runs(range.into()) {
            let slots = run.end - run.start;
            match (state, block.mark(run.start)) {
                (Run::Reserved, _)
                    if window.is_none_or(|window| !(window.next..window.end).contains(&run.start)) =>
                {
                    block.abandon(run.start);
                }
                (_, Mark::Kept { pages }) if !self.is_kept(run.start) => {
                    block.drop_run(run.start, pages);
                }
                (Run::Reserved | Run::Live, _) => held += slots,
                (Run::Clean, _) => clean += slots,
                (Run::Dirty, _) => {}
            }
        }
        block.set_held(held);
        block.set_clean(clean);
        block.set_stale(true);
        window.is_some()
    }

    /// Whether a queue keeps the run at `page`.
    fn is_kept(&self, page: u64) -> bool {
        self.blocks.queues.iter().any(|queue| queue.0.slow.lock().kept.contains(&page))
    }
}
