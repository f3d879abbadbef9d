//! The checks, put together.

use crate::bench::Bench;
use crate::clauses::{self, Clause, Contents};
use crate::faulty::Faulty;
use crate::look::{Direct, Look};
use crate::narrow::Narrow;
use crate::report::{Breaches, Failure, Report};
use crate::{mapping, program};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use vmalloc::{
    DirectMemory, Discard, FrameSupply, MapFrames, Platform, Protect, ReadNofault, Relocate, Translate,
};
use vmalloc_model::env;

/// Operations of one random program, if the caller does not say otherwise.
const OPS: usize = 500;

/// Checks a platform whose areas are memory of this program, and that claims no other power. For
/// more powers see [`Conformance`].
///
/// # Errors
/// [`Breaches`]: what the contract promises, and what was seen instead.
pub fn check<P: DirectMemory + 'static>(make: impl Fn() -> P + 'static) -> Result<Report, Breaches> {
    Conformance::new(make, Direct).check()
}

/// A walk over a kind of programs.
type Walk<P> = fn(&dyn Fn() -> P, &Arc<dyn Look<P>>, Narrow) -> Result<u64, String>;

/// A check in the making: the platform, and the powers that it claims.
#[must_use]
pub struct Conformance<P> {
    make: Box<dyn Fn() -> P>,
    look: Arc<dyn Look<P>>,
    clauses: Vec<Clause<P>>,
    walks: Vec<(&'static str, Walk<P>)>,
    ops: usize,
    seed: u64,
}

impl<P: Platform + 'static> Conformance<P> {
    /// Checks the platforms that `make` returns, each of its own and fresh; their memory is seen
    /// through `look`.
    pub fn new(make: impl Fn() -> P + 'static, look: impl Look<P> + 'static) -> Self {
        Self {
            make: Box::new(make),
            look: Arc::new(look),
            clauses: clauses::locks().into_iter().chain(clauses::memory()).collect(),
            walks: Vec::new(),
            ops: env::ops(OPS),
            seed: env::seed(1),
        }
    }

    /// Sets the number of operations of each random program. Default: `VMALLOC_OPS`, or 500.
    pub fn ops(mut self, ops: usize) -> Self {
        self.ops = ops;
        self
    }

    /// Sets the seed of the random programs. Default: `VMALLOC_SEED`, or 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks the locks with several threads.
    pub fn threads(self) -> Self
    where
        P: Platform<RawLock: Send + Sync, PurgeLock: Send + Sync>,
    {
        self.with(clauses::threads())
    }

    /// Checks the supply of frames alone.
    pub fn supply(self) -> Self
    where
        P: FrameSupply,
    {
        self.with(clauses::supply())
    }

    /// Checks the supply of frames and mappings of them, alone and in a space.
    pub fn frames(mut self) -> Self
    where
        P: MapFrames,
    {
        self.walks.push(("mappings of a space survive calls that fail", mapping::walk));
        self.with(clauses::supply()).with(clauses::frames())
    }

    /// Checks changes of protection.
    pub fn protect(self) -> Self
    where
        P: Protect,
    {
        self.with(clauses::protect())
    }

    /// Checks that relocated pages keep their bytes.
    pub fn relocate(self) -> Self
    where
        P: Relocate,
    {
        self.with(clauses::relocate())
    }

    /// Checks that discarded pages read as zero, and that used ones are reported.
    pub fn discard(self) -> Self
    where
        P: Discard,
    {
        self.with(clauses::discard())
    }

    /// Checks that zero means zero for pages of every content: fresh, reused, protected, frames,
    /// moved.
    pub fn contents(self) -> Self
    where
        P: Contents,
    {
        self.with(clauses::contents())
    }

    /// Checks reads of addresses that may lead nowhere.
    pub fn read_nofault(self) -> Self
    where
        P: ReadNofault,
    {
        self.with(clauses::read_nofault())
    }

    /// Checks the physical pages behind addresses.
    pub fn translate(self) -> Self
    where
        P: Translate,
    {
        self.with(clauses::translate())
    }

    fn with(mut self, more: Vec<Clause<P>>) -> Self {
        self.clauses.extend(more);
        self
    }

    /// Runs all checks.
    ///
    /// # Errors
    /// [`Breaches`]: what the contract promises, and what was seen instead.
    pub fn check(self) -> Result<Report, Breaches> {
        let mut report = Report::default();
        self.check_clauses(&clauses::constants(), &mut report);
        // With wrong constants the rest would use addresses that are not the platform's.
        if report.failures.is_empty() {
            self.check_clauses(&self.clauses, &mut report);
        }
        // A platform that breaks a clause would end the programs in ways that tell less.
        if report.failures.is_empty() {
            self.check_programs(&mut report);
        }
        if report.failures.is_empty() { Ok(report) } else { Err(Breaches(report)) }
    }

    fn check_clauses(&self, clauses: &[Clause<P>], report: &mut Report) {
        for clause in clauses {
            let mut unseen = Default::default();
            let result = caught(|| {
                let bench = Bench::new((self.make)(), &*self.look);
                let verdict = (clause.check)(&bench);
                unseen = bench.unseen.take();
                let faults = self.look.faults(&bench.platform);
                verdict.and_then(|()| match faults.is_empty() {
                    true => Ok(()),
                    false => Err(format!("the machine has found misuses: {faults:?}")),
                })
            });
            report.unseen.append(&mut unseen);
            enter(report, clause.promise.to_owned(), result);
        }
    }

    fn check_programs(&self, report: &mut Report) {
        let geometry = (self.make)().geometry();
        for (name, config) in program::configs(&geometry) {
            let result = caught(|| program::walk(&self.make, &self.look, config).map(drop));
            enter(report, format!("a space ({name}) survives each call that fails"), result);
        }
        for narrow in Narrow::all(&geometry) {
            // Hidden operations are one branch in the space: fewer operations come by it.
            let ops = if narrow == Narrow::default() { self.ops } else { self.ops / 4 };
            for (name, config) in program::configs(&geometry) {
                let promise = format!("a space ({name}; {narrow}) answers as the model does");
                let result = caught(|| {
                    let platform = Faulty::new((self.make)(), Arc::clone(&self.look), narrow);
                    program::random(platform, config, self.seed, ops)
                });
                enter(report, promise, result);
            }
            for (name, walk) in &self.walks {
                let result = caught(|| walk(&self.make, &self.look, narrow).map(drop));
                enter(report, format!("{name} ({narrow})"), result);
            }
        }
    }
}

fn enter(report: &mut Report, promised: String, result: Result<(), String>) {
    match result {
        Ok(()) => report.kept.push(promised),
        Err(seen) => report.failures.push(Failure { promised, seen }),
    }
}

/// Runs a check, and makes a panic in it a failure.
fn caught(check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let message = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    };
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(message)
}
