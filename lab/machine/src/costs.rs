//! What the hardware costs: one set of constants for every design.

/// Picoseconds. All times of this crate are in them.
pub type Picos = u64;

const NANO: Picos = 1_000;
const MICRO: Picos = 1_000 * NANO;

/// The costs of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A basic block of the code that is looked at.
    pub block: Picos,
    /// A cache line that comes from another CPU.
    pub line: Picos,
    /// An atomic operation that reads and writes at once, on a line that the CPU has.
    pub atomic: Picos,
    /// From the unlock of a spin lock to the first instruction of the waiting CPU.
    pub handover: Picos,
    /// An allocation from the heap, or a free to it.
    pub heap: Picos,
    /// A flush of all CPUs: its part that does not depend on their number.
    pub flush: Picos,
    /// A flush: its part for each other CPU.
    pub flush_cpu: Picos,
    /// From the unlock of a sleeping lock to the first instruction of the woken thread.
    pub wake: Picos,
    /// A CPU goes from one thread to another.
    pub switch: Picos,
    /// How long a thread runs while others are ready on its CPU.
    pub slice: Picos,
    /// Use of an area, between its allocation and its free: the part of each area.
    pub area: Picos,
    /// Use of an area: the part of each page.
    pub page: Picos,
}

impl Costs {
    /// The machine of the publication of 2024: 32 cores of Zen 2, where `run_test_mask=7` took
    /// 51.3 s with nodes.
    pub const PUBLISHED: Self = Self {
        // Blocks of these designs have about five instructions. With `nodes` a pair of one-page
        // areas takes 83 ns on one CPU, and with `vmalloc` 71 ns. With lines of 20 ns, F5 takes as
        // long as on the two CPUs that the lab runs on: within 8 % for both, 27 % for `augmented`.
        block: 1_500,
        // Zen 2: 30 ns between two cores of a complex, 70 to 100 ns between complexes, as published
        // with reviews of these CPUs in 2019 and 2020. From 40 to 100 ns the gain of F5 rises by a
        // tenth, so the figure decides little.
        line: 70 * NANO,
        // Tables of instructions by A. Fog: a locked exchange-and-add takes 17 cycles on Zen 2.
        atomic: 5 * NANO,
        // A line: the waiting CPU reads the word that the other wrote.
        handover: 70 * NANO,
        // The short path of per-thread heaps takes about 20 ns for a pair, by their authors.
        heap: 10 * NANO,
        // A shootdown takes 1 to 2 µs and grows by less than 100 ns for each CPU (Amit, USENIX ATC
        // 2017, on two sockets).
        flush: 1_500 * NANO,
        flush_cpu: 50 * NANO,
        // A futex that wakes a sleeping core: 2 to 5 µs on machines as these; the least.
        wake: 2 * MICRO,
        // Direct costs of a switch: 1.2 to 1.5 µs (B. Sigoure, 2010, four kinds of Xeon).
        switch: 1_500 * NANO,
        // Linux's base slice on eight CPUs and more, as its documentation has it.
        slice: 3_000 * MICRO,
        // What the publication's profile of nodes leaves outside of the address part: 51.3 s on 32
        // CPUs for 64 M loops of each test. `full_fit` has 7.8 % of it, 2.0 µs a pair, and
        // `long_busy_list` 82.3 %, 21.1 µs for 101 pages. The address part is 0.83 µs of 2.0.
        area: 1_000 * NANO,
        page: 170 * NANO,
    };

    /// The machine of the publication, where areas are not used: the lab's own runs of F5 allocate
    /// and free, and no more.
    pub const BARE: Self = Self { area: 0, page: 0, ..Self::PUBLISHED };

    /// Returns the costs where a line takes so many nanoseconds from one CPU to another, with a
    /// lock or without.
    #[must_use]
    pub const fn with_line(self, nanoseconds: u64) -> Self {
        Self { line: nanoseconds * NANO, handover: nanoseconds * NANO, ..self }
    }
}
