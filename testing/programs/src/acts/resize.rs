//! Other sizes for areas that are there.

use crate::oracle::{Shown, What, facts};
use crate::player::Player;
use crate::wish::{Wish, random_bytes};
use vmalloc::{AllocError, AreaError, DirectMemory, PageRange, Platform, Relocate, RequestError, Resize};

/// Returns an area of memory, its address, and another size.
fn other_size<P: Platform>(player: &mut Player<'_, P>) -> Option<(usize, usize, usize)> {
    let nth = player.any(|area| area.what == What::Memory)?;
    let (addr, bytes) = (player.oracle.areas[nth].addr, player.oracle.bytes(&player.oracle.areas[nth]));
    let bytes = match player.below(4) {
        0 => random_bytes(&mut *player.source, &player.place),
        1 => bytes.saturating_add(player.below(6 * player.page_bytes())),
        2 => bytes - player.below(bytes),
        _ => bytes.saturating_mul(2),
    };
    Some((nth, addr, bytes))
}

/// Judges an error for another size.
fn judge<P: Platform>(player: &Player<'_, P>, wish: &Wish, error: AreaError, before: u64) {
    let wrongs = wish.errors(&player.place);
    match error {
        AreaError::Alloc(AllocError::Request(wrong)) => assert!(wrongs.contains(&wrong), "{wrong}"),
        _ if !wrongs.is_empty() => panic!("{error}, not one of {wrongs:?}"),
        AreaError::Alloc(AllocError::Unbacked(unbacked)) if wish.no_block => {
            player.excuse_unbacked(before, 1, &unbacked);
        }
        AreaError::Alloc(AllocError::Unbacked(unbacked)) => player.excuse_twice(before, &unbacked),
        AreaError::Platform(error) => player.excuse(before, &error),
        AreaError::Alloc(AllocError::Metadata) => player.excuse_any(before),
        error => panic!("{error}"),
    }
}

pub(super) fn grow<P: Platform>(player: &mut Player<'_, P>) {
    let Some((nth, addr, bytes)) = other_size(player) else { return };
    let before = player.failed();
    // SAFETY: the player owns the area.
    let grown = player.call(|space| unsafe { space.raw().grow_in_place(addr, bytes) });
    player.tell(format_args!("grow {addr:#x} to {bytes:#x}: {grown:x?}"));
    match grown {
        // A smaller size changes nothing.
        Ok(()) => resized(player, nth, bytes.max(player.oracle.bytes(&player.oracle.areas[nth])), 0),
        Err(AreaError::Alloc(AllocError::Occupied { asked, by })) => {
            // What waits for reuse gives way.
            let within = player.oracle.areas[nth].within;
            let ends_outside = asked.end() > player.addrs(player.place.span).end()
                || within.is_some_and(|(_, end)| asked.end() > end as u64);
            let meets = |taken: &PageRange| player.addrs(*taken).intersection(&by).is_some();
            let is_taken = ends_outside || player.taken().iter().any(meets);
            assert!(is_taken || player.is_shaky || player.failed() > before, "{by:x?} is free");
        }
        Err(error) => judge(player, &Wish::plain(bytes), error, before),
    }
    player.check_area(nth);
}

pub(super) fn shrink<P: Platform>(player: &mut Player<'_, P>) {
    let Some((nth, addr, bytes)) = other_size(player) else { return };
    let before = player.failed();
    // SAFETY: the player owns the area, and nothing uses what is behind the new size.
    let shrunk = player.call(|space| unsafe { space.raw().shrink_in_place(addr, bytes) });
    player.tell(format_args!("shrink {addr:#x} to {bytes:#x}: {shrunk:x?}"));
    match shrunk {
        Ok(()) => resized(player, nth, bytes, 0),
        Err(AreaError::Beyond { asked, area }) => {
            let bytes = player.oracle.bytes(&player.oracle.areas[nth]) as u64;
            assert!(asked.len() > bytes && area.len() == bytes, "{asked:x?} is inside {area:x?}");
        }
        Err(error) => judge(player, &Wish::plain(bytes), error, before),
    }
    player.check_area(nth);
}

/// Notes the new size of an area: as many pages as were asked for, or up to `more`.
fn resized<P: Platform>(player: &mut Player<'_, P>, nth: usize, bytes: usize, more: usize) {
    let info = player.space.find(player.oracle.areas[nth].addr).expect("it is there");
    if let Some((start, end)) = player.oracle.areas[nth].within {
        let end_of_area = info.addr + info.bytes + usize::from(info.guard) * player.page_bytes();
        assert!(start <= info.addr && end_of_area <= end, "{info:x?} left {start:#x}..{end:#x}");
    }
    let (old, new) = (player.oracle.areas[nth].pages.len(), info.pages as usize);
    let asked = bytes.div_ceil(player.page_bytes());
    assert!((asked..=asked + more).contains(&new), "{info:x?} has not {bytes:#x} bytes");
    let gone = player.oracle.payload(&player.oracle.areas[nth]);
    let area = &mut player.oracle.areas[nth];
    area.pages.resize(new, Shown::Any);
    assert_eq!(player.oracle.info(&player.oracle.areas[nth]), Some(facts(&info)));
    let guards = usize::from(info.guard);
    if let Some(gone) = PageRange::new(gone.start() + (new + guards) as u64, gone.end())
        && new < old
    {
        player.oracle.note_freed(gone);
    }
}

