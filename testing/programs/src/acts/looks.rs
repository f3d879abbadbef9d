//! Writes, and looks of every kind.

use crate::oracle::{Shown, What, facts};
use crate::player::{Player, is_short};
use vmalloc::{AllocError, AreaError, Kind, Platform, ReadNofault, Translate};

pub(super) fn write<P: Platform>(player: &mut Player<'_, P>) {
    let Some(nth) = player.any(|area| area.what != What::Slots) else { return };
    for _ in 0..3 {
        let page = player.below(player.oracle.areas[nth].pages.len());
        player.write_page(nth, page);
    }
}

pub(super) fn look<P: Platform>(player: &mut Player<'_, P>) {
    if let Some(nth) = player.any(|_| true) {
        player.check_area(nth);
    }
}

/// Returns any address: of an area, behind one, freed, or none.
pub(super) fn any_addr<P: Platform>(player: &mut Player<'_, P>) -> usize {
    let (span, shift) = (player.place.span, player.place.shift);
    let page = player.source.between(span.start(), span.end() - 1);
    let offset = [0, 0, 1, player.page_bytes() - 1][player.below(4)];
    let freed = player.below(player.oracle.freed.len() + 1);
    let area = player.any(|_| true).map(|nth| &player.oracle.areas[nth]);
    match (player.source.below(8), area, player.oracle.freed.get(freed)) {
        (0, _, _) => player.source.bits(64) as usize,
        (1, ..) => ((page as usize) << shift) + offset,
        (2 | 3, _, Some(freed)) => ((freed.start() as usize) << shift) + offset,
        (4, Some(area), _) => area.addr,
        (_, Some(area), _) => {
            let pages = area.pages.len() + usize::from(area.guard);
            area.addr + (player.source.below(pages as u64) as usize * (1 << shift)) + offset
        }
        _ => (page as usize) << shift,
    }
}

pub(super) fn find<P: Platform>(player: &mut Player<'_, P>) {
    let addr = any_addr(player);
    let (found, page) = (player.space.find(addr), (addr >> player.place.shift) as u64);
    assert_eq!(player.space.contains(addr), player.place.span.contains(page));
    assert_eq!(player.space.try_find(addr), Ok(found), "no lock is held");
    let own = found.filter(|area| !is_short(area));
    let holder = player.oracle.holder(page);
    let want = holder.and_then(|area| player.oracle.info(area));
    assert_eq!(own.map(|area| facts(&area)), want, "{addr:#x}");
    let in_block = holder.is_some_and(|area| area.what.kind().is_none());
    assert!(!in_block || found.is_some(), "{addr:#x} is in no block");
    if player.source.chance(32) {
        player.check_walks();
        let text = player.space.vmallocinfo().to_string();
        let [lazy, busy] = [true, false]
            .map(|it| text.lines().filter(|line| line.ends_with(" unpurged vm_area") == it).count());
        let lazy_areas: u64 = player.space.node_stats().map(|node| node.lazy_areas).sum();
        assert_eq!((busy, lazy as u64), (player.space.areas().count(), lazy_areas));
        let after = player.space.areas_from(addr).next();
        assert!(after.is_none_or(|area| area.addr >= addr));
    }
}

pub(super) fn set_record<P: Platform>(player: &mut Player<'_, P>) {
    let Some(nth) = player.any(|area| area.what.kind().is_some()) else { return };
    let (addr, record, before) = (player.oracle.areas[nth].addr, player.source.bits(64), player.failed());
    // SAFETY: the area is the player's.
    match player.call(|space| unsafe { space.raw().set_record(addr, record) }) {
        Ok(()) => player.oracle.areas[nth].record = record,
        Err(AreaError::Alloc(AllocError::Metadata)) => player.excuse_any(before),
        Err(error) => panic!("{error}"),
    }
    let last = addr + player.oracle.bytes(&player.oracle.areas[nth]) - 1;
    for at in [addr, last] {
        let found = player.space.find(at).map(|area| facts(&area));
        assert_eq!(found, player.oracle.info(&player.oracle.areas[nth]));
    }
}

/// Reads across areas, guards and what is free.
pub(super) fn read<P: ReadNofault>(player: &mut Player<'_, P>) {
    let page = player.page_bytes();
    // There is nothing at the last address, and no further.
    let last = usize::MAX - player.below(3 * page);
    assert_eq!(player.space.read(last, &mut [7; 100]), 0);
    let end = (player.place.span.end() as usize) << player.place.shift;
    let near = any_addr(player).clamp((player.place.span.start() as usize) << player.place.shift, end - 1);
    let start = near - player.below(2 * page);
    let mut bytes = vec![0xaa; player.below(12 * page).min(end - start)];
    let read = player.space.read(start, &mut bytes);
    let (mut known, mut unknown, mut at) = (0, 0, start);
    while at < start + bytes.len() {
        let next = ((at / page + 1) * page).min(start + bytes.len());
        match check_read(player, at, &bytes[at - start..next - start]) {
            Some(mapped) => known += mapped,
            None => unknown += next - at,
        }
        at = next;
    }
    let is_excused = player.is_shaky && player.waits_for_unmap();
    let is_right = (known..=known + unknown).contains(&read);
    assert!(is_right || is_excused && read > known, "{read} bytes at {start:#x}, {known} are known");
}

/// Compares the bytes of one page. Returns how many of them are mapped, if that is known.
fn check_read<P: Platform>(player: &Player<'_, P>, at: usize, bytes: &[u8]) -> Option<usize> {
    let page = (at >> player.place.shift) as u64;
    let holder = player.oracle.holder(page);
    let is_memory = holder.is_some_and(|area| area.what != What::Mapping(Kind::IoMap));
    let shown = match holder {
        // What slots lead to is their owner's business.
        Some(area) if area.what == What::Slots => return None,
        _ if is_memory && player.place.span.contains(page) => player.oracle.shown(page),
        _ => Shown::Nothing,
    };
    let word = if shown.is_nothing() { Some(0) } else { player.oracle.word(shown) };
    if let Some(word) = word {
        let want = (at..).map(|at| word.to_le_bytes()[at % 8]);
        let is_same = bytes.iter().zip(want).all(|(byte, want)| *byte == want);
        let is_excused = shown.is_nothing() && player.is_shaky && player.waits_for_unmap();
        assert!(is_same || is_excused, "page {page:#x} does not read as {word:#x}");
    }
    Some(if shown.is_nothing() { 0 } else { bytes.len() })
}

pub(super) fn translate<P: Translate>(player: &mut Player<'_, P>) {
    let addr = any_addr(player);
    let page = (addr >> player.place.shift) as u64;
    let found = player.space.physical_page(addr);
    let is_slot = player.oracle.holder(page).is_some_and(|area| area.what == What::Slots);
    if player.place.span.contains(page) && !is_slot && player.oracle.shown(page).is_nothing() {
        let is_excused = player.is_shaky && player.waits_for_unmap();
        // Slots that were returned to a block may be mapped still.
        let in_block = player.space.find(addr).is_some_and(|area| area.kind == Kind::Tenant);
        assert!(found.is_none() || in_block || is_excused, "{addr:#x} has the page {found:x?}");
    }
}
