//! The scheduler: which thread runs, on which CPU, until when.

use crate::lines::Use;
use crate::locks::Hold;
use crate::memory::line_at;
use crate::now::{AHEAD, now};
use crate::report::{LineStats, Report};
use crate::sites::Sites;
use crate::{Costs, Picos, Work};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::mem::forget;

/// Why a thread lets the scheduler run.
pub(crate) enum Pause {
    /// Others are behind, or its slice may be over.
    Behind,
    /// It waits for a spin lock, and keeps its CPU.
    Spin,
    /// It waits for a sleeping lock.
    Sleep,
}

type Body = Coroutine<(), Pause, (), DefaultStack>;

pub(crate) struct Thread {
    body: Option<Body>,
    yielder: *const Yielder<(), Pause>,
    pub(crate) cpu: usize,
    pub(crate) holds: Vec<Hold>,
    /// Spin locks that it holds: `V4`.
    pub(crate) spins: usize,
}

/// A thread that can run, from a time on.
struct Ready {
    thread: usize,
    at: Picos,
}

#[derive(Default)]
pub(crate) struct Cpu {
    pub(crate) clock: Picos,
    running: Option<usize>,
    /// The thread that ran last.
    last: Option<usize>,
    ready: VecDeque<Ready>,
    slice_end: Picos,
    /// Its valid entry in [`State::due`].
    due: Option<Picos>,
    pub(crate) spun: Picos,
    idle: Picos,
}

/// A machine at work.
pub(crate) struct State {
    on_cpu: fn(usize),
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) threads: Vec<Thread>,
    /// When each CPU acts next. An entry that is not its CPU's own any more counts for nothing.
    due: BinaryHeap<Reverse<(Picos, usize)>>,
    /// Threads that wait for a lock, by its address.
    pub(crate) waiting: HashMap<usize, VecDeque<usize>>,
    pub(crate) sites: Sites,
    pub(crate) lines: LineStats,
    switches: u64,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
    /// The thread that runs.
    static YIELDER: Cell<*const Yielder<(), Pause>> = const { Cell::new(std::ptr::null()) };
}

/// Works on the machine of this thread of the host. No thread pauses meanwhile.
pub(crate) fn state<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(|state| work(state.as_mut().expect("a machine that runs")))
}

/// Lets the scheduler run.
pub(crate) fn pause(why: Pause) {
    // SAFETY: the yielder of the coroutine that runs this, which lives as long as that does.
    unsafe { &*YIELDER.get() }.suspend(why);
}

/// Waits until no other CPU is behind: `V2`.
pub(crate) fn settle() {
    while now(|now| now.clock.get() > now.horizon.get()) {
        pause(Pause::Behind);
    }
}

/// Gets the line of an address, in the time that this takes.
pub(crate) fn touch(addr: usize, to: Use, site: usize) {
    let Some(mut line) = line_at(addr) else { return };
    now(|now| {
        // SAFETY: no other reference to it is alive. Only this thread has any, and for no longer
        // than a call of `Line`.
        let line = unsafe { line.as_mut() };
        if line.is_at_hand(now.cpu.get(), to) {
            return;
        }
        let before = now.clock.get();
        let (arrived, queued) = line.pass(now.cpu.get(), to, before, now.costs.get().line);
        now.clock.set(arrived);
        state(|state| {
            let passed = LineStats { passed: 1, lost: arrived - before, queued };
            state.lines.add(passed);
            state.sites.at(site).lines.add(passed);
        });
    });
}

/// Lets what happens next on this CPU be seen at the right time, with a line at hand.
pub(crate) fn meet(addr: usize, to: Use, site: usize) {
    settle();
    touch(addr, to, site);
    settle();
}

impl State {
    pub(crate) fn new(costs: Costs, cpus: usize, on_cpu: fn(usize)) -> Self {
        now(|now| {
            now.costs.set(costs);
            now.blocks.set(0);
            now.highest.set(0);
        });
        Self {
            on_cpu,
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            threads: Vec::new(),
            due: BinaryHeap::new(),
            waiting: HashMap::new(),
            sites: Sites::default(),
            lines: LineStats::default(),
            switches: 0,
        }
    }

    /// Runs the threads to their ends.
    pub(crate) fn run(mut self, threads: Vec<Work<'static>>) -> Report {
        for (number, work) in threads.into_iter().enumerate() {
            let cpu = number % self.cpus.len();
            self.threads.push(Thread::new(cpu, work));
            self.cpus[cpu].ready.push_back(Ready { thread: number, at: 0 });
        }
        (0..self.cpus.len()).for_each(|cpu| self.schedule(cpu, 0));
        STATE.set(Some(self));
        while let Some(thread) = state(Self::next) {
            run_on(thread);
        }
        STATE.take().expect("it was there").report()
    }

    /// Has a CPU act at that time, or before if it was to.
    pub(crate) fn schedule(&mut self, cpu: usize, at: Picos) {
        let its = &mut self.cpus[cpu].due;
        if its.is_none_or(|due| at < due) {
            *its = Some(at);
            self.due.push(Reverse((at, cpu)));
            now(|now| now.horizon.set(now.horizon.get().min(at)));
        }
    }

    /// Returns the thread that runs next. Nothing is due where none runs any more.
    fn next(&mut self) -> Option<usize> {
        loop {
            let Reverse((at, cpu)) = self.due.pop()?;
            let its = &mut self.cpus[cpu];
            if its.due != Some(at) {
                continue;
            }
            its.due = None;
            if its.running.is_some() {
                return its.running;
            }
            its.idle += at - its.clock;
            its.clock = at;
            if let Some(then) = its.choose(now(|now| now.costs.get())) {
                self.schedule(cpu, then);
            }
        }
    }

