//! Other users of a space.
//!
//! A kernel's address space is never empty, and never at rest: areas of every size come and go
//! beside those of a test, and leave holes in which a small request fits and a large one does not.
//! That is what caches of positions meet in life, and do not in an empty space.

use super::guarded;
use crate::design::{Design, Refusal};
use crate::rng::Rng;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vmalloc_kit::hooks::quietly;

/// A steady set of areas of 1 to 64 pages, of which one is replaced now and then.
pub struct Tenants(Mutex<(Vec<u64>, Rng)>);

/// How many there are: a virtual machine of 2 CPUs has 200 after boot, a large server some
/// thousands.
const AREAS: usize = 8_000;
/// How often each has been replaced before a test begins, on average: until then holes and areas
/// have found their balance.
const AGE: usize = 2;
/// Loops of a test from one replacement to the next.
const PERIOD: u64 = 10;

impl Tenants {
    /// Moves them in.
    ///
    /// # Errors
    /// When there is no room.
    pub fn move_in(design: &dyn Design) -> Result<Self, Refusal> {
        let mut rng = Rng::new(0x7e4a);
        let areas = (0..AREAS).map(|_| design.alloc(&guarded(rng.between(1, 64))));
        let areas = areas.collect::<Result<Vec<_>, _>>()?;
        let tenants = Self(Mutex::new((areas, rng)));
        (0..AGE * AREAS).try_for_each(|_| tenants.replace_one(design))?;
        Ok(tenants)
    }

    /// Replaces an area in every tenth loop of a case.
    pub(super) fn live(&self, design: &dyn Design, nth: u64) -> Result<(), Refusal> {
        if nth.is_multiple_of(PERIOD) { self.replace_one(design) } else { Ok(()) }
    }

    fn replace_one(&self, design: &dyn Design) -> Result<(), Refusal> {
        let (pages, gone) = quietly(|| {
            let (areas, rng) = &mut *self.set();
            let which = rng.below(areas.len() as u64) as usize;
            (rng.between(1, 64), areas.swap_remove(which))
        });
        design.free(gone)?;
        let came = design.alloc(&guarded(pages))?;
        quietly(|| self.set().0.push(came));
        Ok(())
    }

    fn set(&self) -> MutexGuard<'_, (Vec<u64>, Rng)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
