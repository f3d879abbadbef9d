//! Areas by request.

use crate::oracle::{Area, Shown, What, facts};
use crate::player::{Player, area};
use crate::wish::Wish;
use vmalloc::{AllocError, Frame, MapFrames, PageRange, Platform, Protect, Protection, Raw, Request};

/// A call that makes an area.
type Call<P> = fn(&Raw<'_, P>, &Request) -> Result<usize, AllocError>;

pub(super) fn alloc<P: Platform>(player: &mut Player<'_, P>) {
    request(player, What::Memory, |raw, request| raw.alloc(request));
}

pub(super) fn reserve<P: Platform>(player: &mut Player<'_, P>) {
    let made = request(player, What::Reserved, |raw, request| raw.reserve(request));
    if let Some(nth) = made {
        let range = player.oracle.payload(&player.oracle.areas[nth]);
        player.program.look.handed_out(player.space.platform(), range);
    }
}

pub(super) fn alloc_exec<P: Protect>(player: &mut Player<'_, P>) {
    request(player, What::Exec, |raw, request| raw.alloc_exec(request));
}

pub(super) fn alloc_shared<P: MapFrames>(player: &mut Player<'_, P>) {
    let made = request(player, What::Shared, |raw, request| raw.alloc_shared(request));
    let Some(nth) = made else { return };
    let (platform, first) = (player.space.platform(), player.oracle.first_page(&player.oracle.areas[nth]));
    let frames: Vec<Frame> = (first..first + player.oracle.areas[nth].pages.len() as u64)
        .map(|page| platform.frame_at(page).expect("shared memory is made of frames"))
        .collect();
    for (page, frame) in frames.into_iter().enumerate() {
        player.oracle.areas[nth].pages[page] = Shown::Frame(frame.0);
        player.oracle.set_frame_word(frame, Some(0));
    }
    player.check_area(nth);
    player.write_some(nth);
}

/// Takes what waits in this CPU's node, if there is something.
pub(super) fn alloc_from_node<P: Platform>(player: &mut Player<'_, P>) {
    let bytes = (1 + player.below(4)) * player.page_bytes() - player.below(2) * 100;
    let addr = player.call(|space| space.raw().alloc_from_node(bytes, 1));
    if addr != 0 {
        enter(player, What::Memory, addr, &Wish::plain(bytes));
    }
}

/// Makes an area by a random request. Returns its number.
fn request<P: Platform>(player: &mut Player<'_, P>, what: What, call: Call<P>) -> Option<usize> {
    let wish = Wish::random(&mut *player.source, &player.place);
    let (request, before) = (wish.request(), player.failed());
    let made = player.call(|space| call(&space.raw(), &request));
    player.tell(format_args!("{what:?}: {wish:x?}: {made:x?}"));
    match made {
        Ok(addr) => {
            assert_eq!(wish.errors(&player.place), [], "it is wrong");
            Some(enter(player, what, addr, &wish))
        }
        Err(error) => {
            refused(player, &wish, error, before);
            None
        }
    }
}

/// Judges a refusal.
fn refused<P: Platform>(player: &Player<'_, P>, wish: &Wish, error: AllocError, before: u64) {
    let wrongs = wish.errors(&player.place);
    match error {
        AllocError::Metadata => player.excuse_any(before),
        AllocError::Request(wrong) => assert!(wrongs.contains(&wrong), "{wrong} is not what is wrong"),
        _ if !wrongs.is_empty() => panic!("{error}, not one of {wrongs:?}"),
        AllocError::NoSpace(figures) => {
            let within = wish.limit_range(&player.place).expect("nothing is wrong");
            let [size, align] = [wish.pages(&player.place), wish.align_pages(player.place.shift)]
                .map(|it| it << player.place.shift);
            let within = player.addrs(within);
            let told = (figures.size, figures.within, figures.align.max(align));
            assert_eq!(told, (size, within, figures.align));
            let may_room_be = player.is_shaky || wish.no_block;
            assert!(may_room_be || !player.has_room(size, align, within), "there is room for {wish:x?}");
        }
        AllocError::Unbacked(unbacked) if wish.no_block => player.excuse_unbacked(before, 1, &unbacked),
        AllocError::Unbacked(unbacked) => player.excuse_twice(before, &unbacked),
        error => panic!("{error}"),
    }
}

/// Checks a new area, and notes it. Returns its number.
pub(super) fn enter<P: Platform>(player: &mut Player<'_, P>, what: What, addr: usize, wish: &Wish) -> usize {
    let place = player.place;
    let asked = wish.pages(&place);
    let range = PageRange::from_len((addr >> place.shift) as u64, asked).expect("not empty");
    assert!(addr.is_multiple_of(wish.align.unwrap_or(1).max(1 << place.shift)), "it is not aligned");
    let within = wish.limit_range(&place).expect("nothing is wrong");
    assert!(within.covers(&range) && place.span.covers(&range), "it is outside its limits");
    let info = player.space.find(addr).expect("it can be found");
    let guard = wish.has_guard(place.guards);
    let told = (info.addr, info.bytes, info.guard, Some(info.kind), info.tag, info.record);
    let bytes = (info.pages as usize) << place.shift;
    assert_eq!(told, (addr, bytes, guard, what.kind(), wish.tag.map(Into::into), wish.record));
    // Memory that is reused may be somewhat more than was asked for.
    let pages = asked - u64::from(guard);
    let percent = u64::from(player.space.options().max_slack_percent.unwrap_or_default());
    let extra = if what == What::Memory { pages * percent / 100 } else { 0 };
    assert!((pages..=pages + extra).contains(&info.pages), "{pages} pages were asked for: {info:x?}");
    assert_eq!(player.space.usable_size(addr), Some(bytes));
    let pages = vec![shown(player, what, wish); info.pages as usize];
    player.oracle.enter(Area {
        guard,
        tag: wish.tag,
        record: wish.record,
        within: wish.within,
        ..area(what, addr, pages)
    });
    let nth = player.oracle.areas.len() - 1;
    if what != What::Shared {
        player.check_area(nth);
        if player.source.chance(200) {
            player.write_some(nth);
        }
    }
    nth
}

/// Returns what the pages of a new area show.
fn shown<P: Platform>(player: &Player<'_, P>, what: What, wish: &Wish) -> Shown {
    let (space_options, geometry) = (player.space.options(), player.space.geometry());
    match what {
        What::Exec => Shown::Word(0),
        What::Memory if wish.zeroed || space_options.zero_on_free && geometry.maps_zeroed => Shown::Word(0),
        What::Memory | What::Shared => Shown::Any,
        _ => Shown::Nothing,
    }
}

/// Notes a mapping of frames, or judges the refusal. Returns its number.
pub(super) fn mapped<P: Platform>(
    player: &mut Player<'_, P>,
    what: What,
    frames: &[Frame],
    protection: Protection,
    made: Result<usize, AllocError>,
    before: u64,
) -> Option<usize> {
    player.tell(format_args!("{what:?} of {} frames, {protection:?}: {made:x?}", frames.len()));
    let addr = match made {
        Ok(addr) => addr,
        Err(error) => {
            refused_mapping(player, frames.len() as u64, &error, before);
            return None;
        }
    };
    let pages: Vec<_> = frames.iter().map(|frame| Shown::Frame(frame.0)).collect();
    let guard = player.place.guards && what != What::Short;
    player.oracle.enter(Area { guard, protection, ..area(what, addr, pages) });
    let nth = player.oracle.areas.len() - 1;
    let info = player.oracle.info(&player.oracle.areas[nth]);
    assert!(
        info.is_none() || player.space.find(addr).map(|found| facts(&found)) == info,
        "{:x?}",
        player.space.find(addr)
    );
    player.check_area(nth);
    Some(nth)
}

/// Judges the refusal of a mapping.
pub(super) fn refused_mapping<P: Platform>(
    player: &Player<'_, P>,
    pages: u64,
    error: &AllocError,
    before: u64,
) {
    match error {
        AllocError::Metadata => player.excuse_any(before),
        AllocError::Unbacked(unbacked) => player.excuse_twice(before, unbacked),
        // A block is larger than what is mapped, and aligned.
        AllocError::NoSpace(figures) => {
            let has_room = player.has_room(figures.size, figures.align, figures.within);
            assert!(
                figures.size >= pages << player.place.shift && (player.is_shaky || !has_room),
                "there is room: {error}"
            );
        }
        error => panic!("{error}"),
    }
}
