//! Owned types, each made, used and dropped within a step: whatever fails between two of them,
//! nothing is lost.

use super::makes::{enter, mapped};
use crate::oracle::{Shown, What};
use crate::player::Player;
use crate::wish::Wish;
use std::ops::Range;
use std::sync::Arc;
use vmalloc::{
    AllocError, Area, AreaError, Buffer, CodeBuffer, DirectMemory, Discard, Frames, Kind, MapFrames, Mapping,
    PagedArea, Platform, Protect, Protection, ReadOnlyMapping, Relocate, Request, Reservation, Space, Stale,
    Zeroed,
};
use vmalloc_percpu::{CongruentAreas, CongruentError};
use vmalloc_short::{ShortMapping, ShortMaps};

/// Judges a refusal: something has failed, or addresses are short.
fn judge<P: Platform>(player: &Player<'_, P>, error: &AreaError, before: u64) {
    if !matches!(error, AreaError::Alloc(AllocError::NoSpace(_) | AllocError::Occupied { .. })) {
        assert!(player.is_shared || player.failed() > before, "nothing has failed, and yet: {error}");
    }
}

/// Ends owners, and the areas of the oracle from `first` on, which are theirs. There is memory for
/// that, without which an end that the machine refuses as well could not be noted.
fn end<P: Platform>(player: &mut Player<'_, P>, first: usize, owners: impl Sized) {
    (first..player.oracle.areas.len()).for_each(|nth| player.check_area(nth));
    let areas = player.oracle.areas.split_off(first);
    drop(owners);
    areas.iter().for_each(|area| player.gone(area, false));
}

/// Memory, addresses and a group, of which each ends by itself.
pub(super) fn areas<P: Platform>(player: &mut Player<'_, P>) {
    let (space, before, page) = (Arc::clone(&player.space), player.failed(), player.page_bytes());
    let (bytes, more) = (1 + player.below(6 * page), player.below(6 * page));
    match player.call(|_| Reservation::new(Arc::clone(&space), &Request::new(bytes))) {
        Ok(reserved) => end(player, player.oracle.areas.len(), reserved),
        Err(error) => judge(player, &error.into(), before),
    }
    match player.call(|_| Area::new(Arc::clone(&space), &Request::new(bytes).tag("grows"))) {
        Ok(area) => grow(player, area, bytes + more),
        Err(error) => judge(player, &error.into(), before),
    }
    let sizes = [2 * page, page];
    match player.call(|_| CongruentAreas::new(Arc::clone(&space), &[0, 8 * page], &sizes, page)) {
        Ok(group) => {
            assert!(group.area(1).is_some_and(|addr| space.find(addr).is_some()));
            end(player, player.oracle.areas.len(), group);
        }
        Err(CongruentError::NoSpace(_)) => {}
        Err(_) => player.excuse_any(before),
    }
}

/// Makes memory larger, gives it up, and ends it.
fn grow<P: Platform>(player: &mut Player<'_, P>, mut area: Area<Arc<Space<P>>>, bytes: usize) {
    let (old, before, space) = (area.len(), player.failed(), Arc::clone(&player.space));
    assert!(area.capacity() >= old);
    let grown = player.call(|_| area.grow_in_place(bytes));
    assert_eq!(area.len(), if grown.is_ok() { bytes } else { old });
    let told = player.call(|_| area.set_record(7));
    let record = space.find(area.addr()).map(|area| area.record);
    assert_eq!(record, Some(if told.is_ok() { 7 } else { 0 }));
    grown.and(told).unwrap_or_else(|error| judge(player, &error, before));
    let addr = area.leak();
    // SAFETY: it was leaked a moment ago.
    end(player, player.oracle.areas.len(), unsafe { Area::from_raw(space, addr) });
}

