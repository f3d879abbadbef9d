//! What an address is to a program that has trapped there.

use super::records::{self, Freed};
use super::watches::{WatchedSpace, with_space_of};
use std::fmt;
use vmalloc::{AreaInfo, Contended};

/// An address that a program has trapped at, and what is known of it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Trap {
    /// The address.
    pub addr: usize,
    /// The place of the address.
    pub place: Place,
}

/// The place of an address in a space.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Place {
    /// Inside an area that was freed: a use after free.
    Freed(Freed),
    /// In the guard page behind an area in use: an overrun.
    Behind(AreaInfo),
    /// In the page before an area in use, and behind none: an underrun.
    Before(AreaInfo),
    /// Inside an area in use: of a page that is protected, or has no memory.
    Inside(AreaInfo),
    /// In no area in use, and in none of those freed last.
    Nowhere,
    /// Not known, for another thread holds a lock that it would take to find out.
    Contended,
}

/// Returns what is known of `addr`; `None` if it is in no watched space, and in no area freed.
pub(super) fn look_up(addr: usize) -> Option<Trap> {
    let place = with_space_of(addr, |space| place_in(space, addr));
    let place = place.or_else(|| records::find(addr).map(Place::Freed))?;
    Some(Trap { addr, place })
}

fn place_in(space: &dyn WatchedSpace, addr: usize) -> Place {
    let page = space.page_bytes();
    match space.try_find(addr) {
        Ok(Some(area)) if addr - area.addr < area.pages as usize * page => Place::Inside(area),
        Ok(Some(area)) => Place::Behind(area),
        found => {
            let freed = records::find(addr).map(Place::Freed);
            let before = || space.try_find(addr.wrapping_add(page)).ok().flatten();
            let before = || before().filter(|area| area.addr - addr <= page).map(Place::Before);
            let unknown = if found == Err(Contended) { Place::Contended } else { Place::Nowhere };
            freed.or_else(before).unwrap_or(unknown)
        }
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addr = self.addr;
        write!(f, "trap at {addr:#x}: ")?;
        match &self.place {
            Place::Freed(freed) => write!(f, "byte {} of an area {freed}", addr - freed.addr),
            Place::Behind(area) => {
                write!(f, "{} bytes behind the end of {}", addr - area.addr - area.bytes, Shown(area))
            }
            Place::Before(area) => {
                write!(f, "{} bytes before the start of {}", area.addr - addr, Shown(area))
            }
            Place::Inside(area) => {
                let byte = addr - area.addr;
                write!(f, "byte {byte} of {}: its page is protected, or has no memory", Shown(area))
            }
            Place::Nowhere => f.write_str("in no area in use, and in none of those freed last"),
            Place::Contended => f.write_str("a lock is held that it takes to tell in which area"),
        }
    }
}

/// An area in use.
struct Shown<'a>(&'a AreaInfo);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AreaInfo { addr, bytes, tag, .. } = self.0;
        write!(f, "the area in use at {addr:#x}, {bytes} bytes")?;
        tag.map_or(Ok(()), |tag| write!(f, ", {:?}", &*tag))
    }
}

impl fmt::Display for Freed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, bytes, thread, milliseconds, .. } = self;
        write!(f, "that thread {thread} freed {milliseconds} ms ago: {addr:#x}, {bytes} bytes")?;
        self.tag.map_or(Ok(()), |tag| write!(f, ", {:?}", &*tag))?;
        if self.frames[0] != 0 {
            f.write_str("; freed at")?;
        }
        self.frames.iter().filter(|frame| **frame != 0).try_for_each(|frame| write!(f, " {frame:#x}"))
    }
}
