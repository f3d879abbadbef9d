//! What each page of each area shows, as the oracle knows it.
//!
//! ```text
//!   area ──pages──► Nothing │ Any │ Word(w)            a page of its own
//!                   Frame(f) ──► frames[f] = word      a frame, which other pages may show as well
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use vmalloc::{AreaInfo, Frame, Kind, PageRange, Protection, Tag};

/// Freed ranges that are remembered, to look at them after a flush.
const REMEMBERED: usize = 40;

/// The content of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shown {
    /// It traps.
    Nothing,
    /// A page of its own, of any content.
    Any,
    /// A page of its own, every word of which is this one.
    Word(u64),
    /// This frame.
    Frame(u64),
}

impl Shown {
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::Nothing
    }

    /// Returns whether it is a page of its own.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::Any | Self::Word(_))
    }

    pub(crate) fn is_frame(self) -> bool {
        matches!(self, Self::Frame(_))
    }
}

/// The purpose of an area, and so the call that ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Memory,
    Exec,
    Shared,
    Reserved,
    /// Frames of the player's, those of a device, or those of shared memory.
    Mapping(Kind),
    /// A short mapping.
    Short,
    /// Addresses for one.
    Slots,
    /// One of the group with this base.
    Percpu(usize),
}

impl What {
    /// Returns the kind that a look-up tells; none for what lies in blocks, or in the linear map.
    pub(crate) fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::Memory => Kind::Vmalloc,
            Self::Exec => Kind::Exec,
            Self::Shared => Kind::Shared,
            Self::Reserved | Self::Percpu(_) => Kind::Reserved,
            Self::Mapping(kind) => kind,
            Self::Short | Self::Slots => return None,
        })
    }

    /// Returns whether `free` ends it.
    pub(crate) fn is_freed(self) -> bool {
        matches!(self, Self::Memory | Self::Exec | Self::Shared)
    }

    /// Returns whether frames and memory of its own may be in it, page by page.
    pub(crate) fn takes_pages(self) -> bool {
        matches!(self, Self::Reserved | Self::Percpu(_))
    }
}

/// An area, or a mapping inside a block.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    pub(crate) what: What,
    pub(crate) addr: usize,
    pub(crate) guard: bool,
    pub(crate) tag: Option<&'static str>,
    pub(crate) record: u64,
    /// The addresses inside of which it stays.
    pub(crate) within: Option<(usize, usize)>,
    pub(crate) protection: Protection,
    pub(crate) pages: Vec<Shown>,
}

/// The sizes of a group, by its base.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) offsets: Vec<usize>,
    pub(crate) sizes: Vec<usize>,
}

/// The answer of a look-up: address, bytes, pages, guard, kind, tag and record.
pub(crate) type Facts = (usize, usize, u64, bool, Kind, Option<Tag>, u64);

/// Returns what was told of an area.
pub(crate) fn facts(area: &AreaInfo) -> Facts {
    (area.addr, area.bytes, area.pages, area.guard, area.kind, area.tag, area.record)
}

impl Area {
    /// Returns whether it is of this kind, and has more pages than blocks of short mappings serve.
    pub(crate) fn is_beyond_blocks(&self, what: What) -> bool {
        self.what == what && self.pages.len() as u64 > vmalloc_short::MOST_PAGES
    }
}

/// Everything that the player has.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) shift: u32,
    pub(crate) span: PageRange,
    pub(crate) areas: Vec<Area>,
    pub(crate) groups: HashMap<usize, Group>,
    /// Frames that the player has taken.
    pub(crate) mine: Vec<Frame>,
    /// Frames that something may lead to until the next flush.
    pub(crate) lingering: HashSet<u64>,
    /// The words of frames, as far as they are known.
    words: HashMap<u64, u64>,
    /// Pages freed since the last flush.
    pub(crate) freed: VecDeque<PageRange>,
    next: u64,
}

impl Oracle {
    pub(crate) fn new(span: PageRange, shift: u32) -> Self {
        let (areas, groups, mine, lingering, words, freed) = Default::default();
        Self { shift, span, areas, groups, mine, lingering, words, freed, next: 0 }
    }