/// A change of some pages of an area.
type Change<P> = fn(&mut Player<'_, P>, &mut PagedArea<Arc<Space<P>>>, usize);

/// An area that knows which of its pages have memory.
pub(super) fn pages<P: Platform>(player: &mut Player<'_, P>) {
    paged(player, commit_or_not);
}

/// Such an area, of which pages are cleared as well.
pub(super) fn cleared_pages<P: Discard>(player: &mut Player<'_, P>) {
    paged(player, |player, area, nth| match player.source.chance(128) {
        true => commit_or_not(player, area, nth),
        false => clear(player, area, nth),
    });
}

fn paged<P: Platform>(player: &mut Player<'_, P>, change: Change<P>) {
    let (space, before) = (Arc::clone(&player.space), player.failed());
    let wish = Wish::plain((1 + player.below(24)) * player.page_bytes());
    let mut area = match player.call(|_| PagedArea::new(space, &wish.request())) {
        Ok(area) => area,
        Err(error) => return judge(player, &error.into(), before),
    };
    let nth = enter(player, What::Reserved, area.addr(), &wish);
    for _ in 0..player.below(8) {
        change(player, &mut area, nth);
    }
    end(player, nth, area);
}

fn commit_or_not<P: Platform>(player: &mut Player<'_, P>, area: &mut PagedArea<Arc<Space<P>>>, nth: usize) {
    let (before, commits) = (player.failed(), player.source.chance(128));
    let part = Part::random(player, nth);
    let wrong = part.wrong(player, nth, |shown| if commits { shown.is_nothing() } else { shown.is_own() });
    let bytes = part.bytes(player);
    let done = player.call(|_| if commits { area.commit(bytes) } else { area.decommit(bytes) });
    player.tell(format_args!("{part:?}, commit {commits}: {done:x?}"));
    match (done, wrong) {
        (Ok(()), None) => assert!(!part.is_beyond),
        (Err(AreaError::Beyond { .. }), _) => assert!(part.is_beyond),
        (Err(AreaError::Mapped { addr } | AreaError::NotMapped { addr }), Some(wrong)) => {
            assert_eq!(addr, wrong);
        }
        (Err(error), None) => {
            judge(player, &error, before);
            player.is_shaky = true;
        }
        (done, wrong) => panic!("{done:x?}, and {wrong:x?} is wrong"),
    }
    let Part { inside, .. } = part;
    // Pages that the machine refused to unmap may be gone at any time after that.
    if done.is_ok() || !commits && matches!(done, Err(AreaError::Platform(_))) {
        let shown = if commits { Shown::Word(0) } else { Shown::Nothing };
        player.oracle.areas[nth].pages[inside.clone()].fill(shown);
    }
    let own = player.oracle.areas[nth].pages.iter().filter(|shown| shown.is_own()).count();
    assert_eq!(area.committed_bytes(), own * player.page_bytes());
    player.check_around(nth, inside.start, inside.end);
    player.write_page(nth, inside.start);
}

/// Discards pages, or resets them: they read as zero.
fn clear<P: Discard>(player: &mut Player<'_, P>, area: &mut PagedArea<Arc<Space<P>>>, nth: usize) {
    let (before, resets) = (player.failed(), player.source.chance(128));
    let part = Part::random(player, nth);
    let wrong = part.wrong(player, nth, Shown::is_own);
    let bytes = part.bytes(player);
    let done = player.call(|_| if resets { area.reset(bytes) } else { area.discard(bytes) });
    let shown = match (done, wrong) {
        (Ok(()), None) if !part.is_beyond => Shown::Word(0),
        (Err(AreaError::Beyond { .. }), _) => return assert!(part.is_beyond),
        (Err(AreaError::NotMapped { addr }), Some(wrong)) => return assert_eq!(addr, wrong),
        (Err(error @ AreaError::Platform(_)), None) => {
            player.excuse_any(before);
            player.tell(error);
            Shown::Any
        }
        (Err(error), None) => return judge(player, &error, before),
        (done, wrong) => panic!("{done:x?}, and {wrong:x?} is wrong"),
    };
    player.oracle.areas[nth].pages[part.inside.clone()].fill(shown);
    player.check_around(nth, part.inside.start, part.inside.end);
}

/// Some pages of an area, and perhaps one behind it.
#[derive(Debug)]
struct Part {
    inside: Range<usize>,
    is_beyond: bool,
}

impl Part {
    fn random<P: Platform>(player: &mut Player<'_, P>, nth: usize) -> Self {
        let len = player.oracle.areas[nth].pages.len();
        let start = player.below(len);
        let end = start + 1 + player.below((len - start + 1).min(9));
        Self { inside: start..end.min(len), is_beyond: end > len }
    }

    fn bytes<P: Platform>(&self, player: &Player<'_, P>) -> Range<usize> {
        let page = player.page_bytes();
        self.inside.start * page..(self.inside.end + usize::from(self.is_beyond)) * page
    }

    /// Returns the address of the first page that is not as it should be.
    fn wrong<P: Platform>(
        &self,
        player: &Player<'_, P>,
        nth: usize,
        is_right: impl Fn(Shown) -> bool,
    ) -> Option<usize> {
        let area = &player.oracle.areas[nth];
        let page = self.inside.clone().find(|page| !is_right(area.pages[*page]))?;
        Some(area.addr + page * player.page_bytes())
    }
}

/// Frames, and what shows them: each keeps them taken until it is flushed.
pub(super) fn mappings<P: MapFrames>(player: &mut Player<'_, P>) {
    let (space, before) = (Arc::clone(&player.space), player.failed());
    let (count, follows) = (1 + player.below(7), player.source.chance(64));
    let taken = player.call(|_| match follows {
        true => Frames::consecutive(Arc::clone(&space), count, 2),
        false => Frames::new(Arc::clone(&space), count),
    });
    let mut frames = match taken {
        Ok(frames) => frames,
        Err(error) => return judge(player, &error.into(), before),
    };
    frames.iter().for_each(|frame| player.oracle.set_frame_word(*frame, None));
    let (first, mut owners) = (player.oracle.areas.len(), Vec::new());
    let (rw, vmap) = (Protection::ReadWrite, What::Mapping(Kind::Vmap));
    for _ in 0..1 + player.below(4) {
        frames.swap(player.below(count), player.below(count));
        let of = &frames;
        owners.extend(match player.below(4) {
            0 => map(player, vmap, of, rw, Mapping::new, Mapping::addr),
            1 => map(player, vmap, of, Protection::Read, ReadOnlyMapping::new, ReadOnlyMapping::addr),
            2 => {
                let maps = Arc::new(ShortMaps::of(Arc::clone(&space)).expect("they were made before"));
                map(player, What::Short, of, rw, |of| ShortMapping::new(maps, of), ShortMapping::addr)
            }
            _ => show(player, of),
        });
        if let Some(last) = player.oracle.areas.len().checked_sub(1).filter(|last| *last >= first) {
            player.write_some(last);
        }
    }
    // What shows the frames keeps them as well as their owner does.
    let is_kept = !player.source.chance(128);
    let frames = player.call(|_| is_kept.then_some(frames));
    let others = owners.split_off(owners.len() / 2);
    end(player, first, (owners, frames, others));
}

/// An owner, which ends when it is dropped.
trait Owner {}

impl<T> Owner for T {}

/// Makes a mapping of frames.
fn map<'a, P: MapFrames + 'a, T: 'a>(
    player: &mut Player<'_, P>,
    what: What,
    frames: &Frames<Arc<Space<P>>>,
    protection: Protection,
    make: impl FnOnce(&Frames<Arc<Space<P>>>) -> Result<T, AllocError>,
    addr: fn(&T) -> usize,
) -> Option<Box<dyn Owner + 'a>> {
    let before = player.failed();
    let made = player.call(|_| make(frames));
    mapped(player, what, frames, protection, made.as_ref().map(addr).map_err(|error| *error), before);
    Some(Box::new(made.ok()?))
}

