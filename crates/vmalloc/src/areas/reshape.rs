//! Another range for a busy area, which starts at the same page.
//!
//! In the area map a change of size is a free and an allocation at the same place, with the map
//! held: other threads see one or the other.

use super::{Annotation, Areas, HeldMap};
use crate::PageRange;
use crate::{AllocError, FitError, FreeError};
use lock_api::RawMutex;
use vmalloc_map::parts::Leaf;

impl<L: RawMutex> Areas<L> {
    /// Makes the free pages of `area` a busy area with this annotation.
    pub(crate) fn make_at(&self, area: PageRange, annotation: &Annotation) -> Result<(), FitError> {
        let (page, mut table) = (area.start(), self.table(area.start()));
        let mut map = self.map();
        map.alloc_at(area)?;
        if !table.enter(page, annotation) {
            // It was just made.
            let _ = map.free(page);
            return Err(FitError::Metadata);
        }
        map.leaf(page).annotation_entered(page);
        Ok(())
    }

    /// Makes the busy area `old` the area `new`, with the annotation that it has. The pages that
    /// are left of a larger one are retired. No area beside it loses its annotation meanwhile, for
    /// the table is held, so the mark is right.
    pub(crate) fn reshape(&self, old: PageRange, new: PageRange) -> Result<Reshaped, FreeError> {
        let _table = self.table(old.start());
        let mut map = self.map();
        let facts = Facts::of(map.leaf(old.start()), old.start());
        let result = replace(&mut map, old, new)?;
        facts.restore(map.leaf(old.start()), old.start());
        Ok(result)
    }

    /// Makes the busy area `new` the smaller area `old` again. The rest is free, and was never
    /// mapped.
    pub(crate) fn unreshape(&self, new: PageRange, old: PageRange) -> Result<(), FreeError> {
        let _table = self.table(old.start());
        cut_back(&mut self.map(), new, old)
    }

    /// Cuts the claimed area `area` down to `part`, which starts at the same page. The rest is
    /// free, and was never mapped.
    pub(crate) fn trim(&self, area: PageRange, part: PageRange) -> Result<(), FreeError> {
        let mut map = self.map();
        map.revive(area.start())?;
        cut_back(&mut map, area, part)?;
        // Not busy before it is handed out.
        map.retire(part.start())?;
        Ok(())
    }
}

/// The result of a change of size, where the state is not damaged.
pub(crate) type Reshaped = Result<(), AllocError>;

/// Makes the busy area `old` the area `new`. What is left of a larger one is retired. When that
/// fails, `old` is as it was.
fn replace<L: RawMutex>(
    map: &mut HeldMap<'_, L>,
    old: PageRange,
    new: PageRange,
) -> Result<Reshaped, FreeError> {
    map.free(old.start())?;
    let result = map.alloc_at(new).and_then(|()| {
        let Some(tail) = PageRange::new(new.end(), old.end()) else { return Ok(None) };
        map.alloc_at(tail).map(|()| Some(tail))
    });
    match result {
        Ok(Some(tail)) => {
            map.retire(tail.start())?;
            Ok(Ok(()))
        }
        Ok(None) => Ok(Ok(())),
        Err(refused) => {
            // It may have been entered before its tail was refused.
            let _ = map.free(new.start());
            // The records of `old` have just been given back, so it fits again.
            match map.alloc_at(old) {
                Ok(()) => Ok(Err(refused.into())),
                Err(_) => Err(FreeError::NotAnArea { page: old.start() }),
            }
        }
    }
}

fn cut_back<L: RawMutex>(map: &mut HeldMap<'_, L>, old: PageRange, new: PageRange) -> Result<(), FreeError> {
    let facts = Facts::of(map.leaf(old.start()), old.start());
    map.free(old.start())?;
    // It takes no more records than the larger one.
    map.alloc_at(new).map_err(|_| FreeError::NotAnArea { page: new.start() })?;
    facts.restore(map.leaf(new.start()), new.start());
    Ok(())
}

/// The facts that a leaf may forget with its last area.
struct Facts {
    owner_node: Option<usize>,
    is_annotated: bool,
}

impl Facts {
    fn of(leaf: &Leaf, page: u64) -> Self {
        Self { owner_node: leaf.owner_node(), is_annotated: leaf.may_be_annotated(page) }
    }

    fn restore(self, leaf: &Leaf, page: u64) {
        if let Some(node) = self.owner_node {
            leaf.set_owner_node(node);
        }
        if self.is_annotated {
            leaf.annotation_entered(page);
        }
    }
}