    /// Returns a word that was never written anywhere, and is not zero.
    pub(crate) fn fresh_word(&mut self) -> u64 {
        self.next += 1;
        self.next << 8 | 0x5a
    }

    /// Returns the word of a page; `None` where it may be any.
    pub(crate) fn word(&self, shown: Shown) -> Option<u64> {
        match shown {
            Shown::Word(word) => Some(word),
            Shown::Frame(frame) => self.words.get(&frame).copied(),
            Shown::Any | Shown::Nothing => None,
        }
    }

    /// Notes that a page has this word.
    pub(crate) fn set_word(&mut self, nth: usize, page: usize, word: u64) {
        match &mut self.areas[nth].pages[page] {
            Shown::Frame(frame) => _ = self.words.insert(*frame, word),
            shown => *shown = Shown::Word(word),
        }
    }

    pub(crate) fn set_frame_word(&mut self, frame: Frame, word: Option<u64>) {
        match word {
            Some(word) => self.words.insert(frame.0, word),
            None => self.words.remove(&frame.0),
        };
    }

    /// Returns the bytes of an area: those of whole pages.
    pub(crate) fn bytes(&self, area: &Area) -> usize {
        area.pages.len() << self.shift
    }

    /// Returns the first page of an area.
    pub(crate) fn first_page(&self, area: &Area) -> u64 {
        (area.addr >> self.shift) as u64
    }

    /// Returns the pages of an area, without its guard.
    pub(crate) fn payload(&self, area: &Area) -> PageRange {
        PageRange::from_len(self.first_page(area), area.pages.len() as u64).expect("an area has pages")
    }

    /// Returns the pages of an area with its guard.
    pub(crate) fn range(&self, area: &Area) -> PageRange {
        let pages = area.pages.len() as u64 + u64::from(area.guard);
        PageRange::from_len(self.first_page(area), pages).expect("an area has pages")
    }

    /// Returns whether an area lies in the span: short mappings may lie in the linear map.
    pub(crate) fn is_inside(&self, area: &Area) -> bool {
        self.span.contains(self.first_page(area))
    }

    /// Returns the area whose pages or guard hold `page` of the span.
    pub(crate) fn holder(&self, page: u64) -> Option<&Area> {
        self.areas.iter().find(|area| self.range(area).contains(page) && self.is_inside(area))
    }

    /// Returns what `page` of the span shows.
    pub(crate) fn shown(&self, page: u64) -> Shown {
        let nth = |area: &Area| (page - self.first_page(area)) as usize;
        let shown = self.holder(page).and_then(|area| area.pages.get(nth(area)));
        shown.copied().unwrap_or(Shown::Nothing)
    }

    /// Returns what a look-up tells of an area; nothing for those in blocks.
    pub(crate) fn info(&self, area: &Area) -> Option<Facts> {
        let (kind, tag) = (area.what.kind()?, area.tag.map(Tag::new));
        Some((area.addr, self.bytes(area), area.pages.len() as u64, area.guard, kind, tag, area.record))
    }

    /// Notes a new area, which is in no other one's pages.
    pub(crate) fn enter(&mut self, area: Area) {
        let range = self.range(&area);
        if self.is_inside(&area) {
            let mut others = self.areas.iter().filter(|other| self.is_inside(other));
            let met = others.find(|other| self.range(other).intersection(&range).is_some());
            assert!(met.is_none(), "{area:x?} meets {met:x?}");
        }
        self.areas.push(area);
    }

    /// Notes that a range of the span is no area's any more.
    pub(crate) fn note_freed(&mut self, range: PageRange) {
        if self.span.covers(&range) {
            self.freed.push_front(range);
            self.freed.truncate(REMEMBERED);
        }
    }

    /// Returns whether some area shows `frame`, or something may still lead to it.
    pub(crate) fn is_shown(&self, frame: Frame) -> bool {
        let shows = |area: &Area| area.pages.contains(&Shown::Frame(frame.0));
        self.lingering.contains(&frame.0) || self.areas.iter().any(shows)
    }
}