/// Makes an area that has three pages more, and shows frames in it.
fn show<'a, P: MapFrames + 'a>(
    player: &mut Player<'_, P>,
    frames: &Frames<Arc<Space<P>>>,
) -> Option<Box<dyn Owner + 'a>> {
    let (space, before) = (Arc::clone(&player.space), player.failed());
    let wish = Wish::plain((frames.len() + 3) * player.page_bytes());
    let made = player.call(|_| PagedArea::new(space, &wish.request()));
    let mut area = made.map_err(|error| judge(player, &error.into(), before)).ok()?;
    let nth = enter(player, What::Reserved, area.addr(), &wish);
    show_in(player, &mut area, frames, nth);
    Some(Box::new(area))
}

fn show_in<P: MapFrames>(
    player: &mut Player<'_, P>,
    area: &mut PagedArea<Arc<Space<P>>>,
    frames: &Frames<Arc<Space<P>>>,
    nth: usize,
) {
    let (page, before, offset) = (player.page_bytes(), player.failed(), player.below(5));
    for wrong in [1, usize::MAX - area.addr(), usize::MAX, usize::MAX - page + 1, 1 << 30] {
        assert!(area.map(wrong, frames, Protection::ReadWrite).is_err(), "mapped at {wrong:#x}");
    }
    let end = offset + frames.len();
    match player.call(|_| area.map(offset * page, frames, Protection::ReadWrite)) {
        Ok(addr) => assert_eq!(addr, area.addr() + offset * page),
        Err(AreaError::Beyond { .. }) => return assert!(offset == 4),
        Err(error) => return judge(player, &error, before),
    }
    let shown = frames.iter().map(|frame| Shown::Frame(frame.0));
    player.oracle.areas[nth].pages.splice(offset..end, shown);
    let over = area.commit(offset * page..(offset + 1) * page);
    assert!(matches!(over, Err(AreaError::Mapped { .. })) && area.committed_bytes() == 0, "{over:?}");
    if player.source.chance(96) {
        // SAFETY: nothing uses the pages.
        let mut unmap = |player: &Player<'_, P>| player.call(|_| unsafe { area.unmap(offset * page) });
        if let Err(error) = unmap(player) {
            judge(player, &error, before);
            player.heal();
            unmap(player).expect("nothing fails any more");
        }
        player.oracle.areas[nth].pages[offset..end].fill(Shown::Nothing);
    }
    player.check_around(nth, offset, end);
}

