//! One program on a space, every answer judged.

use super::generator::SpaceGenerator;
use super::live::Live;
use super::mismatch::{SpaceFailure, SpaceMismatch};
use super::op::{SpaceOp, Target};
use super::wish::Wish;
use super::witness::Witness;
use crate::ask::Ask;
use crate::source::Source;
use vmalloc::area_map::Violation;
use vmalloc::{AllocError, AreaInfo, FreeError, Kind, PageRange, Platform, Space};

/// A space under test, its live areas, and the witness that looks behind it.
#[allow(missing_debug_implementations)]
pub struct SpaceSession<P: Platform, W> {
    space: Space<P>,
    witness: W,
    live: Live,
    /// True if a fault may keep freed areas from coming back: a refusal may then be premature.
    faulty: bool,
}

impl<P: Platform, W: Witness<P>> SpaceSession<P, W> {
    /// Begins with `space`, which is empty.
    pub fn new(space: Space<P>, witness: W) -> Self {
        let live = Live::new(space.geometry().span, space.geometry().page_shift);
        Self { space, witness, live, faulty: false }
    }

    /// Returns the space under test.
    pub const fn space(&self) -> &Space<P> {
        &self.space
    }

    /// Runs up to `count` operations of `generator`, then frees everything.
    ///
    /// # Errors
    /// The first wrong answer, and the operations that led to it.
    pub fn run<S: Source>(
        mut self,
        mut generator: SpaceGenerator<S>,
        count: usize,
    ) -> Result<W, SpaceFailure> {
        let mut ops = Vec::new();
        while ops.len() < count
            && let Some(op) = generator.next(self.live.count())
        {
            ops.push(op);
            if let Err(mismatch) = self.step(&op) {
                return Err(SpaceFailure { mismatch, ops });
            }
        }
        self.finish().map_err(|mismatch| SpaceFailure { mismatch, ops })
    }

    /// Runs one operation and judges the answer and the figures.
    ///
    /// # Errors
    /// The first mismatch. A broken platform contract or invariant inside the space is a panic.
    pub fn step(&mut self, op: &SpaceOp) -> Result<(), Box<SpaceMismatch>> {
        match *op {
            SpaceOp::Alloc(wish) => self.alloc(&wish, Kind::Vmalloc)?,
            SpaceOp::Reserve(wish) => self.alloc(&wish, Kind::Reserved)?,
            SpaceOp::Vfree(target) => self.free(target, Kind::Vmalloc)?,
            SpaceOp::Unreserve(target) => self.free(target, Kind::Reserved)?,
            SpaceOp::Find(target) => self.find(self.live.address(target))?,
            SpaceOp::Walk => self.walk()?,
            SpaceOp::Purge => self.purge()?,
            SpaceOp::Move(cpu) => self.witness.move_to(self.space.platform(), cpu),
            SpaceOp::Fail(call, nth) => {
                self.faulty = true;
                self.witness.fail(self.space.platform(), call, nth);
            }
        }
        self.space.verify().map_err(violation)?;
        self.check_stats()
    }

    /// Frees everything, purges, and checks that the space is whole.
    ///
    /// # Errors
    /// The first mismatch: areas, addresses or pages that are missing.
    pub fn finish(mut self) -> Result<W, Box<SpaceMismatch>> {
        while let Some(area) = self.live.first() {
            self.free(Target::Address(area.addr), area.kind)?;
        }
        self.purge()?;
        self.walk()?;
        self.check_stats()?;
        let (stats, span) = (self.space.stats(), self.live.span().len());
        equal("free_pages", stats.free_pages, span)?;
        equal("largest_free_pages", stats.largest_free_pages, span)?;
        self.space.verify().map_err(violation)?;
        self.witness.ends(self.space.platform());
        Ok(self.witness)
    }

