//! Blocks in a child of a fork: ending what threads of the parent were in the middle of.

use super::{Block, BlockState, Blocks, List, Run, SlotState};
use lock_api::RawMutex;
use vmalloc::tenant::Tally;

impl<L: RawMutex> Blocks<L> {
    /// Ends what threads of the parent were doing with blocks, without locks or between two of
    /// them. The caller is the only thread there is.
    ///
    /// Slots taken out of a window and not marked yet become dirty. Slots marked as returned are
    /// not held. Runs that were kept and are in no queue become dirty. Then every block goes to the
    /// list that it belongs on.
    pub(crate) fn repair_blocks(&self, tally: &mut Tally<'_>) {
        let mut lists = self.lists.lock();
        lists.ready = List::default();
        lists.part = Default::default();
        drop(lists);
        self.each_block(|mut lists, first, block| {
            if block.state() == BlockState::Spent {
                return;
            }
            if block.clean() == self.slots() {
                block.set_state(BlockState::Ready);
                return lists.ready.push(first, block);
            }
            let is_open = self.repair_slots(block, first);
            match block.held() {
                _ if is_open => block.set_state(BlockState::Open),
                // The next purge sees to it.
                0 => block.set_state(BlockState::Closed),
                _ => self.settle(lists, tally, block, first),
            }
        });
    }

    /// Corrects what is known of the slots of a block that has some in use. Returns whether a queue
    /// has a window of it.
    fn repair_slots(&self, block: &Block, first: u64) -> bool {
        let range = self.range(first);
        let window = self.open_windows().find(|window| range.contains(window.end - 1));
        let (mut held, mut clean) = (0, 0);
        for (run, state) in block.runs(range.into()) {
            let slots = run.end - run.start;
            let is_windows = window.is_some_and(|window| (window.next..window.end).contains(&run.start));
            match (state, block.slot(run.start)) {
                (Run::Reserved, _) if !is_windows => block.abandon(run.start),
                (_, SlotState::Kept { pages }) if !self.is_kept(run.start) => {
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

    /// Returns whether a queue keeps the run at `page` mapped.
    fn is_kept(&self, page: u64) -> bool {
        self.queues.iter().any(|queue| queue.0.state.lock().kept.pages().any(|kept| kept == page))
    }
}
