//! One event as bytes, and back: what is written is the difference to the event before.

use super::varint::{put, put_difference, take, take_difference};
use crate::trace::event::{Event, Kind, KindName, PAGES};
use vmalloc::PageRange;

const TIME: u8 = 1 << 4;
const SAME_CPU: u8 = 1 << 5;
const SAME_TASK: u8 = 1 << 6;
const SAME_WINDOW: u8 = 1 << 7;

/// The values that the next event is a difference to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    time_ns: u64,
    cpu: u32,
    task: u32,
    page: u64,
    window: Option<PageRange>,
}

impl Before {
    /// Appends an event.
    pub(super) fn put(&mut self, event: &Event, bytes: &mut Vec<u8>) {
        bytes.push(self.tag(event));
        if let Some(time_ns) = event.time_ns {
            put_difference(bytes, time_ns, self.time_ns);
            self.time_ns = time_ns;
        }
        if event.cpu != self.cpu {
            put(bytes, event.cpu.into());
        }
        if event.task != self.task {
            put(bytes, event.task.into());
        }
        (self.cpu, self.task) = (event.cpu, event.task);
        self.put_kind(event.kind, bytes);
    }

    fn tag(&self, event: &Event) -> u8 {
        let same_window = matches!(event.kind, Kind::Alloc { within, .. } if within == self.window);
        [
            (event.time_ns.is_some(), TIME),
            (event.cpu == self.cpu, SAME_CPU),
            (event.task == self.task, SAME_TASK),
            (same_window, SAME_WINDOW),
        ]
        .iter()
        .fold(KindName::from(event.kind) as u8, |tag, &(set, bit)| if set { tag | bit } else { tag })
    }

    fn put_kind(&mut self, kind: Kind, bytes: &mut Vec<u8>) {
        match kind {
            Kind::Alloc { start, pages, align, within } => {
                self.put_page(start, bytes);
                put(bytes, pages);
                put(bytes, align.trailing_zeros().into());
                if within != self.window {
                    put_range(bytes, within);
                    self.window = within;
                }
            }
            Kind::Failed { pages } => put(bytes, pages),
            Kind::Purge { hull, areas } => {
                put(bytes, areas.into());
                put_range(bytes, hull);
            }
            Kind::Free { start: page }
            | Kind::ChunkMade { base: page }
            | Kind::ChunkGone { base: page }
            | Kind::BreakIs { end: page }
            | Kind::Break { end: page } => self.put_page(page, bytes),
            Kind::Map { start, pages } | Kind::Unmap { start, pages } | Kind::Protect { start, pages } => {
                self.put_page(start, bytes);
                put(bytes, pages);
            }
            Kind::Remap { from, from_pages, to, to_pages } => {
                self.put_page(from, bytes);
                put(bytes, from_pages);
                self.put_page(to, bytes);
                put(bytes, to_pages);
            }
        }
    }

    fn put_page(&mut self, page: u64, bytes: &mut Vec<u8>) {
        put_difference(bytes, page, self.page);
        self.page = page;
    }

    /// Takes an event off the front, or says what of it is not valid.
    pub(super) fn take(&mut self, bytes: &mut &[u8]) -> Result<Event, &'static str> {
        let (&tag, rest) = bytes.split_first().ok_or("tag")?;
        *bytes = rest;
        let time_ns = if tag & TIME == 0 { None } else { Some(self.take_time(bytes)?) };
        if tag & SAME_CPU == 0 {
            self.cpu = take_u32(bytes, "CPU")?;
        }
        if tag & SAME_TASK == 0 {
            self.task = take_u32(bytes, "task")?;
        }
        let kind = self.take_kind(tag, bytes)?;
        Ok(Event { time_ns, cpu: self.cpu, task: self.task, kind })
    }

    fn take_time(&mut self, bytes: &mut &[u8]) -> Result<u64, &'static str> {
        self.time_ns = take_difference(bytes, self.time_ns).ok_or("time")?;
        Ok(self.time_ns)
    }

    fn take_kind(&mut self, tag: u8, bytes: &mut &[u8]) -> Result<Kind, &'static str> {
        Ok(match tag & 0xf {
            0 => self.take_alloc(tag, bytes)?,
            1 => Kind::Failed { pages: take(bytes).ok_or("size")? },
            2 => Kind::Free { start: self.take_page(bytes)? },
            3 => {
                let areas = take_u32(bytes, "number of areas")?;
                Kind::Purge { hull: take_range(bytes)?, areas }
            }
            4 => Kind::ChunkMade { base: self.take_page(bytes)? },
            5 => Kind::ChunkGone { base: self.take_page(bytes)? },
            6 => self.take_run(bytes).map(|(start, pages)| Kind::Map { start, pages })?,
            7 => self.take_run(bytes).map(|(start, pages)| Kind::Unmap { start, pages })?,
            8 => {
                let (from, from_pages) = self.take_run(bytes)?;
                let (to, to_pages) = self.take_run(bytes)?;
                Kind::Remap { from, from_pages, to, to_pages }
            }
            9 => Kind::BreakIs { end: self.take_page(bytes)? },
            10 => Kind::Break { end: self.take_page(bytes)? },
            11 => {
                let start = self.take_page(bytes)?;
                Kind::Protect { start, pages: take(bytes).ok_or("size")? }
            }
            _ => return Err("kind"),
        })
    }

    fn take_alloc(&mut self, tag: u8, bytes: &mut &[u8]) -> Result<Kind, &'static str> {
        let (start, pages) = self.take_run(bytes)?;
        let order = take(bytes).filter(|&order| 1_u64.checked_shl(order as u32).is_some_and(|it| it < PAGES));
        let align = 1 << order.filter(|&order| order < u64::BITS.into()).ok_or("alignment")?;
        if tag & SAME_WINDOW == 0 {
            self.window = take_range(bytes)?;
        }
        Ok(Kind::Alloc { start, pages, align, within: self.window })
    }

    fn take_page(&mut self, bytes: &mut &[u8]) -> Result<u64, &'static str> {
        self.page = take_difference(bytes, self.page).filter(|&page| page <= PAGES).ok_or("page")?;
        Ok(self.page)
    }

    fn take_run(&mut self, bytes: &mut &[u8]) -> Result<(u64, u64), &'static str> {
        let start = self.take_page(bytes)?;
        let pages = take(bytes).filter(|&pages| pages != 0 && pages <= PAGES - start).ok_or("size")?;
        Ok((start, pages))
    }
}

fn put_range(bytes: &mut Vec<u8>, range: Option<PageRange>) {
    put(bytes, range.map_or(0, |range| range.len()));
    if let Some(range) = range {
        put(bytes, range.start());
    }
}

fn take_range(bytes: &mut &[u8]) -> Result<Option<PageRange>, &'static str> {
    let pages = take(bytes).ok_or("range")?;
    if pages == 0 {
        return Ok(None);
    }
    let start = take(bytes).ok_or("range")?;
    PageRange::from_len(start, pages).filter(|range| range.end() <= PAGES).map(Some).ok_or("range")
}

fn take_u32(bytes: &mut &[u8], name: &'static str) -> Result<u32, &'static str> {
    take(bytes).and_then(|value| u32::try_from(value).ok()).ok_or(name)
}
