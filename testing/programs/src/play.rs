//! Programs: what may be done on a platform, and how it is played.

use crate::acts::{self, Act, End};
use crate::look::Look;
use crate::player::Player;
use crate::settings::random_options;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use vmalloc::{
    DirectMemory, Discard, Frame, Geometry, MapFrames, Platform, Protect, ReadNofault, Relocate, Space,
    SpaceOptions, Translate,
};
use vmalloc_harness::{Told, env};
use vmalloc_model::{Seeded, Source};
use vmalloc_short::ShortMaps;
use vmalloc_sim::{Due, Point};

/// Failures after which a walk is given up.
const MOST: u64 = 2_000;

/// The calls that are made to fail. Their parts come with them.
pub(crate) const CALLS: [Point; 12] = {
    let [calls @ .., Point::Frame, Point::HugePage] = Point::ALL else { panic!("the parts are the last") };
    calls
};

/// How many calls of each kind have failed in which acts.
pub type Walked = BTreeMap<(&'static str, Point), u64>;

/// Random programs for spaces on a kind of platform: what they may do, for a start all that every
/// platform can. See the crate's documentation.
#[must_use]
pub struct Program<P: Platform> {
    pub(crate) look: Arc<dyn Look<P>>,
    pub(crate) acts: Vec<Act<P>>,
    pub(crate) end: End<P>,
    pub(crate) devices: Vec<Frame>,
    /// Areas aimed at.
    pub(crate) live: usize,
    /// The most pages of an area, as a rule.
    pub(crate) most: u64,
    fails: bool,
}

impl<P: Platform> Clone for Program<P> {
    fn clone(&self) -> Self {
        let Self { look, acts, end, devices, live, most, fails } = self;
        let (look, acts, devices) = (Arc::clone(look), acts.clone(), devices.clone());
        Self { look, acts, end: *end, devices, live: *live, most: *most, fails: *fails }
    }
}

impl<P: Platform> fmt::Debug for Program<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.acts.iter().map(|act| act.name)).finish()
    }
}

impl<P: Platform> Program<P> {
    /// Returns programs whose memory is seen through `look`.
    pub fn new(look: impl Look<P> + 'static) -> Self {
        let (acts, end) = (acts::base(), End::base());
        let (live, most) = (40, 400);
        Self { look: Arc::new(look), acts, end, devices: Vec::new(), live, most, fails: true }
    }

    /// Aims at `live` areas at a time. Default: 40.
    pub fn live(self, live: usize) -> Self {
        Self { live, ..self }
    }

    /// Sets the pages that most areas have at most. Default: 400.
    pub fn most_pages(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// Makes no call fail.
    pub fn without_failures(self) -> Self {
        Self { fails: false, ..self }
    }

    /// Does what has this name that often; most acts have a share of 3 to 20.
    ///
    /// # Panics
    /// When there is no such act.
    pub fn often(mut self, name: &str, share: u64) -> Self {
        let act = self.acts.iter_mut().find(|act| act.name == name);
        act.unwrap_or_else(|| panic!("there is no act {name:?}")).share = share;
        self
    }

    /// Returns the names of all acts.
    pub fn acts(&self) -> impl Iterator<Item = &'static str> {
        self.acts.iter().map(|act| act.name)
    }

    /// Takes and maps frames.
    pub fn frames(mut self) -> Self
    where
        P: MapFrames,
    {
        self.end = End::of_frames();
        self.with(acts::frames())
    }

    /// Maps these frames of a device.
    pub fn devices(self, devices: impl IntoIterator<Item = Frame>) -> Self {
        Self { devices: devices.into_iter().collect(), ..self }
    }

    /// Makes code, and changes protection.
    pub fn protect(self) -> Self
    where
        P: Protect,
    {
        self.with(acts::protect())
    }

    /// Frees where nothing may be waited for, and takes small sizes from the heap.
    pub fn memory(self) -> Self
    where
        P: DirectMemory,
    {
        self.with(acts::memory())
    }

    /// Resizes areas, which may move.
    pub fn resize(self) -> Self
    where
        P: DirectMemory + Relocate,
    {
        self.with(acts::resize())
    }

