//! The simulated machine as its users see it.

use crate::counts::Counts;
use crate::cpu;
use crate::fault::Fault;
use crate::heap;
use crate::machine::{Machine, TlbVisibility};
use crate::options::{OnViolation, Options};
use crate::plan::{Due, Point};
use lock_api::RawMutex;
use parking_lot::Mutex;
use std::marker::PhantomData;
use vmalloc::{Frame, PageRange};

/// A simulated machine: a [`Platform`](vmalloc::Platform) whose addresses lead nowhere. See the
/// crate's documentation.
///
/// `L` is the lock of the space above. The machine's own is held for one step at a time, and
/// nothing foreign runs under it. CPUs are numbered from 0; an access by one that does not exist is
/// a panic.
#[derive(Debug)]
pub struct Sim<L = parking_lot::RawMutex> {
    pub(crate) options: Options,
    machine: Mutex<Machine>,
    lock: PhantomData<fn() -> L>,
}

impl Sim {
    /// log2 of the page size in bytes.
    pub const PAGE_SHIFT: u32 = 12;

    /// Binds the calling thread to a CPU, modulo their number, for every machine without a
    /// [`current_cpu`](Options::current_cpu) of its own. A thread that was not bound is on CPU 0.
    pub fn run_on(cpu: usize) {
        cpu::bind(cpu);
    }
}

