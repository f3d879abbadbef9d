//! Memory behind parts of areas.

use crate::oracle::{Area, Shown, What};
use crate::player::Player;
use std::ops::Range;
use vmalloc::{AllocError, AreaError, Discard, FreeError, Kind, Platform, RequestError};

/// The most ranges of one call.
const MOST_RANGES: usize = 4;

/// Some pages of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    nth: usize,
    start: usize,
    end: usize,
}

impl Part {
    fn addrs<P: Platform>(self, player: &Player<'_, P>) -> Range<usize> {
        let (addr, page) = (player.oracle.areas[self.nth].addr, player.page_bytes());
        addr + self.start * page..addr + self.end * page
    }

    fn meets(self, other: &Self) -> bool {
        self.nth == other.nth && self.start < other.end && other.start < self.end
    }
}

/// Returns disjoint runs of pages, each of which is as wanted.
fn parts<P: Platform>(
    player: &mut Player<'_, P>,
    is_in: impl Fn(&Area) -> bool,
    is_wanted: impl Fn(Shown) -> bool,
) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for _ in 0..1 + player.below(MOST_RANGES) {
        let Some(nth) = player.any(&is_in) else { break };
        let len = player.oracle.areas[nth].pages.len();
        let most = if player.source.chance(32) { len } else { 8.min(len) };
        let (from, count) = (player.below(len), 1 + player.below(most));
        let pages = &player.oracle.areas[nth].pages[from..];
        let Some(start) = pages.iter().position(|shown| is_wanted(*shown)) else { continue };
        let run = pages[start..].iter().take(count).take_while(|shown| is_wanted(**shown)).count();
        let part = Part { nth, start: from + start, end: from + start + run };
        if !parts.iter().any(|other| part.meets(other)) {
            parts.push(part);
        }
    }
    parts
}

fn set<P: Platform>(player: &mut Player<'_, P>, parts: &[Part], shown: Shown) {
    for part in parts {
        player.oracle.areas[part.nth].pages[part.start..part.end].fill(shown);
    }
    for part in parts {
        player.check_around(part.nth, part.start, part.end);
    }
}

fn is_reserved(area: &Area) -> bool {
    matches!(area.what, What::Reserved | What::Percpu(_))
}

pub(super) fn commit<P: Platform>(player: &mut Player<'_, P>) {
    let parts = parts(player, is_reserved, Shown::is_nothing);
    let (ranges, before) = (addrs(player, &parts), player.failed());
    // SAFETY: the player owns the areas, and nothing is committed there.
    let committed = unsafe { player.call(|space| space.raw().commit(&ranges)) };
    player.tell(format_args!("commit {ranges:x?}: {committed:?}"));
    let Some(is_done) = judged(player, committed, before) else { return };
    player.is_shaky |= !is_done;
    set(player, &parts, if is_done { Shown::Word(0) } else { Shown::Nothing });
    if is_done {
        parts.iter().for_each(|part| player.write_page(part.nth, part.start));
    }
}

/// Judges a call for parts of areas. Returns whether it was done, where it has begun.
fn judged<P: Platform>(player: &Player<'_, P>, done: Result<(), AreaError>, before: u64) -> Option<bool> {
    match done {
        Ok(()) => return Some(true),
        Err(AreaError::Platform(error)) => player.excuse(before, &error),
        Err(AreaError::Alloc(AllocError::Metadata)) => player.excuse_any(before),
        Err(error) => panic!("{error}"),
    }
    matches!(done, Err(AreaError::Platform(_))).then_some(false)
}

pub(super) fn decommit<P: Platform>(player: &mut Player<'_, P>) {
    // Those that are committed, for the most part.
    let all = player.source.chance(64);
    let parts = parts(player, is_reserved, |shown| shown.is_own() || all && shown.is_nothing());
    let (ranges, before) = (addrs(player, &parts), player.failed());
    // SAFETY: the player owns the areas, and nothing uses the pages any more.
    let decommitted = unsafe { player.call(|space| space.raw().decommit(&ranges)) };
    player.tell(format_args!("decommit {ranges:x?}: {decommitted:?}"));
    let Some(is_done) = judged(player, decommitted, before) else { return };
    player.is_shaky |= !is_done;
    set(player, &parts, Shown::Nothing);
}

pub(super) fn discard<P: Discard>(player: &mut Player<'_, P>) {
    let is_memory = |area: &Area| matches!(area.what, What::Reserved | What::Percpu(_) | What::Memory);
    let parts = parts(player, is_memory, Shown::is_own);
    let (ranges, before, resets) = (addrs(player, &parts), player.failed(), player.source.chance(128));
    let discarded = player.call(|space| {
        // SAFETY: the player owns the areas, and does not need what the pages hold.
        unsafe { if resets { space.raw().reset(&ranges) } else { space.raw().discard(&ranges) } }
    });
    player.tell(format_args!("discard {ranges:x?}, reset {resets}: {discarded:?}"));
    let Some(is_done) = judged(player, discarded, before) else { return };
    set(player, &parts, if is_done { Shown::Word(0) } else { Shown::Any });
}

fn addrs<P: Platform>(player: &Player<'_, P>, parts: &[Part]) -> Vec<Range<usize>> {
    parts.iter().map(|part| part.addrs(player)).collect()
}

/// Commits ranges that can't be: each has its error, and changes nothing.
pub(super) fn misuse<P: Platform>(player: &mut Player<'_, P>) -> Option<()> {
    let nth = player.any(|area| area.what.kind().is_some())?;
    let (page, area) = (player.page_bytes(), &player.oracle.areas[nth]);
    let (start, end, has_guard) = (area.addr, area.addr + area.pages.len() * page, area.guard);
    let is_reserved = area.what.kind() == Some(Kind::Reserved);
    let wrong = match player.below(7) {
        0 => start..start,
        1 => start + 1..end,
        2 => start..end - 1,
        3 => end - page..end + page,
        4 if has_guard => end..end + page,
        5 => 0..page,
        _ => start..end,
    };
    let mut ranges = vec![wrong.clone()];
    if is_reserved && (wrong == (start..end) || wrong.start > start + page) {
        // One page is in two ranges, or comes before the wrong ones.
        ranges.insert(0, start..start + page);
    }
    // SAFETY: each of them is refused.
    let refused = unsafe {
        match player.source.chance(128) {
            true => player.space.raw().commit(&ranges),
            false => player.space.raw().decommit(&ranges),
        }
    };
    player.tell(format_args!("commit or decommit {ranges:x?}: {refused:?}"));
    let Err(error) = refused else { panic!("{ranges:x?} was done") };
    let is_right = match error {
        AreaError::Alloc(AllocError::Request(RequestError::ZeroSize)) => wrong.is_empty(),
        AreaError::Area(FreeError::Unaligned { .. }) => wrong.len() % page != 0,
        AreaError::Area(FreeError::NotAnArea { addr }) => addr == 0 && wrong == (0..page),
        AreaError::Area(FreeError::WrongKind { .. }) => !is_reserved,
        AreaError::Beyond { .. } => wrong.end > end,
        AreaError::Overlap { .. } => is_reserved && wrong == (start..end),
        _ => false,
    };
    assert!(is_right, "{ranges:x?}: {error:?}");
    player.check_area(nth);
    Some(())
}
