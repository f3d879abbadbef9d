//! The checks, put together.

use crate::bench::Bench;
use crate::clauses::{self, Clause, Contents};
use crate::report::{Breaches, Failure, Report};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use vmalloc::{
    DirectMemory, Discard, FrameSupply, MapFrames, Platform, Protect, ReadNofault, Relocate, Space,
    SpaceOptions, Translate,
};
use vmalloc_model::{Seeded, env};
use vmalloc_programs::{Below, Direct, Faulty, Look, Narrow, Program};

/// Operations of one random program, if the caller does not say otherwise.
const OPS: usize = 500;

/// Operations of the program in which each call fails in turn.
const WALKED: usize = 30;

/// Checks a platform whose areas are memory of this program, and that claims no other power. For
/// more powers see [`Conformance`].
///
/// # Errors
/// [`Breaches`]: what the contract promises, and what was seen instead.
pub fn check<P: DirectMemory + 'static>(make: impl Fn() -> P + 'static) -> Result<Report, Breaches> {
    Conformance::new(make, Direct).check()
}

/// A check in the making: the platform, and the powers that it claims.
#[must_use]
pub struct Conformance<P: Platform> {
    make: Box<dyn Fn() -> P>,
    look: Arc<dyn Look<P>>,
    clauses: Vec<Clause<P>>,
    program: Program<Faulty<P>>,
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
            program: Program::new(Below),
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
        self.program = self.program.frames();
        self.with(clauses::supply()).with(clauses::frames())
    }

    /// Checks changes of protection.
    pub fn protect(self) -> Self
    where
        P: Protect,
    {
        self.playing(Program::protect).with(clauses::protect())
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
        self.playing(Program::discard).with(clauses::discard())
    }

    /// Plays what needs memory at its own addresses as well: sizes that change, frees from
    /// interrupts.
    pub fn memory(self) -> Self
    where
        P: DirectMemory + Relocate,
    {
        self.playing(|program| program.memory().resize())
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
        self.playing(Program::read_nofault).with(clauses::read_nofault())
    }

    /// Checks the physical pages behind addresses.
    pub fn translate(self) -> Self
    where
        P: Translate,
    {
        self.playing(Program::translate).with(clauses::translate())
    }

    fn playing(mut self, power: impl FnOnce(Program<Faulty<P>>) -> Program<Faulty<P>>) -> Self {
        self.program = power(self.program);
        self
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
        for (name, options) in all_options() {
            let result = caught(|| {
                self.program.walk(self.seed, WALKED, || self.space(Narrow::default(), options));
                Ok(())
            });
            enter(report, format!("a space ({name}) survives each call that fails"), result);
        }
        for narrow in Narrow::all(&geometry) {
            // Hidden operations are one branch in the space: fewer operations come by it.
            let ops = if narrow == Narrow::default() { self.ops } else { self.ops / 4 };
            for (name, options) in all_options() {
                let result = caught(|| {
                    let source = &mut Seeded::new(self.seed);
                    self.program.play(self.space(narrow, options), source, ops);
                    Ok(())
                });
                let promise = format!("a space ({name}; {narrow}) answers as the oracle allows");
                enter(report, promise, result);
            }
        }
    }

    fn space(&self, narrow: Narrow, options: SpaceOptions) -> Space<Faulty<P>> {
        let platform = Faulty::new((self.make)(), Arc::clone(&self.look), narrow);
        Space::new(platform, options).unwrap_or_else(|error| panic!("no space can be made: {error}"))
    }
}

/// Returns settings of a space that make different calls of the platform.
fn all_options() -> [(&'static str, SpaceOptions); 4] {
    [
        ("caching", SpaceOptions::default()),
        ("unmapping on free", SpaceOptions::default().unmap_on_free()),
        ("one node, no guards", SpaceOptions::default().nodes(1).guard(false)),
        ("trapping on free", SpaceOptions::default().trap_on_free(true)),
    ]
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
