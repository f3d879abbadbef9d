//! A second reference, written so differently that no mistake can be in both: one cell a page.

use crate::ask::Ask;
use crate::map::Map;
use crate::op::Resize;
use vmalloc_map::{FitError, NoArea, NoSpace, PageRange, Policy, RequestError};
use vmalloc_map::{ResizeError, Segment, State, Violation};

/// An area map for small spans: for each page, the state and number of the area it belongs to.
///
/// Ranges are not stored; they are read off the cells: a run of equal cells is a segment. Placement
/// tries every page.
#[derive(Clone, Debug)]
pub struct BitMap {
    span: PageRange,
    cells: Vec<Cell>,
    areas: u64,
}

/// The state of a page. Every area has a number of its own, so neighbours differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cell {
    Free,
    Busy(u64),
    Retired(u64),
}

impl Cell {
    const fn state(self) -> State {
        match self {
            Self::Free => State::Free,
            Self::Busy(_) => State::Busy,
            Self::Retired(_) => State::Retired,
        }
    }
}

impl BitMap {
    /// Returns an empty map over `span`, which is small: each page costs 16 bytes.
    pub fn new(span: PageRange) -> Self {
        Self { span, cells: vec![Cell::Free; span.len() as usize], areas: 0 }
    }

    fn cell(&self, page: u64) -> Option<Cell> {
        self.span.contains(page).then(|| self.cells[(page - self.span.start()) as usize])
    }

    fn is_free(&self, range: PageRange) -> bool {
        (range.start()..range.end()).all(|page| self.cell(page) == Some(Cell::Free))
    }

    fn paint(&mut self, range: PageRange, cell: Cell) {
        let first = (range.start() - self.span.start()) as usize;
        self.cells[first..][..range.len() as usize].fill(cell);
    }

    fn runs(&self) -> Vec<Segment> {
        let mut start = self.span.start();
        let run = |cells: &[Cell]| {
            let range = PageRange::from_len(start, cells.len() as u64).expect("a run is not empty");
            start = range.end();
            Segment { range, state: cells[0].state() }
        };
        self.cells.chunk_by(Cell::eq).map(run).collect()
    }

    fn run_at(&self, page: u64) -> Option<Segment> {
        self.runs().into_iter().find(|segment| segment.range.contains(page))
    }

    fn free_lengths(&self) -> impl Iterator<Item = u64> {
        self.runs().into_iter().filter(|run| run.state == State::Free).map(|run| run.range.len())
    }

    /// Returns every free range that meets `ask`, ascending.
    fn places(&self, ask: &Ask) -> Vec<PageRange> {
        (self.span.start()..self.span.end())
            .filter_map(|start| PageRange::from_len(start, ask.pages))
            .filter(|range| ask.is_met_by(*range) && self.is_free(*range))
            .collect()
    }

    fn start_of(&self, page: u64, wanted: State, otherwise: NoArea) -> Result<Segment, NoArea> {
        match self.run_at(page) {
            None | Some(Segment { state: State::Free, .. }) => Err(NoArea::Nothing { page }),
            Some(run) if run.range.start() < page => Err(NoArea::Interior { page, start: run.range.start() }),
            Some(run) if run.state == wanted => Ok(run),
            Some(_) => Err(otherwise),
        }
    }

    fn repaint(&mut self, page: u64, from: State, otherwise: NoArea, to: State) -> Result<PageRange, NoArea> {
        let range = self.start_of(page, from, otherwise)?.range;
        self.areas += 1;
        let cell = match to {
            State::Free => Cell::Free,
            State::Busy => Cell::Busy(self.areas),
            State::Retired => Cell::Retired(self.areas),
        };
        self.paint(range, cell);
        Ok(range)
    }
}

impl Map for BitMap {
    fn span(&self) -> PageRange {
        self.span
    }

    fn alloc(&mut self, ask: &Ask) -> Result<PageRange, FitError> {
        let within = ask.limits.unwrap_or(self.span);
        if within.start() < self.span.start() || within.end() > self.span.end() {
            return Err(RequestError::OutsideSpace { asked: within, space: self.span }.into());
        }
        let places = self.places(ask);
        let room = |place: &&PageRange| self.run_at(place.start()).map(|run| run.range.len());
        let chosen = match ask.policy {
            Policy::Highest => places.last(),
            Policy::Best => places.iter().min_by_key(room),
            Policy::Random { seed } if !places.is_empty() => places.get(seed as usize % places.len()),
            _ => places.first(),
        };
        let Some(&range) = chosen else {
            let largest = self.largest_free();
            return Err(NoSpace { size: ask.pages, align: ask.align, within, largest, unit: "pages" }.into());
        };
        self.alloc_at(range)?;
        Ok(range)
    }