pub(super) fn realloc<P: DirectMemory + Relocate>(player: &mut Player<'_, P>) {
    let Some((nth, addr, bytes)) = other_size(player) else { return };
    let mut wish = Wish::plain(bytes);
    wish.zeroed = player.source.chance(96);
    wish.align = player.source.chance(32).then(|| player.page_bytes() << player.below(6));
    wish.no_block = player.source.chance(32);
    // Everything else is the area's own.
    wish.within = player.oracle.areas[nth].within;
    let resize = Resize::new(bytes).align(wish.align.unwrap_or(1)).may_block(!wish.no_block);
    let resize = if wish.zeroed { resize.zeroed() } else { resize };
    let (before, old) = (player.failed(), player.oracle.bytes(&player.oracle.areas[nth]));
    // SAFETY: the player owns the area, and goes by the address that is returned.
    let moved = player.call(|space| unsafe { space.raw().realloc(addr, &resize) });
    player.tell(format_args!("realloc {addr:#x} from {old:#x} to {wish:x?}: {moved:x?}"));
    match moved {
        Ok(to) => {
            assert!(to.is_multiple_of(wish.align.unwrap_or(1)), "it is not aligned");
            if to != addr {
                let gone = player.oracle.payload(&player.oracle.areas[nth]);
                player.oracle.note_freed(gone);
            }
            reallocated(player, nth, to, &wish, old);
        }
        Err(AreaError::Alloc(AllocError::NoSpace(figures))) => {
            let within = wish.limit_range(&player.place).expect("it is the area's own");
            assert_eq!(figures.within, player.addrs(within));
            let has_room = player.has_room(figures.size, figures.align, figures.within);
            assert!(player.is_shaky || wish.no_block || !has_room, "there is room: {figures:x?}");
        }
        Err(AreaError::Alloc(AllocError::Request(wrong @ RequestError::ZeroSize))) => {
            assert_eq!(bytes, 0, "{wrong}");
        }
        Err(error) => judge(player, &wish, error, before),
    }
    player.check_area(nth);
}

/// Notes the new place of an area, and compares what it has kept, byte by byte where it was cut.
fn reallocated<P: DirectMemory>(player: &mut Player<'_, P>, nth: usize, to: usize, wish: &Wish, old: usize) {
    let (page_bytes, bytes) = (player.page_bytes(), wish.bytes);
    let kept = player.oracle.areas[nth].pages.clone();
    player.oracle.areas[nth].addr = to;
    // A large area gets room to grow again, and one that shrinks keeps as much.
    let percent = usize::from(player.space.options().max_slack_percent.unwrap_or_default());
    let slack = bytes.div_ceil(page_bytes) * percent / 100;
    // Beside a purge an area that may not wait for it keeps its pages.
    let surplus = if wish.no_block { kept.len().saturating_sub(bytes.div_ceil(page_bytes)) } else { 0 };
    resized(player, nth, bytes, slack.max(surplus));
    let cut = old.min(bytes);
    let page = cut / page_bytes;
    let has_cut_page = !cut.is_multiple_of(page_bytes);
    if has_cut_page && let Some(word) = player.oracle.word(kept[page]) {
        let head = bytes_at(player, to + page * page_bytes, cut % page_bytes);
        let is_kept = head.iter().zip(word.to_le_bytes().iter().cycle()).all(|(byte, want)| byte == want);
        assert!(is_kept, "the {} bytes before {:#x} are not of {word:#x}", head.len(), to + cut);
    }
    if wish.zeroed && bytes > old {
        let new = bytes_at(player, to + old, bytes - old);
        let wrong = new.iter().position(|byte| *byte != 0);
        assert!(wrong.is_none(), "byte {wrong:x?} of those behind {:#x} is not zero", to + old);
    }
    let area = &mut player.oracle.areas[nth];
    let whole = bytes / page_bytes;
    for (nth, shown) in area.pages.iter_mut().enumerate().skip(page) {
        let is_zero = wish.zeroed && nth * page_bytes >= old && nth < whole;
        *shown = if is_zero { Shown::Word(0) } else { Shown::Any };
    }
    // The page that was cut has its own word again.
    if page < player.oracle.areas[nth].pages.len() {
        player.write_page(nth, page);
    }
}

/// Returns bytes of an area of the player's.
fn bytes_at<'a, P: DirectMemory>(_: &'a Player<'_, P>, addr: usize, count: usize) -> &'a [u8] {
    // SAFETY: these bytes are the player's and mapped (`DirectMemory`), and the player writes
    // nothing while it looks at them.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(addr), count) }
}
