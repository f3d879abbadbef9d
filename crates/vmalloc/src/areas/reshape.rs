//! Another range for a busy area, which starts at the same page.
//!
//! In the area map a change of size is a free and an allocation at the same place, with the map
//! held: other threads see one or the other.

use super::annotations::remove;
use super::{Annotation, AreaInfo, Areas, HeldMap, Table};
use crate::AllocError;
use crate::PageRange;
use lock_api::{MutexGuard, RawMutex};
use vmalloc_map::NoArea;
use vmalloc_map::parts::Leaf;

impl<L: RawMutex> Areas<L> {
    /// Returns the annotation of the area that this tells of.
    pub(crate) fn annotation_of(&self, info: &AreaInfo) -> Annotation {
        Annotation { kind: info.kind, guard_pages: u64::from(info.guard), tag: info.tag }
    }

    /// Locks the table of the annotation of the area at `page`, and makes room for one more.
    fn roomy_table(&self, page: u64) -> Result<MutexGuard<'_, L, Table>, AllocError> {
        let mut table = self.table(page);
        table.try_reserve(1).map_err(|_| AllocError::Metadata)?;
        Ok(table)
    }

    /// Enters `annotation` for the area at `page`, which lies in `leaf`, into its table, which has
    /// room. If the annotation is plain, removes the one that the area has.
    fn set_annotation(&self, table: &mut Table, leaf: &Leaf, page: u64, annotation: Annotation) {
        if !annotation.is_plain(self.guard) {
            table.insert(page, annotation);
            leaf.annotation_entered(page);
        } else if remove(table, page) {
            leaf.annotations_left(page);
        }
    }

    /// Makes the busy area `old` the area `new`, with another annotation. The pages that are left
    /// of a larger one are retired. The table and the map are held together, so no look-up finds
    /// the range of one with the annotation of the other.
    pub(crate) fn reshape(
        &self,
        old: PageRange,
        new: PageRange,
        annotation: Annotation,
    ) -> Result<Reshaped, NoArea> {
        let Ok(mut table) = self.roomy_table(old.start()) else {
            return Ok(Err(AllocError::Metadata));
        };
        let mut map = self.map();
        let facts = Facts::of(map.leaf(old.start()), old.start());
        let result = replace(&mut map, old, new)?;
        facts.restore(map.leaf(old.start()), old.start());
        if result.is_ok() {
            let leaf = map.leaf(new.start());
            self.set_annotation(&mut table, leaf, new.start(), annotation);
        }
        Ok(result)
    }

    /// Makes the busy area `new` the smaller area `old` again, with its annotation. The rest is
    /// free, and was never mapped.
    pub(crate) fn unreshape(
        &self,
        new: PageRange,
        old: PageRange,
        annotation: Annotation,
    ) -> Result<(), NoArea> {
        let mut table = self.table(old.start());
        let mut map = self.map();
        cut_back(&mut map, new, old)?;
        // There is room for the annotation that was there.
        let _ = table.try_reserve(1);
        self.set_annotation(&mut table, map.leaf(old.start()), old.start(), annotation);
        Ok(())
    }

    /// Cuts the claimed area `area` down to `part`, which starts at the same page. The rest is
    /// free, and was never mapped.
    pub(crate) fn trim(&self, area: PageRange, part: PageRange) -> Result<(), NoArea> {
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
) -> Result<Reshaped, NoArea> {
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
                Err(_) => Err(NoArea::Nothing { page: old.start() }),
            }
        }
    }
}

fn cut_back<L: RawMutex>(map: &mut HeldMap<'_, L>, old: PageRange, new: PageRange) -> Result<(), NoArea> {
    let facts = Facts::of(map.leaf(old.start()), old.start());
    map.free(old.start())?;
    // It takes no more records than the larger one.
    map.alloc_at(new).map_err(|_| NoArea::Nothing { page: new.start() })?;
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