/// Bytes that are zero whatever their size becomes.
pub(super) fn buffer<P: DirectMemory + Relocate>(player: &mut Player<'_, P>) {
    let (space, before, page) = (Arc::clone(&player.space), player.failed(), player.page_bytes());
    let request = Request::new(1 + player.below(12 * page));
    let made = player.call(|_| Buffer::<_, Zeroed>::new(Arc::clone(&space), &request));
    let mut buffer = match made {
        Ok(buffer) => buffer,
        Err(error) => return judge(player, &error.into(), before),
    };
    for _ in 0..player.below(5) {
        let (way, bytes, old) = (player.below(4), 1 + player.below(16 * page), buffer.len());
        let done = player.call(|_| match way {
            0 | 1 => buffer.resize(bytes),
            2 => buffer.grow_in_place(bytes),
            _ => buffer.shrink_in_place(bytes.min(old)),
        });
        player.tell(format_args!("a buffer of {old:#x} bytes, way {way}, {bytes:#x}: {done:x?}"));
        let right = [bytes, bytes, bytes.max(old), bytes.min(old)][way];
        assert_eq!(buffer.len(), if done.is_ok() { right } else { old });
        done.unwrap_or_else(|error| judge(player, &error, before));
        assert_eq!(buffer.iter().position(|byte| *byte != 0), None, "it is not zero");
    }
    buffer.fill(7);
    let (start, layout) = buffer.into_raw();
    // SAFETY: the buffer was just taken apart.
    let buffer = unsafe { Buffer::<_, Stale>::from_raw(space, start, layout) };
    assert!(buffer.iter().all(|byte| *byte == 7), "its content has changed");
    end(player, player.oracle.areas.len(), buffer);
}

/// Checks that an error says what could not be done, and has its cause.
fn told(error: &dyn std::error::Error) {
    assert!(error.to_string().starts_with("code can't be sealed or unsealed: "), "{error}");
    assert!(error.source().is_some_and(|cause| cause.is::<AreaError>()));
}

/// Code that is sealed and unsealed, and keeps its bytes when that is refused.
pub(super) fn code<P: DirectMemory + Protect>(player: &mut Player<'_, P>) {
    let (space, before) = (Arc::clone(&player.space), player.failed());
    let request = Request::new(1 + player.below(5 * player.page_bytes()));
    let mut buffer = match player.call(|_| CodeBuffer::new(space, &request)) {
        Ok(buffer) => buffer,
        Err(error) => return judge(player, &error.into(), before),
    };
    assert!(buffer.iter().all(|byte| *byte == 0), "new memory for code is not zero");
    buffer.fill(0xc3);
    let page = (buffer.as_ptr().addr() >> player.place.shift) as u64;
    let can_fetch = |player: &Player<'_, P>| player.program.look.can_fetch(player.space.platform(), 0, page);
    let sealed = player.call(|_| buffer.seal());
    assert!(sealed.is_err() || can_fetch(player) != Some(false), "sealed code can't be executed");
    let code = sealed.unwrap_or_else(|refused| {
        player.excuse_any(before);
        told(&refused);
        refused.memory
    });
    // SAFETY: nothing executes it.
    let unsealed = player.call(|_| unsafe { code.unseal() });
    let is_same = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xc3);
    let nth = player.oracle.areas.len();
    match unsealed {
        Ok(buffer) => {
            assert!(is_same(&buffer), "the code has changed");
            assert!(can_fetch(player) != Some(true), "what can be written can be executed");
            end(player, nth, buffer);
        }
        Err(refused) => {
            player.excuse_any(before);
            assert!(is_same(&refused.memory), "the code has changed");
            end(player, nth, refused.memory);
        }
    }
}
