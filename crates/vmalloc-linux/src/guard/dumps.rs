//! Which chunks of the span are in core dumps, for guards that do not open chunks themselves.
//!
//! The whole span is left out at first: a debugger writes each address that is not, with memory or
//! without. A chunk is in dumps from the first area in it on. Whole chunks, and for ever: one
//! question about a bit is all that later areas cost, and an area lies in one mapping, as
//! [`userfault`](super::userfault) needs it.

use crate::guard::chunks::{ChunkState, Chunks};
use crate::os::madvise::Advice;
use crate::os::map_count::{BUDGET, SPLIT};
use crate::os::reservation::Reservation;
use rustix::io::Errno;
use vmalloc::PageRange;

/// The chunks of the span that are in core dumps.
#[derive(Debug)]
pub(crate) struct Dumps(Chunks);

impl Dumps {
    pub(crate) fn new(span: PageRange) -> Result<Self, Errno> {
        Chunks::new(span).map(Self)
    }

    /// Has the chunks of `range` in core dumps. If the system refuses it, they stay out.
    #[inline]
    pub(crate) fn admit(&self, memory: &Reservation, range: PageRange) {
        if !self.0.is_open(range) {
            self.show(memory, range);
        }
    }

    #[cold]
    fn show(&self, memory: &Reservation, range: PageRange) {
        let chunks = self.0.round_out(range);
        // Two threads may do this for one chunk: it is the same twice.
        if BUDGET.take(SPLIT).is_ok() && memory.advise(chunks, Advice::DoDump).is_ok() {
            self.0.set(chunks, ChunkState::Open);
        }
    }
}