    fn alloc_at(&mut self, range: PageRange) -> Result<(), FitError> {
        if range.start() < self.span.start() || range.end() > self.span.end() {
            return Err(RequestError::OutsideSpace { asked: range, space: self.span }.into());
        }
        let taken = (range.start()..range.end()).find(|&page| self.cell(page) != Some(Cell::Free));
        if let Some(by) = taken.and_then(|page| self.run_at(page)) {
            return Err(FitError::Occupied { asked: range, by: by.range });
        }
        self.areas += 1;
        self.paint(range, Cell::Busy(self.areas));
        Ok(())
    }

    fn free(&mut self, page: u64) -> Result<PageRange, NoArea> {
        self.repaint(page, State::Busy, NoArea::Retired { page }, State::Free)
    }

    fn retire(&mut self, page: u64) -> Result<PageRange, NoArea> {
        self.repaint(page, State::Busy, NoArea::Retired { page }, State::Retired)
    }

    fn revive(&mut self, page: u64) -> Result<PageRange, NoArea> {
        self.repaint(page, State::Retired, NoArea::Busy { page }, State::Busy)
    }

    fn release(&mut self, page: u64) -> Result<PageRange, NoArea> {
        self.repaint(page, State::Retired, NoArea::Busy { page }, State::Free)
    }

    fn resize(&mut self, change: Resize) -> Result<PageRange, ResizeError> {
        let area_at =
            |map: &Self, page| map.start_of(page, State::Busy, NoArea::Retired { page }).map(|run| run.range);
        match change {
            Resize::Split { start, at } => {
                let area = area_at(self, start)?;
                if !(start + 1..area.end()).contains(&at) {
                    return Err(ResizeError::NotInside { at, area });
                }
                let right = PageRange::new(at, area.end()).expect("some pages");
                self.areas += 1;
                self.paint(right, Cell::Busy(self.areas));
                Ok(right)
            }
            Resize::FreePart(part) => {
                let Some(area) = self.find(part.start()) else {
                    return Err(area_at(self, part.start()).expect_err("no busy area").into());
                };
                if part.end() > area.end() {
                    return Err(ResizeError::NotAPart { asked: part, area });
                }
                self.areas += 1;
                if let Some(behind) = PageRange::new(part.end(), area.end()) {
                    self.paint(behind, Cell::Busy(self.areas));
                }
                self.paint(part, Cell::Free);
                Ok(part)
            }
            Resize::Grow { start, pages } => {
                let area = area_at(self, start)?;
                let cell = self.cell(start).expect("an area is there");
                let Some(end) = start.checked_add(pages).filter(|end| *end >= area.end()) else {
                    return Err(ResizeError::WrongSize { pages, area });
                };
                if let Some(more) = PageRange::new(area.end(), end) {
                    self.alloc_at(more)?;
                    self.paint(more, cell);
                }
                Ok(PageRange::new(start, end).expect("some pages"))
            }
            Resize::Shrink { start, pages } => {
                let area = area_at(self, start)?;
                if !(1..=area.len()).contains(&pages) {
                    return Err(ResizeError::WrongSize { pages, area });
                }
                if let Some(rest) = PageRange::new(start + pages, area.end()) {
                    self.paint(rest, Cell::Free);
                }
                Ok(PageRange::new(start, start + pages).expect("some pages"))
            }
            Resize::Extend { end } => {
                if end < self.span.end() {
                    let reversed = RequestError::LimitsReversed { start: self.span.end(), end };
                    return Err(ResizeError::Alloc(reversed.into()));
                }
                self.span = PageRange::new(self.span.start(), end).expect("some pages");
                self.cells.resize(self.span.len() as usize, Cell::Free);
                Ok(self.span)
            }
        }
    }

    fn segment(&self, page: u64) -> Option<Segment> {
        self.run_at(page)
    }

    fn find(&self, page: u64) -> Option<PageRange> {
        match self.cell(page)? {
            Cell::Busy(_) => self.run_at(page).map(|run| run.range),
            Cell::Free | Cell::Retired(_) => None,
        }
    }

    fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.runs().into_iter()
    }

    fn largest_free(&self) -> u64 {
        self.free_lengths().max().unwrap_or(0)
    }

    fn free_pages(&self) -> u64 {
        self.free_lengths().sum()
    }

    fn is_whole(&self) -> bool {
        self.free_pages() == self.span.len()
    }

    fn verify(&self) -> Result<(), Violation> {
        Ok(())
    }
}