    /// Seals and unseals code in memory.
    pub fn code(self) -> Self
    where
        P: DirectMemory + Protect,
    {
        self.with(acts::code())
    }

    /// Discards and resets memory.
    pub fn discard(self) -> Self
    where
        P: Discard,
    {
        self.with(acts::discard())
    }

    /// Reads any addresses.
    pub fn read_nofault(self) -> Self
    where
        P: ReadNofault,
    {
        self.with(acts::read_nofault())
    }

    /// Asks for the physical pages behind addresses.
    pub fn translate(self) -> Self
    where
        P: Translate,
    {
        self.with(acts::translate())
    }

    fn with(mut self, more: Vec<Act<P>>) -> Self {
        self.acts.extend(more);
        self
    }

    /// Returns a player of one of several programs on a space, each in a thread of its own. None of
    /// them does what only a program that is alone can judge.
    pub fn join(&self, space: Arc<Space<P>>, seed: u64) -> Player<'_, P> {
        let mut player = Player::new(space, self, Box::new(Seeded::new(seed)));
        (player.is_shared, player.is_shaky, player.place.largest) = (true, true, player.place.most);
        player
    }

    /// Leaves out the acts whose results depend on the whole space, for those that
    /// [`join`](Self::join) others.
    pub fn shared(mut self) -> Self {
        self.acts.retain(|act| act.is_shared);
        self
    }

    /// Plays one program on an empty space: `ops` steps, or as many as there are choices for. Then
    /// frees everything.
    ///
    /// # Panics
    /// When anything is wrong. The last steps are printed then.
    pub fn play(&self, space: Space<P>, source: &mut dyn Source, ops: usize) {
        let _ = self.play_failing(space, source, ops, None);
    }

    /// Plays a program in which one call fails. Returns the acts in which calls have failed.
    fn play_failing(
        &self,
        space: Space<P>,
        source: &mut dyn Source,
        ops: usize,
        failing: Option<(Point, Due)>,
    ) -> Vec<&'static str> {
        let slots = [0, 0, 0, 64, 64, 128, 1024][source.below(7) as usize];
        ShortMaps::with_block_slots(&space, slots).expect("memory for their records");
        let mut player = Player::new(Arc::new(space), self, Box::new(source));
        player.fails = self.fails && failing.is_none();
        if let Some((call, due)) = failing {
            player.fail(call, due);
        }
        player.play(ops)
    }

    /// Plays `count` programs with random settings, from a seed on. `VMALLOC_SEED` sets another
    /// seed, `VMALLOC_OPS` another length than `ops`. Where `make` returns `None`, nothing is
    /// played.
    ///
    /// # Panics
    /// As [`play`](Self::play).
    pub fn seeds(
        &self,
        seed: u64,
        count: u64,
        ops: usize,
        geometry: &Geometry,
        make: impl Fn(SpaceOptions) -> Option<Space<P>>,
    ) {
        let first = env::seed(seed);
        for seed in first..first + count {
            let _told = Told(|| format!("again with VMALLOC_SEED={seed:#x}"));
            let mut source = Seeded::new(seed);
            let options = random_options(&mut source, geometry.page_bytes());
            if let Some(space) = make(options) {
                self.play(space, &mut source, env::ops(ops));
            }
        }
    }

    /// Plays one program again and again, with the first, second, third … call of each kind
    /// failing: once, and then with all that follow. Returns how many calls of each kind failed in
    /// which acts.
    ///
    /// # Panics
    /// As [`play`](Self::play).
    pub fn walk(&self, seed: u64, ops: usize, make: impl Fn() -> Space<P>) -> Walked {
        let mut walked = Walked::new();
        for (call, due) in CALLS.into_iter().flat_map(|call| Due::KINDS.map(|due| (call, due))) {
            for due in (1..MOST).map(due) {
                let _told = Told(|| format!("{call:?} fails: {due:?}, seed {seed:#x}"));
                let acts = self.play_failing(make(), &mut Seeded::new(seed), ops, Some((call, due)));
                if acts.is_empty() {
                    break;
                }
                acts.into_iter().for_each(|act| *walked.entry((act, call)).or_default() += 1);
            }
        }
        walked
    }
}