    /// Returns when the others act next.
    fn horizon(&mut self) -> Picos {
        while let Some(&Reverse((at, cpu))) = self.due.peek() {
            if self.cpus[cpu].due == Some(at) {
                return at;
            }
            self.due.pop();
        }
        Picos::MAX - AHEAD
    }

    /// Says until when the thread that runs needs no scheduler.
    pub(crate) fn limit(&self) {
        now(|now| {
            let its = &self.cpus[now.cpu.get()];
            let thread = its.running.expect("it runs");
            let over = if self.threads[thread].spins == 0 { its.slice_over() } else { None };
            now.limit.set((now.horizon.get() + AHEAD).min(over.unwrap_or(Picos::MAX)));
        });
    }

    /// Makes a sleeping thread ready, from a time on.
    pub(crate) fn wake(&mut self, thread: usize, at: Picos) {
        let cpu = self.threads[thread].cpu;
        let its = &mut self.cpus[cpu];
        its.ready.push_front(Ready { thread, at });
        if its.running.is_some() {
            its.slice_end = its.slice_end.min(at);
        } else {
            let at = at.max(its.clock);
            self.schedule(cpu, at);
        }
    }

    /// Lets a CPU whose thread spins go on at that time.
    pub(crate) fn go_on(&mut self, thread: usize, at: Picos) {
        let cpu = self.threads[thread].cpu;
        self.cpus[cpu].clock = at;
        self.schedule(cpu, at);
    }

    /// Returns the thread that runs now.
    pub(crate) fn running(&self) -> usize {
        self.cpus[now(|now| now.cpu.get())].running.expect("it runs")
    }

    /// A thread has paused, or has ended.
    fn stopped(&mut self, thread: usize, why: CoroutineResult<Pause, ()>, at: Picos) {
        let cpu = self.threads[thread].cpu;
        let its = &mut self.cpus[cpu];
        its.clock = at;
        match why {
            CoroutineResult::Yield(Pause::Spin) => return,
            CoroutineResult::Yield(Pause::Behind) => {
                let may_stop = self.threads[thread].spins == 0;
                if may_stop && its.slice_over().is_some_and(|over| over <= at) {
                    its.ready.push_back(Ready { thread, at });
                    its.running = None;
                }
            }
            CoroutineResult::Yield(Pause::Sleep) | CoroutineResult::Return(()) => its.running = None,
        }
        self.schedule(cpu, at);
    }

    fn report(self) -> Report {
        let unfinished = self.threads.iter().filter(|thread| thread.body.is_some()).count();
        if unfinished != 0 {
            // A coroutine that has begun can't be dropped.
            self.threads.into_iter().for_each(forget);
            panic!("{unfinished} threads wait for ever");
        }
        let sum = |of: fn(&Cpu) -> Picos| self.cpus.iter().map(of).sum::<Picos>();
        let (clocks, idle) = (sum(|cpu| cpu.clock), sum(|cpu| cpu.idle));
        Report {
            time: self.cpus.iter().map(|cpu| cpu.clock).max().unwrap_or(0),
            busy: clocks - idle,
            idle,
            spun: sum(|cpu| cpu.spun),
            blocks: now(|now| now.blocks.get()),
            highest: now(|now| now.highest.get()),
            switches: self.switches,
            lines: self.lines,
            sites: self.sites,
        }
    }
}

/// Lets a thread run until it pauses.
fn run_on(thread: usize) {
    let (mut body, cpu, on_cpu) = state(|state| {
        state.switches += 1;
        let horizon = state.horizon();
        let its = &mut state.threads[thread];
        YIELDER.set(its.yielder);
        let (body, cpu) = (its.body.take().expect("it has not ended"), its.cpu);
        now(|now| {
            now.cpu.set(cpu);
            now.clock.set(state.cpus[cpu].clock);
            now.horizon.set(horizon);
        });
        state.limit();
        (body, cpu, state.on_cpu)
    });
    on_cpu(cpu);
    // Where it goes on, or begins, hooks are turned on.
    let why = body.resume(());
    state(|state| {
        let its = &mut state.threads[thread];
        its.yielder = YIELDER.get();
        its.body = if body.done() { None } else { Some(body) };
        state.stopped(thread, why, now(|now| now.clock.get()));
    });
}

impl Thread {
    fn new(cpu: usize, work: Work<'static>) -> Self {
        let body = Body::with_stack(DefaultStack::new(512 << 10).expect("a stack"), move |yielder, ()| {
            YIELDER.set(yielder);
            let count = |on| {
                now(|now| {
                    now.on.set(on);
                    now.modelled.set(on);
                });
            };
            count(true);
            work();
            count(false);
        });
        Self { body: Some(body), yielder: std::ptr::null(), cpu, holds: Vec::new(), spins: 0 }
    }
}

impl Cpu {
    /// Returns when the running thread has to give way, if another wants to run: `V4`.
    fn slice_over(&self) -> Option<Picos> {
        let ready = self.ready.iter().map(|ready| ready.at).min()?;
        Some(ready.max(self.slice_end))
    }

    /// Chooses a thread where none runs. Returns when the CPU acts next: it may have to switch
    /// first, or to wait for a thread that is not ready yet.
    fn choose(&mut self, costs: Costs) -> Option<Picos> {
        let Some(first) = self.ready.iter().position(|ready| ready.at <= self.clock) else {
            return self.ready.iter().map(|ready| ready.at).min();
        };
        let thread = self.ready.remove(first)?.thread;
        if self.last.is_some_and(|last| last != thread) {
            self.clock += costs.switch;
        }
        (self.last, self.running) = (Some(thread), Some(thread));
        self.slice_end = self.clock + costs.slice;
        Some(self.clock)
    }
}