    fn alloc(&mut self, wish: &Wish, kind: Kind) -> Result<(), Box<SpaceMismatch>> {
        let request = wish.request();
        let failed = self.witness.failed(self.space.platform());
        let before = self.standing();
        let got = match kind {
            Kind::Reserved => self.space.raw().reserve(&request),
            _ => self.space.raw().alloc(&request),
        };
        let wrong = |want: String| Err(Box::new(SpaceMismatch::Alloc { wish: *wish, got, want }));
        let ask = match wish.ask(self.live.span(), self.live.page_shift(), self.guards()) {
            Ok(ask) => ask,
            Err(legal) if got.is_err_and(|error| legal.contains(&error)) => {
                let after = self.standing();
                return if after == before {
                    Ok(())
                } else {
                    wrong(format!("no change: {after:?}, {before:?}"))
                };
            }
            Err(legal) => return wrong(format!("one of {legal:?}")),
        };
        match got {
            Ok(addr) => self.appeared(wish, &ask, kind, addr),
            Err(AllocError::NoSpace(figures)) => {
                let within = ask.limits.unwrap_or(self.live.span());
                if (figures.pages, figures.align, figures.within) != (ask.pages, ask.align, within) {
                    return wrong(format!("the figures of {ask:?}"));
                }
                match self.live.place(&ask) {
                    // Whatever was freed is back before a request is refused, unless a fault kept
                    // it.
                    Ok(range) if !self.faulty => wrong(format!("{range:?}")),
                    _ => Ok(()),
                }
            }
            Err(AllocError::Unbacked(_)) if self.witness.failed(self.space.platform()) > failed => Ok(()),
            Err(_) => wrong("an area".into()),
        }
    }

    /// Returns the areas and pages that are handed out.
    fn standing(&self) -> (u64, u64) {
        // Any allocation may purge first, where much is lazy: what is not busy may become another
        // thing that is not.
        let stats = self.space.stats();
        (stats.busy_areas, stats.busy_pages)
    }

    /// Returns whether areas have a guard page unless their request says otherwise.
    fn guards(&self) -> bool {
        self.space.config().guard
    }

    fn appeared(
        &mut self,
        wish: &Wish,
        ask: &Ask,
        kind: Kind,
        addr: usize,
    ) -> Result<(), Box<SpaceMismatch>> {
        let illegal = |why| Err(Box::new(SpaceMismatch::Illegal { wish: *wish, addr, why }));
        let shift = self.live.page_shift();
        if !addr.is_multiple_of(wish.align().max(1 << shift)) {
            return illegal("it is not aligned");
        }
        match PageRange::from_len(addr as u64 >> shift, ask.pages) {
            Some(range) if ask.is_met_by(range) && self.live.span().covers(&range) => {}
            _ => return illegal("it is outside the limits"),
        }
        let Some(area) = self.space.find(addr) else { return illegal("it can't be found") };
        let guard = wish.has_guard(self.guards());
        let pages = ask.pages - u64::from(guard);
        let told = (area.addr, area.bytes, area.guard, area.kind, area.tag);
        if told != (addr, wish.bytes, guard, kind, wish.tag.map(Into::into)) {
            return illegal("its record is wrong");
        }
        // Memory that is reused may be somewhat more than was asked for.
        let percent =
            self.space.config().max_slack_percent.unwrap_or(self.space.geometry().max_slack_percent);
        let extra = if kind == Kind::Vmalloc { pages * u64::from(percent) / 100 } else { 0 };
        if !(pages..=pages + extra).contains(&area.pages) {
            return illegal("it has too few or too many pages");
        }
        if !self.live.insert(area) {
            return illegal("it overlaps another area or its guard");
        }
        self.witness.appeared(self.space.platform(), &area, wish.content);
        Ok(())
    }

    #[allow(unsafe_code)]
    fn free(&mut self, target: Target, kind: Kind) -> Result<(), Box<SpaceMismatch>> {
        let addr = self.live.address(target);
        let area = self.live.at_start(addr).filter(|area| area.kind == kind);
        if let Some(area) = area {
            self.witness.leaves(self.space.platform(), &area);
        }
        let got = match kind {
            // SAFETY: nothing uses the addresses any more.
            Kind::Reserved => unsafe { self.space.raw().unreserve(addr) },
            _ => self.free_raw(addr),
        };
        match (got, area) {
            (Ok(()), Some(area)) => self.live.remove(&area),
            (Err(error), None) if self.is_right(addr, error) => {}
            _ => {
                let want =
                    self.live.holder(addr).map_or("no area".into(), |area| format!("that of {area:?}"));
                return Err(Box::new(SpaceMismatch::Free { addr, got, want }));
            }
        }
        Ok(())
    }

