//! Which step is to fail.

/// A step of the platform that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// A frame taken from the supply: the map that needs it undoes what it had begun.
    Frame,
    /// A call of `map`, before it does anything.
    Map,
    /// A call of `map_huge`, before it does anything.
    MapHuge,
    /// A huge page taken from the supply: base pages are taken instead.
    HugePage,
    /// A call of `unmap`: the first half of its pages are unmapped then.
    Unmap,
    /// A call of `flush`: each CPU is flushed then or not, by the seed, and no frame is recycled.
    Flush,
    /// A call of `take_frames`.
    TakeFrames,
    /// A call of `take_run`.
    TakeRun,
    /// A call of `map_frames`. On a machine that replaces, the first half of what was mapped is
    /// unmapped then.
    MapFrames,
    /// A call of `protect`: the first half of its pages are changed then.
    Protect,
    /// A call of `relocate`, before it does anything.
    Relocate,
    /// A call of `discard`: the first half of its pages read as zero then.
    Discard,
    /// A call of `unmap_now`: the first half of its pages are unmapped then, and not flushed.
    UnmapNow,
}

const POINTS: usize = Point::ALL.len();

impl Point {
    /// Each of them.
    pub const ALL: [Self; 13] = [
        Self::Frame,
        Self::Map,
        Self::MapHuge,
        Self::HugePage,
        Self::Unmap,
        Self::Flush,
        Self::TakeFrames,
        Self::TakeRun,
        Self::MapFrames,
        Self::Protect,
        Self::Relocate,
        Self::Discard,
        Self::UnmapNow,
    ];
}

/// The passes of a point that are to fail, counted from the first ever.
#[derive(Clone, Copy, Debug)]
enum Due {
    Once(u64),
    From(u64),
}

/// How often each point was passed, and the passes that are to fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    passed: [u64; POINTS],
    due: [Option<Due>; POINTS],
    /// How many were made to fail.
    fired: [u64; POINTS],
}

/// A step that was made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Injected;

impl Plan {
    /// Makes the `nth` pass from now on fail, once; 1 is the next.
    pub(crate) fn fail_nth(&mut self, point: Point, nth: u64) {
        self.due[point as usize] = Some(Due::Once(self.passed[point as usize] + nth));
    }

    /// Makes the `nth` step and all that follow fail.
    pub(crate) fn fail_from(&mut self, point: Point, nth: u64) {
        self.due[point as usize] = Some(Due::From(self.passed[point as usize] + nth));
    }

    /// Returns how many steps of this kind were made to fail.
    pub(crate) const fn fired(&self, point: Point) -> u64 {
        self.fired[point as usize]
    }

    pub(crate) fn heal(&mut self) {
        self.due = [None; POINTS];
    }

    pub(crate) fn pass(&mut self, point: Point) -> Result<(), Injected> {
        let (passed, due) = (&mut self.passed[point as usize], self.due[point as usize]);
        *passed += 1;
        let fails = match due {
            None => false,
            Some(Due::Once(nth)) => *passed == nth,
            Some(Due::From(first)) => *passed >= first,
        };
        self.fired[point as usize] += u64::from(fails);
        if fails { Err(Injected) } else { Ok(()) }
    }
}
