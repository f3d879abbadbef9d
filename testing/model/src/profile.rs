//! Kinds of load: what is asked for, how often, and in what space.

use vmalloc_map::PageRange;

/// Sizes from `2^low` to `2^(high + 1) - 1` pages, each order of magnitude as likely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// log2 of the smallest.
    pub low: u32,
    /// log2 of the largest, rounded down.
    pub high: u32,
}

/// How often something happens, in 256 requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// An exact range instead of a placement.
    pub exact: u8,
    /// An alignment up to `2^align_order`.
    pub aligned: u8,
    /// Limits inside the space.
    pub limits: u8,
    /// Random placement.
    pub random: u8,
    /// Highest first.
    pub highest: u8,
    /// Retirement instead of a direct free.
    pub retire: u8,
    /// A request, free or claim that must be refused.
    pub misuse: u8,
}

/// A kind of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// For people and for messages.
    pub name: &'static str,
    /// First page of the space.
    pub start: u64,
    /// Page after the last one.
    pub end: u64,
    /// How many areas live at the crest of the wave; the trough has an eighth of them.
    pub live: usize,
    /// The sizes of requests.
    pub sizes: Sizes,
    /// log2 of the largest alignment.
    pub align_order: u32,
    /// The shares of all other features.
    pub rates: Rates,
}

/// Something of everything, retired areas included.
const USUAL: Rates =
    Rates { exact: 20, aligned: 64, limits: 16, random: 12, highest: 40, retire: 80, misuse: 16 };

impl Profile {
    /// A handful of pages.
    pub const TINY: Self = Self {
        name: "tiny",
        start: 1001,
        end: 1001 + 150,
        live: 40,
        sizes: Sizes { low: 0, high: 4 },
        align_order: 5,
        rates: Rates { limits: 64, random: 32, highest: 80, misuse: 40, ..USUAL },
    };

    /// Small areas, as from a kernel's stacks and buffers.
    pub const SMALL: Self = Self {
        name: "small",
        start: 0x10_0003,
        end: 0x10_0003 + 4096,
        live: 150,
        sizes: Sizes { low: 0, high: 3 },
        align_order: 4,
        rates: USUAL,
    };

    /// One page to a thousand.
    pub const MIXED: Self = Self {
        name: "mixed",
        start: 0x7_f001,
        end: 0x7_f001 + (1 << 15),
        live: 160,
        sizes: Sizes { low: 0, high: 9 },
        align_order: 9,
        rates: USUAL,
    };

    /// Areas of 64 MiB to 8 TiB (with 4 KiB pages).
    pub const HUGE: Self = Self {
        name: "huge",
        start: 0x8_0000_0001,
        end: 0x8_0000_0001 + (1 << 34),
        live: 120,
        sizes: Sizes { low: 14, high: 30 },
        align_order: 18,
        rates: USUAL,
    };

    /// Alignments up to a large huge page and far beyond.
    pub const ALIGNED: Self = Self {
        name: "aligned",
        start: 0x3_0000_0abd,
        end: 0x3_0000_0abd + (1 << 22),
        live: 150,
        sizes: Sizes { low: 0, high: 12 },
        align_order: 20,
        rates: Rates { aligned: 230, ..USUAL },
    };

    /// More asked for than there is room: nearly full, and often refused.
    pub const CROWDED: Self = Self {
        name: "crowded",
        start: 0x4007,
        end: 0x4007 + 1500,
        live: 2000,
        sizes: Sizes { low: 0, high: 5 },
        align_order: 6,
        rates: USUAL,
    };

    /// Every constraint at once.
    pub const CONSTRAINED: Self = Self {
        name: "constrained",
        start: 0x5_1235,
        end: 0x5_1235 + (1 << 13),
        live: 150,
        sizes: Sizes { low: 0, high: 8 },
        align_order: 10,
        rates: Rates { aligned: 180, limits: 140, random: 40, highest: 80, ..USUAL },
    };

    /// Exact claims here and there in 64 TiB (2^34 pages) from an odd page on.
    pub const SPARSE: Self = Self {
        name: "sparse",
        start: 0xc_9000_0011,
        end: 0xc_9000_0011 + (1 << 34),
        live: 180,
        sizes: Sizes { low: 0, high: 20 },
        align_order: 13,
        rates: Rates { exact: 160, ..USUAL },
    };

    /// The first pages that a number can name.
    pub const ORIGIN: Self = Self { name: "origin", start: 0, end: 1 << 20, ..Self::MIXED };

    /// The last pages that a number can name, and sizes and alignments beyond them.
    pub const EXTREME: Self = Self {
        name: "extreme",
        start: u64::MAX - (1 << 34),
        end: u64::MAX,
        live: 100,
        sizes: Sizes { low: 0, high: 36 },
        align_order: 63,
        rates: Rates { aligned: 128, limits: 64, ..USUAL },
    };

    /// Every profile.
    pub const ALL: [Self; 10] = [
        Self::TINY,
        Self::SMALL,
        Self::MIXED,
        Self::HUGE,
        Self::ALIGNED,
        Self::CROWDED,
        Self::CONSTRAINED,
        Self::SPARSE,
        Self::ORIGIN,
        Self::EXTREME,
    ];

    /// Returns the height of the wave: one period is sixteen steps for each area at its crest.
    pub(crate) const fn target(&self, step: usize) -> usize {
        let half = 8 * self.live;
        let along = step % (2 * half);
        let height = if along < half { along } else { 2 * half - along };
        self.live / 8 + (self.live - self.live / 8) * height / half
    }

    /// Returns the pages of the space.
    ///
    /// # Panics
    /// When `start` is not below `end`, which none of the profiles here is guilty of.
    pub const fn span(&self) -> PageRange {
        PageRange::new(self.start, self.end).expect("a profile has a space")
    }
}
