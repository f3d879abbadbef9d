//! Making areas of any kind.

use super::{Area, Cell, RW, User, What, cells};
use crate::mappings::support::{DEVICES, FRAMES, PAGE, page};
use vmalloc::{Frame, MapFrames, Request};
use vmalloc_model::Source;
use vmalloc_sim::Point;

impl User {
    /// Makes an area of any kind, with a step failing now and then.
    pub(super) fn make(&mut self) {
        if self.source.chance(24) {
            let points =
                [Point::Map, Point::Frame, Point::MapFrames, Point::TakeFrames, Point::Unmap, Point::Flush];
            let point = points[self.below(points.len())];
            self.space.platform().fail_nth(point, 1);
        }
        let count = self.pages_of();
        let made = self.make_any(count);
        self.space.platform().heal();
        match made {
            Some(area) => {
                self.count("made");
                self.look(&area);
                self.areas.push(area);
            }
            None => self.count("refused"),
        }
    }

    fn make_any(&mut self, count: usize) -> Option<Area> {
        let request = Request::new(count * PAGE - self.below(PAGE)).align(PAGE << self.below(3));
        let request = if self.source.chance(64) { request.tag("random") } else { request };
        let id = self.number();
        let space = &self.space;
        let (addr, what) = match self.source.below(11) {
            0 => (space.raw().alloc(&request.zeroed()).ok()?, What::Memory),
            1 => (space.raw().alloc_exec(&request).ok()?, What::Exec),
            2 => (space.raw().alloc_shared(&request).ok()?, What::User),
            3 => (space.raw().alloc_sparse(&request).ok()?, What::Sparse),
            4 => (space.raw().reserve(&request).ok()?, What::Reserved),
            5 => (space.raw().alloc_congruent(&[0], &[count * PAGE], PAGE).ok()?, What::Percpu),
            6 => return self.make_shown(id),
            7 => return self.make_device(id),
            8 => return self.make_vmap(id, count),
            _ => return self.make_ram(id, count),
        };
        let cells = (0..count).map(|nth| self.fresh(page(addr) + nth as u64, what)).collect();
        Some(Area { id, addr, what, protection: RW, cells })
    }

    /// Returns the cell that a page of a new area shows, which is zero.
    fn fresh(&mut self, page: u64, what: What) -> Option<Cell> {
        let cell = match what {
            What::Memory | What::Exec => Cell::Own(self.number()),
            What::User => Cell::Frame(self.space.platform().frame_at(page).expect("it has a frame")),
            _ => return None,
        };
        self.words.insert(cell, 0);
        Some(cell)
    }

    fn make_vmap(&mut self, id: u64, count: usize) -> Option<Area> {
        let frames = self.choose(count)?;
        let addr = self.space.raw().map(&frames, RW, None).ok()?;
        Some(Area { id, addr, what: What::Vmap, protection: RW, cells: cells(&frames) })
    }

    fn make_ram(&mut self, id: u64, count: usize) -> Option<Area> {
        let frames = self.choose(count)?;
        let addr = self.space.raw().map_short(&frames).ok()?;
        Some(Area { id, addr, what: What::Ram, protection: RW, cells: cells(&frames) })
    }

    fn make_device(&mut self, id: u64) -> Option<Area> {
        let frames: Vec<Frame> = (0..3).map(|_| Frame(FRAMES + self.source.below(DEVICES))).collect();
        let addr = self.space.raw().map_device(&frames, RW, None).ok()?;
        Some(Area { id, addr, what: What::Device, protection: RW, cells: cells(&frames) })
    }

    fn make_shown(&mut self, id: u64) -> Option<Area> {
        let from = self.any(|area| area.what == What::User)?;
        let (start, area) = (self.below(self.areas[from].cells.len()), self.areas[from].clone());
        let count = 1 + self.below(area.cells.len() - start);
        let addr = self.space.raw().map_shared(area.addr + start * PAGE, count * PAGE, RW, None).ok()?;
        let cells = area.cells[start..start + count].to_vec();
        Some(Area { id, addr, what: What::Shown(area.id), protection: RW, cells })
    }
}
