//! Short mappings, and addresses for them.

use super::frames::some;
use super::makes::{mapped, refused_mapping};
use crate::oracle::{Shown, What};
use crate::player::{Player, area, short};
use vmalloc::{FreeError, MapFrames, Platform, Protection};
use vmalloc_short::UnmapError;

pub(super) fn map<P: MapFrames>(player: &mut Player<'_, P>) {
    let most = [9, 9, 9, 9, 9, 9, 64, 80][player.below(8)];
    let Some(frames) = some(player, most) else { return };
    let before = player.failed();
    let made = player.call(|space| short(space).map(&frames));
    let Some(nth) = mapped(player, What::Short, &frames, Protection::ReadWrite, made, before) else { return };
    player.write_some(nth);
    misuse(player, nth);
    player.check_area(nth);
}

/// The wrong number of pages ends nothing, nor does a call for a part of them.
fn misuse<P: MapFrames>(player: &mut Player<'_, P>, nth: usize) {
    let (addr, count) = (player.oracle.areas[nth].addr, player.oracle.areas[nth].pages.len());
    for given in [count + 1, count - 1, count + 128] {
        // SAFETY: it is refused.
        let refused = unsafe { short(&player.space).unmap(addr, given) };
        assert_eq!(refused, Err(UnmapError::WrongCount { addr, mapped: count as u64, given: given as u64 }));
    }
    let (inside, rest) = (addr + player.page_bytes(), count - 1);
    // In the linear map other mappings may begin there.
    if !player.oracle.is_inside(&player.oracle.areas[nth]) {
        return;
    }
    // SAFETY: it is refused.
    let refused = unsafe { short(&player.space).unmap(addr + 1, count) };
    assert_eq!(refused, Err(FreeError::Unaligned { addr: addr + 1 }.into()));
    if rest > 0 {
        // SAFETY: it is refused.
        let refused = unsafe { short(&player.space).unmap(inside, rest) };
        assert!(refused.is_err(), "{rest} pages at {inside:#x} of a mapping at {addr:#x}");
    }
}

pub(super) fn reserve<P: Platform>(player: &mut Player<'_, P>) {
    let most = [8, 64, 80][player.below(3)];
    let (pages, before) = (1 + player.below(most), player.failed());
    let made = player.call(|space| short(space).reserve(pages as u64));
    player.tell(format_args!("{pages} slots: {made:x?}"));
    match made {
        Ok(addr) => {
            player.oracle.enter(area(What::Slots, addr, vec![Shown::Nothing; pages]));
        }
        Err(error) => refused_mapping(player, pages as u64, &error, before),
    }
}
