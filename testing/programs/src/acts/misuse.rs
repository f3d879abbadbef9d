//! Wrong calls: each has its error, and changes nothing.

use super::commit;
use super::looks::any_addr;
use crate::oracle::{Area, What};
use crate::player::Player;
use vmalloc::{AreaError, FreeError, Platform};

/// A call that ends an area, or changes its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Free,
    FreeAltered,
    Unreserve,
    Remove,
    Grow,
    Shrink,
}

const CALLS: [Call; 6] =
    [Call::Free, Call::FreeAltered, Call::Unreserve, Call::Remove, Call::Grow, Call::Shrink];

impl Call {
    /// Returns whether it may be made for an area.
    fn is_for(self, area: &Area) -> bool {
        match self {
            Self::Free | Self::FreeAltered => area.what.is_freed(),
            Self::Unreserve => area.what == What::Reserved,
            Self::Remove => !matches!(area.what, What::Percpu(_) | What::Short | What::Slots),
            Self::Grow | Self::Shrink => area.what == What::Memory,
        }
    }
}

pub(super) fn misuse<P: Platform>(player: &mut Player<'_, P>) {
    match player.below(4) {
        0 => _ = commit::misuse(player),
        1 => misuse_group(player),
        _ => misuse_addr(player),
    }
    player.check_counts();
}

fn misuse_addr<P: Platform>(player: &mut Player<'_, P>) {
    let (addr, call) = (any_addr(player), CALLS[player.below(CALLS.len())]);
    let starts_there = |area: &&Area| area.addr == addr && player.oracle.is_inside(area);
    if player.oracle.areas.iter().find(starts_there).is_some_and(|area| call.is_for(area)) {
        return;
    }
    let (raw, before) = (player.space.raw(), player.space.stats());
    // SAFETY: each of them is refused.
    let refused = unsafe {
        match call {
            Call::Free => raw.free(addr),
            Call::FreeAltered => raw.free_altered(addr),
            Call::Unreserve => raw.unreserve(addr),
            Call::Remove => raw.remove(addr).map(drop),
            Call::Grow => cause(raw.grow_in_place(addr, 5000)),
            Call::Shrink => cause(raw.shrink_in_place(addr, 1)),
        }
    };
    player.tell(format_args!("{call:?} {addr:#x}: {refused:?}"));
    let Err(error) = refused else { panic!("{call:?} of {addr:#x} was done") };
    assert!(is_right(player, addr, error), "{call:?} of {addr:#x}: {error}");
    let counts =
        |stats: vmalloc::Stats| (stats.busy_areas, stats.busy_pages, stats.lazy_areas, stats.free_pages);
    assert_eq!(counts(player.space.stats()), counts(before));
}

fn cause(result: Result<(), AreaError>) -> Result<(), FreeError> {
    match result {
        Err(AreaError::Area(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Returns whether `error` is right for an address at which no such area starts.
fn is_right<P: Platform>(player: &Player<'_, P>, addr: usize, error: FreeError) -> bool {
    let page = (addr >> player.place.shift) as u64;
    let starts_page = addr.is_multiple_of(player.page_bytes());
    let found = player.space.find(addr);
    match found.map(|area| (area.addr >> player.place.shift) as u64) {
        Some(_) if !starts_page => error == FreeError::Unaligned { addr },
        Some(start) if start == page => error == FreeError::WrongKind { page },
        Some(start) => error == FreeError::Interior { page, start },
        // It may lie in an area that was freed and is not back yet.
        None => match error {
            FreeError::NotAnArea { page: told } | FreeError::AlreadyFreed { page: told } => told == page,
            FreeError::Interior { page: told, start } => told == page && start < page,
            FreeError::Unaligned { addr: told } => told == addr && !starts_page,
            _ => false,
        },
    }
}

/// A group that is not exactly this one is not freed, nor a part of one.
fn misuse_group<P: Platform>(player: &mut Player<'_, P>) {
    let Some(nth) = player.any(|area| matches!(area.what, What::Percpu(_))) else { return };
    let What::Percpu(base) = player.oracle.areas[nth].what else { return };
    let mut group = player.oracle.groups[&base].clone();
    let last = group.sizes.len() - 1;
    group.sizes[last] += player.page_bytes();
    // SAFETY: it is refused.
    let refused = unsafe { player.space.raw().free_congruent(base, &group.offsets, &group.sizes) };
    assert!(refused.is_err(), "another group was freed: {group:x?}");
    player.check_area(nth);
}