impl<L: RawMutex + Send + Sync + 'static> Sim<L> {
    pub(crate) fn with(options: Options) -> Self {
        Self { machine: Mutex::new(Machine::new(&options)), options, lock: PhantomData }
    }

    /// Returns the word that `cpu` reads at `page`, which may be one of the linear map.
    ///
    /// # Errors
    /// [`Fault::NotMapped`], as a guard wants it; [`Fault::StaleAccess`]; [`Fault::ReachedGiven`];
    /// [`Fault::ReachedFree`].
    pub fn read(&self, cpu: usize, page: u64) -> Result<u64, Fault> {
        self.step(|machine| machine.read(cpu, page))
    }

    /// Lets `cpu` write `word` to `page`.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Fault::Denied`], [`Fault::StaleProtection`]; a stale access
    /// has done its damage then.
    pub fn write(&self, cpu: usize, page: u64, word: u64) -> Result<(), Fault> {
        self.step(|machine| machine.write(cpu, page, word))
    }

    /// Returns the word that `cpu` fetches at `page`, to execute it.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Fault::Denied`], [`Fault::StaleProtection`].
    pub fn fetch(&self, cpu: usize, page: u64) -> Result<u64, Fault> {
        self.step(|machine| machine.fetch(cpu, page))
    }

    /// Returns the result of a read by `cpu` at `page`, without a fault and without filling its
    /// TLB: for freed areas, where a stale answer is no surprise before the purge.
    pub fn look(&self, cpu: usize, page: u64) -> TlbVisibility {
        self.step(|machine| machine.look(cpu, page))
    }

    /// Lets `cpu` remember the translations of whatever is mapped of `range`, as speculation may at
    /// any time.
    pub fn prefetch(&self, cpu: usize, range: PageRange) {
        self.step(|machine| machine.prefetch(cpu, range));
    }

    /// Notes that `range` was handed out without memory, which the machine can't see for itself.
    /// Reports pages that were not flushed since they were last in use.
    pub fn handed_out(&self, range: PageRange) {
        self.step(|machine| machine.check_reuse(range));
    }

    /// Makes these steps of a kind from now on fail; 1 is the next.
    pub fn fail(&self, point: Point, due: Due) {
        self.step(|machine| machine.plan.fail(point, due));
    }

    /// Makes the `nth` step of this kind fail, once.
    pub fn fail_nth(&self, point: Point, nth: u64) {
        self.fail(point, Due::Nth(nth));
    }

    /// Makes the `nth` step of this kind fail, and all that follow.
    pub fn fail_from(&self, point: Point, nth: u64) {
        self.fail(point, Due::From(nth));
    }

    /// Makes every call of this kind fail that is about one of these pages, until
    /// [`relent`](Self::relent). An unmap has unmapped the ranges before it then. The kind is
    /// [`Point::Unmap`] or [`Point::Flush`].
    pub fn refuse(&self, call: Point, pages: PageRange) {
        self.step(|machine| machine.refused.push((call, pages)));
    }

    /// Refuses no page any more.
    pub fn relent(&self) {
        self.step(|machine| machine.refused.clear());
    }

    /// Lets every step succeed again. Pages that are [refused](Self::refuse) still are.
    pub fn heal(&self) {
        self.step(|machine| machine.plan.heal());
    }

    /// Returns how many steps of this kind were made to fail so far.
    pub fn injected(&self, point: Point) -> u64 {
        self.step(|machine| machine.plan.fired(point))
    }

    /// Returns the frames that users have taken and not given back, in order. No leak: they are
    /// theirs.
    pub fn taken_frames(&self) -> Vec<Frame> {
        self.step(|machine| machine.taken_frames())
    }

    /// Returns how many pages are mapped.
    pub fn mapped_pages(&self) -> u64 {
        self.step(|machine| machine.mapped_pages())
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.step(|machine| machine.counts)
    }

    /// Returns every fault recorded, in order.
    pub fn faults(&self) -> Vec<Fault> {
        self.step(|machine| machine.faults.clone())
    }

    /// Looks through all translations for aliases, stale entries and lost frames, and reports them.
    /// O(n log n) in what is mapped and remembered.
    pub fn audit(&self) -> Vec<Fault> {
        self.step(Machine::audit)
    }

    /// Returns the leaks that there were if this were the end. Reports nothing.
    pub fn leaks(&self) -> Vec<Fault> {
        self.step(|machine| machine.leaks())
    }

    /// Audits, and reports leaks: for the end, when everything was freed and purged.
    pub fn check_end(&self) -> Vec<Fault> {
        let cpu = self.here();
        self.step(|machine| {
            // A flush that comes late has come by now.
            machine.catch_up(cpu);
            let mut found = machine.audit();
            let leaks = machine.leaks();
            machine.faults.extend(&leaks);
            found.extend(leaks);
            found
        })
    }

    /// Calls `act` while no thread is within a step of the machine, as a system that forks its
    /// memory would. `act` must not use the machine.
    pub fn at_rest<R>(&self, act: impl FnOnce() -> R) -> R {
        let _machine = self.machine.lock();
        act()
    }

    /// Returns the CPU that runs this.
    pub(crate) fn here(&self) -> usize {
        (self.options.current_cpu)() % self.options.cpus
    }

    /// Does one step of the machine. A fault in it is a panic here, if it is to be one, with the
    /// machine left in order.
    pub(crate) fn step<R>(&self, act: impl FnOnce(&mut Machine) -> R) -> R {
        // The simulator's own memory is not what is to run out.
        let _exempt = heap::Exempt::begin();
        let mut machine = self.machine.lock();
        let before = machine.faults.len();
        let result = act(&mut machine);
        let fault = machine.faults.get(before).copied();
        drop(machine);
        match fault {
            Some(fault) if self.options.on_violation == OnViolation::Panic => panic!("{fault}"),
            _ => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use vmalloc::Protection;

    fn range(start: u64, end: u64) -> PageRange {
        PageRange::new(start, end).unwrap()
    }

    fn options() -> Options {
        Options::new(range(100, 200)).cpus(2)
    }

    /// Maps page 110 and leaves it.
    fn leaky(options: Options) -> Sim {
        let sim = options.build();
        sim.step(|machine| machine.map(range(110, 111), Protection::ReadWrite)).unwrap();
        sim
    }

    #[test]
    fn a_fault_is_a_panic_at_once_and_leaves_the_machine_usable() {
        let sim = leaky(options());
        assert!(catch_unwind(AssertUnwindSafe(|| sim.check_end())).is_err());
        assert_eq!(sim.faults(), [Fault::LeakedPage { page: 110, frame: 0 }]);
        assert_eq!(sim.read(0, 110), Ok(0));
    }

    #[test]
    fn a_fault_is_only_recorded_where_that_is_wanted() {
        let sim = leaky(options().on_violation(OnViolation::Record));
        let leak = [Fault::LeakedPage { page: 110, frame: 0 }];
        assert_eq!((&*sim.check_end(), &*sim.faults()), (&leak[..], &leak[..]));
    }

    #[test]
    fn a_guard_that_faults_is_never_a_panic() {
        assert_eq!(options().build().read(1, 110), Err(Fault::NotMapped { cpu: 1, page: 110 }));
    }

    #[test]
    fn each_thread_is_on_a_cpu_of_its_own() {
        let sim = options().build();
        Sim::run_on(3);
        let other = std::thread::scope(|scope| scope.spawn(|| sim.here()).join()).unwrap();
        assert_eq!((sim.here(), other), (1, 0));
        assert_eq!(options().current_cpu(|| 4).cpus(3).build().here(), 1);
    }
}
