//! Which step is to fail.

/// A step that can be made to fail: a call of the platform, a part of one, a request of the heap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Point {
    /// A call of `map`, before it does anything.
    Map,
    /// A call of `map_huge`, before it does anything.
    MapHuge,
    /// A call of `unmap`: the first half of its pages are unmapped then, or its first range.
    Unmap,
    /// A call of `flush`: each CPU is flushed then or not, by the seed, and no frame is recycled.
    Flush,
    /// A call of `take_frames`.
    TakeFrames,
    /// A call of `take_run`.
    TakeRun,
    /// A call of `map_frames`, or of `map_runs`. On a machine that replaces, the first half of what
    /// was mapped is unmapped then.
    MapFrames,
    /// A call of `protect`: the first half of its pages are changed then.
    Protect,
    /// A call of `relocate`, before it does anything.
    Relocate,
    /// A call of `unmap_now`: the first half of its pages are unmapped then, and not flushed.
    UnmapNow,
    /// A call of `discard`: the first half of its pages read as zero then.
    Discard,
    /// A request of the space for memory of its own, where the test has a
    /// [heap that fails](crate::heap). No machine makes one.
    Heap,
    /// A frame taken from the supply: the map that needs it undoes what it had begun.
    Frame,
    /// A huge page taken from the supply: base pages are taken instead.
    HugePage,
}

const POINTS: usize = Point::ALL.len();

impl Point {
    /// Each of them. The last two are parts of calls.
    pub const ALL: [Self; 14] = [
        Self::Map,
        Self::MapHuge,
        Self::Unmap,
        Self::Flush,
        Self::TakeFrames,
        Self::TakeRun,
        Self::MapFrames,
        Self::Protect,
        Self::Relocate,
        Self::UnmapNow,
        Self::Discard,
        Self::Heap,
        Self::Frame,
        Self::HugePage,
    ];
}

/// The steps that are to fail, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// This one alone.
    Nth(u64),
    /// This one and all that follow.
    From(u64),
}

impl Due {
    /// Both kinds, each for a number.
    pub const KINDS: [fn(u64) -> Self; 2] = [Self::Nth, Self::From];

    /// Returns the first that is to fail.
    pub const fn first(self) -> u64 {
        match self {
            Self::Nth(first) | Self::From(first) => first,
        }
    }

    /// Returns what is due where so many have gone before.
    pub(crate) const fn after(self, passed: u64) -> Self {
        match self {
            Self::Nth(nth) => Self::Nth(passed + nth),
            Self::From(first) => Self::From(passed + first),
        }
    }

    pub(crate) const fn has(self, step: u64) -> bool {
        match self {
            Self::Nth(nth) => step == nth,
            Self::From(first) => step >= first,
        }
    }
}

/// How often each point was passed, and the passes that are to fail.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    passed: [u64; POINTS],
    due: [Option<Due>; POINTS],
    /// How many were made to fail.
    fired: [u64; POINTS],
}

/// A step that was made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Injected;

impl Plan {
    /// Makes these passes from now on fail; 1 is the next.
    pub fn fail(&mut self, point: Point, due: Due) {
        self.due[point as usize] = Some(due.after(self.passed[point as usize]));
    }

    /// Returns how many steps of this kind were made to fail.
    pub const fn fired(&self, point: Point) -> u64 {
        self.fired[point as usize]
    }

    /// Lets every step succeed.
    pub fn heal(&mut self) {
        self.due = [None; POINTS];
    }

    /// Passes a point.
    ///
    /// # Errors
    /// [`Injected`] when this pass is to fail.
    pub fn pass(&mut self, point: Point) -> Result<(), Injected> {
        let (passed, due) = (&mut self.passed[point as usize], self.due[point as usize]);
        *passed += 1;
        let fails = due.is_some_and(|due| due.has(*passed));
        self.fired[point as usize] += u64::from(fails);
        if fails { Err(Injected) } else { Ok(()) }
    }
}
