//! Blocks in a child of a fork: what other threads were in the middle of, nobody will end.

use crate::block::{Block, Hot, Place, Run, Window};
use crate::platform::Platform;
use crate::space::Space;

impl<P: Platform> Space<P> {
    /// Ends what threads of the parent were about to do with slots when it forked: those taken out of a window and not marked yet are
    /// dirty, and those marked as returned are not held. The caller is the only thread there is.
    pub(in crate::space) fn mend_blocks(&self) {
        self.each_block(|shelf, first, block| {
            if block.clean() < self.blocks.slots() && block.place() != Place::Spent {
                drop(shelf);
                self.mend_block(block, first);
            }
        });
    }

    fn mend_block(&self, block: &Block, first: u64) {
        let is_in_window = |page: u64| {
            let covers = |window: Window| (window.next..window.end).contains(&page);
            self.blocks.queues.iter().any(|queue| {
                let in_line = queue.0.slow.lock().line.iter().any(|window| covers(*window));
                in_line || queue.0.hot.iter().map(Hot::window).any(covers)
            })
        };
        let mut held = 0;
        for (run, state) in block.runs(self.blocks.range(first).into()) {
            match state {
                Run::Reserved if !is_in_window(run.start) => block.abandon(run.start),
                Run::Reserved | Run::Live => held += run.end - run.start,
                Run::Clean | Run::Dirty => {}
            }
        }
        block.set_held(held);
    }
}
