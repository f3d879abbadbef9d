//! The two scenes in which many CPUs share one space.

use vmalloc::{Request, SpaceOptions};
use vmalloc_kit::null::PAGE_SHIFT;
use vmalloc_kit::rng::Rng;

/// Areas that are live in all in W5 by default, however many share them.
pub const LIVE_AREAS: usize = 100_000;
/// Pages of the largest area of the live set.
const MOST_PAGES: u64 = 64;
/// Pages of the area that is allocated and freed in W1.
const BOUNCED_PAGES: u64 = 3;

/// The calls that each of many CPUs makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scene {
    /// Allocate 3 pages and a guard page, free them; the space is empty but for that.
    W1,
    /// Free a random area of 1…64 pages, one of a share of 100,000 live ones, and allocate another.
    W5,
}

impl Scene {
    /// All scenes.
    pub const ALL: [Self; 2] = [Self::W1, Self::W5];

    /// Describes it in one line; `each` names the actor, and `live` areas are live.
    pub fn about(self, each: &str, live: usize) -> String {
        match self {
            Self::W1 => "3 pages and a guard page, empty space".to_owned(),
            Self::W5 => format!("each {each} replaces areas of 1…64 pages at random, {live} live in all"),
        }
    }

    /// Returns `options` as it is in this scene.
    pub fn options(self, options: SpaceOptions) -> SpaceOptions {
        match self {
            Self::W1 => options,
            Self::W5 => options.guard(false),
        }
    }

    /// Draws a request.
    #[inline]
    pub fn request(self, rng: &mut Rng) -> Request {
        let pages = match self {
            Self::W1 => BOUNCED_PAGES,
            Self::W5 => rng.between(1, MOST_PAGES),
        };
        Request::new((pages as usize) << PAGE_SHIFT)
    }
}

/// The treatment of freed areas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freed {
    /// They keep their memory, as much as is the default.
    Cached,
    /// They are unmapped by a drain.
    Unmapped,
}

impl Freed {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cached, Self::Unmapped];

    /// One line for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Unmapped => "unmapped on free",
        }
    }

    /// Returns `options` with this treatment.
    pub fn options(self, options: SpaceOptions) -> SpaceOptions {
        if self == Self::Unmapped { options.unmap_on_free() } else { options }
    }
}
