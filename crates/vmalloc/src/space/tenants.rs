//! The calls of a space that its tenants make: see [`tenant`](crate::tenant).

use super::claim::Backing;
use super::purging::Purge;
use super::{Raw, Space};
use crate::PageRange;
use crate::areas::{Annotation, Blocking, Kind, Tag};
use crate::platform::Platform;
use crate::purge::tenant::{Tally, Tenant};
use crate::wait::Fraction;
use crate::{AllocError, Fit};
use alloc::sync::Arc;

impl<P: Platform> Raw<'_, P> {
    /// Claims an area of `pages` pages for a tenant, at a multiple of `align` pages and without a
    /// guard page. Nothing is mapped there. `tag` says what its parts are. Cost as
    /// [`Raw::reserve`](Self::reserve).
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[doc(hidden)]
    pub fn claim_for_tenant(&self, pages: u64, align: u64, tag: Tag) -> Result<PageRange, AllocError> {
        let area = self.space.claim_high(&Fit::new(pages).align(align), Blocking::Allowed)?;
        self.space.hand_out(area, Annotation::new(Kind::Tenant, 0, Some(tag)), Backing::None)?;
        Ok(area)
    }

    /// Gives an area of a tenant back to the map.
    ///
    /// # Safety
    /// The area is one of [`claim_for_tenant`](Self::claim_for_tenant), which its tenant does not
    /// have any more. Nothing uses its pages, and they are flushed, or were never mapped.
    #[doc(hidden)]
    pub unsafe fn release_for_tenant(&self, area: PageRange) {
        self.space.give_up_tenants(area);
    }
}

impl<P: Platform> Space<P> {
    /// Adds a tenant, which stays for the life of the space. Waits for a purge under way.
    ///
    /// # Safety
    /// The tenant is added to no other space, and once.
    /// - The areas that it [has](Tenant::has), [collects](Tenant::collect) parts of and
    ///   [spares](Tenant::spare) are of [`claim_for_tenant`](Raw::claim_for_tenant) of this space,
    ///   and no other tenant's.
    /// - What it collects nothing uses until it is [flushed](Tenant::flushed). What it spares
    ///   nothing uses, and it is flushed or was never mapped.
    ///
    /// # Errors
    /// [`AllocError::Metadata`]; nothing is changed.
    pub unsafe fn add_tenant(&self, tenant: Arc<dyn Tenant>) -> Result<(), AllocError> {
        // A fork holds the purger: all tenants that it locks are unlocked after it.
        let _purge = self.hold_purger();
        if self.tenants.add(tenant) { Ok(()) } else { Err(AllocError::Metadata) }
    }

    /// Returns the first tenant of the type `T`.
    #[must_use]
    pub fn tenant<T: Tenant>(&self) -> Option<Arc<T>> {
        self.tenants.iter().find_map(|tenant| tenant.clone().into_any().downcast().ok())
    }

    /// Lets a tenant count areas that wait for a purge, and has them drained then if they are too
    /// many. `act` may take locks of the tenant; when it returns it holds none.
    #[inline]
    pub fn tally<T>(&self, act: impl FnOnce(&mut Tally<'_>) -> T) -> T {
        let mut tally = Tally { lazy: &self.cache.lazy, most: None };
        let result = act(&mut tally);
        tally.most.into_iter().for_each(|most| self.trigger_drain(usize::MAX, most));
        result
    }

    pub(super) fn give_up_tenants(&self, area: PageRange) {
        // What the annotation says besides makes no difference.
        self.give_up(area, Annotation::new(Kind::Tenant, 0, None));
    }
}

impl<P: Platform> Purge<'_, P> {
    /// Gives a fraction of the tenants' spare areas to the map, `most` at most. Returns how many.
    pub(super) fn release_spare(&self, fraction: Option<Fraction>, most: u64) -> u64 {
        let mut given = 0;
        for tenant in self.space.tenants.iter() {
            let spare = tenant.counts().spare_areas;
            let part = fraction.map_or(0, |of| if of == Fraction::All { spare } else { spare.div_ceil(4) });
            tenant.spare(part.min(most - given), &mut |area| {
                self.space.give_up_tenants(area);
                given += 1;
            });
        }
        given
    }
}
