//! Ours, the peers from crates.io, and two baselines, each behind [`Ranges`].

mod baseline;
mod blocks;
mod house;
mod noop;
mod ours;
mod peers;

pub use baseline::{BTreeAreas, BTreeBest, BTreeFirst};
pub use blocks::Blocks;
pub use house::{Caller, Drained, House};
pub use noop::Noop;
pub use ours::{Map, OurSpace};
pub use peers::{FreeListPages, Offset, RangeAlloc, VmAllocator};

use crate::ranges::Ranges;
use crate::workload::{Cycle, Layer, Workload};
use vmalloc_kit::null::FirstCpu;
use vmalloc_linux::FutexLock;

/// Something done with each adapter, whose type differs every time.
pub trait Visitor {
    /// Called once for an adapter.
    fn visit<R: Ranges + 'static>(&mut self);
}

/// Shows `visitor` ours, the peers and the baselines, in the order of the tables, able or not.
pub fn each(workload: &Workload, visitor: &mut impl Visitor) {
    match workload.layer {
        // What the others offer for that is W4.
        Layer::Blocks => {
            visitor.visit::<Blocks<Caller<FutexLock, FirstCpu>>>();
            return visitor.visit::<Noop>();
        }
        Layer::Map => visitor.visit::<Map>(),
        // The others round as the caller does.
        Layer::OddSpace => {
            visitor.visit::<OurSpace<true, Caller<FutexLock, FirstCpu>, true>>();
            visitor.visit::<OurSpace<false, Caller<FutexLock, FirstCpu>, true>>();
            return visitor.visit::<Noop>();
        }
        Layer::Space => {
            visitor.visit::<OurSpace<true, Caller<FutexLock, FirstCpu>>>();
            visitor.visit::<OurSpace<false, Caller<FutexLock, FirstCpu>>>();
        }
    }
    visitor.visit::<BTreeFirst>();
    visitor.visit::<BTreeBest>();
    if workload.finds() {
        visitor.visit::<BTreeAreas>();
    }
    visitor.visit::<VmAllocator>();
    visitor.visit::<FreeListPages>();
    visitor.visit::<RangeAlloc>();
    visitor.visit::<Offset>();
    visitor.visit::<Noop>();
}

/// Shows `visitor` our spaces that are drained by a thread: for measurements of wall time, as what
/// the thread does is in no other.
pub fn each_drained(visitor: &mut impl Visitor) {
    visitor.visit::<OurSpace<true, Drained<FutexLock, FirstCpu>>>();
    visitor.visit::<OurSpace<false, Drained<FutexLock, FirstCpu>>>();
}

/// Returns true if `R` offers all that `workload` asks for.
pub fn is_able<R: Ranges>(workload: &Workload) -> bool {
    (R::ALIGNS || !workload.aligns())
        && (R::FINDS || !workload.finds())
        && (R::NEARS || workload.cycle != Cycle::Near)
}

#[cfg(test)]
mod tests;
