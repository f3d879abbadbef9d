//! Purges, failures, and other CPUs.

use crate::play::CALLS;
use crate::player::Player;
use vmalloc::{DrainStatus, PageRange, Platform, PurgeError};
use vmalloc_sim::{Due, Point};

pub(super) fn purge<P: Platform>(player: &mut Player<'_, P>) {
    let (way, before, refused) = (player.below(7), player.failed(), player.waits_for_unmap());
    let most = player.source.below(6);
    let purged = player.call(|space| match way {
        0 | 1 => space.purge(),
        2 | 3 => space.flush(),
        4 => Ok(space.decay()?),
        5 => Ok(space.drain().map(|status| {
            let stats = space.stats();
            assert!(status == DrainStatus::More || stats.lazy_areas + stats.cached_areas == 0, "{stats:?}");
        })?),
        _ => Ok(space.shrink(most).map(|shrunk| assert!(shrunk <= most, "{shrunk} areas, not {most}"))?),
    });
    player.tell(format_args!("way {way}: {purged:?}"));
    match purged {
        Ok(()) if way < 4 => flushed(player, way < 2),
        Ok(()) => {}
        Err(error) => {
            assert!(refused || player.failed() > before, "no call has failed, and yet: {error}");
            // Where it can't note what is refused, that stays lazy. Parts of tenants without memory
            // of their own are in no count then.
            let stats = player.space.stats();
            let is_lazy = stats.lazy_areas + stats.lazy_pages + stats.tenant_areas > 0;
            let is_left = player.waits_for_unmap() || is_lazy;
            assert!(
                way == 5 || error == PurgeError::Metadata || is_left,
                "nothing is refused, and yet: {error}"
            );
        }
    }
}

/// Everything that was freed is unmapped and flushed, and its addresses are free after a purge.
fn flushed<P: Platform>(player: &mut Player<'_, P>, is_purge: bool) {
    player.oracle.lingering.clear();
    for range in std::mem::take(&mut player.oracle.freed) {
        player.check_freed(range);
    }
    let stats = player.space.stats();
    let refused = (stats.refused_areas, stats.refused_pages, stats.refused_parts, stats.pending_ranges);
    assert_eq!(refused, (0, 0, 0, 0), "{stats:?}");
    assert_eq!(stats.cached_areas, 0, "{stats:?}");
    if is_purge {
        let waiting = (stats.lazy_areas, stats.lazy_pages, stats.pooled_areas, stats.pooled_pages);
        assert_eq!(waiting, (0, 0, 0, 0), "{stats:?}");
        let largest = player
            .taken()
            .iter()
            .chain([&end(player)])
            .fold((player.place.span.start(), 0), |(from, largest), range| {
                (range.end(), largest.max(range.start() - from))
            });
        assert_eq!(stats.largest_free_pages, largest.1, "{stats:?}");
    }
}

/// Returns the page behind the span.
fn end<P: Platform>(player: &Player<'_, P>) -> PageRange {
    PageRange::from_len(player.place.span.end(), 1).expect("one page")
}

pub(super) fn run_on<P: Platform>(player: &mut Player<'_, P>) {
    let cpu = player.below(64);
    player.run_on(cpu);
}

pub(super) fn speculate<P: Platform>(player: &mut Player<'_, P>) {
    let cpu = player.any_cpu();
    player.program.look.speculate(player.space.platform(), cpu);
}

/// Makes the unmaps or flushes of a page fail until all is healed: one of an area, or its guard.
pub(super) fn refuse<P: Platform>(player: &mut Player<'_, P>) {
    if !player.fails {
        return;
    }
    let Some(nth) = player.any(|_| true) else { return };
    let call = [Point::Unmap, Point::Flush][player.below(2)];
    let range = player.oracle.range(&player.oracle.areas[nth]);
    let page = range.start() + player.source.below(range.len());
    player.tell(format_args!("{call:?} of page {page:#x} is refused"));
    let pages = PageRange::from_len(page, 1).expect("one page");
    player.is_shaky |= player.program.look.refuse(player.space.platform(), call, pages);
}

pub(super) fn fail<P: Platform>(player: &mut Player<'_, P>) {
    if player.fails {
        let (call, way) = (CALLS[player.below(CALLS.len())], player.source.below(8));
        let due = Due::KINDS[usize::from(way >= 4)](1 + way % 4);
        player.tell(format_args!("{call:?}: {due:?}"));
        player.fail(call, due);
    }
}

/// Lets everything succeed again: a purge sets right what was refused.
pub(super) fn heal<P: Platform>(player: &mut Player<'_, P>) {
    if !player.fails {
        // Something is to fail later.
        return purge(player);
    }
    player.heal();
    let purged = player.space.purge();
    assert_eq!(purged, Ok(()), "nothing fails any more");
    flushed(player, true);
    player.is_shaky = false;
}

/// Goes on as the parent of a fork, or as its child. The CPUs remember what those of a child would
/// not: so as the parent where a part may be unmapped that they were not told to forget.
pub(super) fn fork<P: Platform>(player: &mut Player<'_, P>) {
    let is_child = player.source.chance(128) && !player.waits_for_unmap();
    player.space.quiesce();
    // SAFETY: this thread has just called `quiesce`, and no other uses the space.
    unsafe {
        match is_child {
            true => player.space.resume_in_child(),
            false => player.space.resume(),
        }
    }
    player.check_all();
}
