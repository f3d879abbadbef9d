//! Areas in which frames are mapped page by page: sparse ones, and groups for per-CPU memory.

use super::frames::some;
use crate::oracle::{Area, Group, Shown, What, facts};
use crate::player::{Player, area};
use vmalloc::{AllocError, AreaError, MapFrames, Platform, Protection};
use vmalloc_percpu::{CongruentError, TAG};

/// Makes a group of one to three areas at the same distances from one base.
pub(super) fn alloc_group<P: Platform>(player: &mut Player<'_, P>) {
    let page = player.page_bytes();
    let (mut group, mut offset) = (Group::default(), 0);
    for _ in 0..1 + player.below(3) {
        let pages = 1 + player.below(5);
        group.offsets.push(offset * page);
        group.sizes.push(pages * page - player.below(page));
        offset += pages + player.below(24);
    }
    if player.source.chance(24) {
        group.sizes[0] = 0;
    }
    let (align, before) = (page << player.below(4), player.failed());
    let made = player.call(|space| vmalloc_percpu::alloc(space, &group.offsets, &group.sizes, align));
    player.tell(format_args!("{group:x?}, align {align:#x}: {made:x?}"));
    match made {
        Ok(base) => {
            assert!(base.is_multiple_of(align) && group.sizes[0] > 0);
            for (offset, bytes) in group.offsets.iter().zip(&group.sizes) {
                let pages = vec![Shown::Nothing; bytes.div_ceil(page)];
                let unit = area(What::Percpu(base), base + offset, pages);
                player.oracle.enter(Area { tag: Some(TAG), ..unit });
                let unit = player.oracle.areas.last().expect("it was just entered");
                let found = player.space.find(unit.addr).map(|found| facts(&found));
                assert_eq!(found, player.oracle.info(unit));
                player.check_area(player.oracle.areas.len() - 1);
            }
            player.oracle.groups.insert(base, group);
        }
        Err(CongruentError::Metadata) => player.excuse_any(before),
        Err(CongruentError::ZeroSize { index: 0 }) => assert_eq!(group.sizes[0], 0),
        // Whether there is a place, tests of the area map ask.
        Err(CongruentError::NoSpace(figures)) => {
            let alone = group.sizes.len() == 1 && !player.is_shaky && player.failed() == before;
            let within = player.addrs(player.place.span);
            assert!(!alone || !player.has_room(figures.size, figures.align, within), "there is room");
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns some pages of an area that takes frames, and their address.
fn place<P: Platform>(player: &mut Player<'_, P>, most: usize) -> Option<(usize, usize, usize)> {
    let nth = player.any(|area| area.what.takes_pages())?;
    let len = player.oracle.areas[nth].pages.len();
    let start = player.below(len);
    Some((nth, start, 1 + player.below(most.min(len - start))))
}

pub(super) fn map<P: MapFrames>(player: &mut Player<'_, P>) {
    let Some((nth, start, count)) = place(player, 12) else { return };
    let Some(mut frames) = some(player, count) else { return };
    frames.truncate(count);
    let (addr, end) = (player.oracle.areas[nth].addr + start * player.page_bytes(), start + frames.len());
    let pages = &player.oracle.areas[nth].pages[start..end];
    if pages.iter().any(|shown| shown.is_own()) {
        // The player promises that nothing is committed there.
        return;
    }
    let is_free = pages.iter().all(|shown| shown.is_nothing());
    let before = player.failed();
    // SAFETY: the pages are the player's.
    let mapped = player.call(|space| unsafe { space.raw().map_pages(addr, &frames, Protection::ReadWrite) });
    player.tell(format_args!("{} pages at {addr:#x}: {mapped:?}", frames.len()));
    match mapped {
        Ok(()) => {
            assert!(is_free, "mapped over what is mapped");
            let shown = frames.iter().map(|frame| Shown::Frame(frame.0));
            player.oracle.areas[nth].pages.splice(start..end, shown);
            player.write_page(nth, start);
        }
        Err(AreaError::Mapped { .. }) => assert!(!is_free, "nothing is mapped there"),
        Err(AreaError::Platform(error)) => player.excuse(before, &error),
        Err(AreaError::Alloc(AllocError::Metadata)) => player.excuse_any(before),
        Err(error) => panic!("{error}"),
    }
    player.check_around(nth, start, end);
}

pub(super) fn unmap<P: MapFrames>(player: &mut Player<'_, P>) {
    let Some((nth, from, count)) = place(player, usize::MAX) else { return };
    let pages = &player.oracle.areas[nth].pages[from..];
    // Mapped pages, for the most part.
    let first = pages.iter().position(|shown| shown.is_frame()).unwrap_or(0);
    let run = pages[first..].iter().take(count).take_while(|shown| shown.is_frame()).count();
    let (start, end) = (from + first, from + first + run.max(1));
    let addr = player.oracle.areas[nth].addr + start * player.page_bytes();
    let before = player.failed();
    let unmap = |player: &Player<'_, P>| {
        // SAFETY: the pages are the player's, and nothing uses them.
        player.call(|space| unsafe { space.raw().unmap_pages(addr, (end - start) as u64) })
    };
    let mut unmapped = unmap(player);
    player.tell(format_args!("{} pages at {addr:#x}: {unmapped:?}", end - start));
    if let Err(AreaError::Platform(_) | AreaError::Alloc(AllocError::Metadata)) = unmapped {
        player.excuse_any(before);
        player.heal();
        unmapped = unmap(player);
    }
    match unmapped {
        Ok(()) => player.oracle.areas[nth].pages[start..end].fill(Shown::Nothing),
        Err(AreaError::NotMapped { .. }) => assert_eq!(run, 0, "it is mapped"),
        Err(error) => panic!("{error}"),
    }
    player.check_around(nth, start, end);
}