    #[allow(unsafe_code)]
    fn free_raw(&self, addr: usize) -> Result<(), FreeError> {
        // SAFETY: what the space handed out is owned by this session, and only the witness touches
        // it, which has just seen it leave. Any other address is to be refused.
        unsafe { self.space.raw().free(addr) }
    }

    /// Returns whether `error` is right for an address that can't be freed.
    fn is_right(&self, addr: usize, error: FreeError) -> bool {
        let page = addr as u64 >> self.live.page_shift();
        let holder = self.live.holder(addr);
        let first_page = |area: AreaInfo| area.addr as u64 >> self.live.page_shift();
        let starts_page = addr.is_multiple_of(1 << self.live.page_shift());
        match holder.map(first_page) {
            Some(_) if !starts_page => error == FreeError::Unaligned { addr },
            Some(start) if start == page => error == FreeError::WrongKind { page },
            Some(start) => error == FreeError::Interior { page, start },
            // It may lie in an area that was freed and is not back yet.
            None => match error {
                FreeError::NotAnArea { page: told } | FreeError::AlreadyFreed { page: told } => told == page,
                FreeError::Interior { page: told, start } => told == page && start < page,
                _ => false,
            },
        }
    }

    fn find(&self, addr: usize) -> Result<(), Box<SpaceMismatch>> {
        let got = self.space.find(addr);
        let want = self.live.holder(addr);
        // Whether the guard belongs to the area is left to the space.
        let in_guard =
            want.is_some_and(|area| addr - area.addr >= (area.pages as usize) << self.live.page_shift());
        if got == want || (in_guard && got.is_none()) {
            Ok(())
        } else {
            Err(Box::new(SpaceMismatch::Find { addr, got, want }))
        }
    }

    fn walk(&self) -> Result<(), Box<SpaceMismatch>> {
        let mut walk = self.space.areas();
        for want in self.live.areas() {
            let got = walk.next();
            if got != Some(want) {
                return Err(Box::new(SpaceMismatch::Find { addr: want.addr, got, want: Some(want) }));
            }
        }
        match walk.next() {
            None => Ok(()),
            Some(area) => Err(Box::new(SpaceMismatch::Find { addr: area.addr, got: Some(area), want: None })),
        }
    }

    /// Purges with all faults gone: everything must be back then.
    fn purge(&mut self) -> Result<(), Box<SpaceMismatch>> {
        self.witness.heal(self.space.platform());
        let purged = self.space.purge();
        equal("errors of a purge without faults", u64::from(purged.is_err()), 0)?;
        self.faulty = false;
        let stats = self.space.stats();
        equal("lazy_pages", stats.lazy_pages, 0)?;
        equal("lazy_areas", stats.lazy_areas, 0)?;
        equal("cached_pages", stats.cached_pages, 0)?;
        equal("cached_areas", stats.cached_areas, 0)?;
        equal("pooled_areas", stats.pooled_areas, 0)?;
        equal("largest_free_pages", stats.largest_free_pages, self.live.largest_free())
    }

    fn check_stats(&self) -> Result<(), Box<SpaceMismatch>> {
        let stats = self.space.stats();
        let waiting = stats.lazy_pages + stats.cached_pages + stats.pooled_pages;
        let sum = stats.busy_pages + waiting + stats.free_pages;
        equal("span_pages", stats.span_pages, self.live.span().len())?;
        equal("busy_areas", stats.busy_areas, self.live.count() as u64)?;
        equal("busy_pages", stats.busy_pages, self.live.pages())?;
        equal("busy + lazy + cached + pooled + free pages", sum, self.live.span().len())
    }
}

fn violation(violation: Violation) -> Box<SpaceMismatch> {
    Box::new(SpaceMismatch::Violation(violation))
}

fn equal(figure: &'static str, got: u64, want: u64) -> Result<(), Box<SpaceMismatch>> {
    if got == want { Ok(()) } else { Err(Box::new(SpaceMismatch::Figure { figure, got, want })) }
}
