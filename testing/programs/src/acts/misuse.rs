//! Wrong calls: each has its error, and changes nothing.

use super::commit;
use super::looks::any_addr;
use crate::oracle::{Area, What};
use crate::player::{Player, short};
use vmalloc::{
    AllocError, AreaError, Frame, FreeError, MapFrames, Origin, Platform, Protection, RequestError, Stats,
};

/// A call that ends an area, or changes its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Free,
    FreeAltered,
    Unreserve,
    Remove,
    SetRecord,
    Grow,
    Shrink,
}

impl Call {
    const ALL: [Self; 7] = [
        Self::Free,
        Self::FreeAltered,
        Self::Unreserve,
        Self::Remove,
        Self::SetRecord,
        Self::Grow,
        Self::Shrink,
    ];

    /// Returns whether it may be made for an area.
    fn is_for(self, area: &Area) -> bool {
        match self {
            Self::Free | Self::FreeAltered => area.what.is_freed(),
            Self::Unreserve => {
                matches!(area.what, What::Reserved | What::Percpu(_)) || area.is_beyond_blocks(What::Slots)
            }
            Self::SetRecord => true,
            Self::Remove => match area.what {
                What::Short | What::Slots => area.is_beyond_blocks(area.what),
                _ => true,
            },
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
    let (addr, call) = (any_addr(player), Call::ALL[player.below(Call::ALL.len())]);
    let starts_there = |area: &&Area| area.addr == addr && player.oracle.is_inside(area);
    if player.oracle.areas.iter().find(starts_there).is_some_and(|area| call.is_for(area)) {
        return;
    }
    if call == Call::SetRecord && player.space.find(addr).is_some_and(|area| area.addr == addr) {
        // Blocks take one as well.
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
            Call::SetRecord => cause(raw.set_record(addr, 7)),
            Call::Grow => cause(raw.grow_in_place(addr, 5000)),
            Call::Shrink => cause(raw.shrink_in_place(addr, 1)),
        }
    };
    player.tell(format_args!("{call:?} {addr:#x}: {refused:?}"));
    let Err(error) = refused else { panic!("{call:?} of {addr:#x} was done") };
    assert!(is_right(player, addr, error), "{call:?} of {addr:#x}: {error}");
    assert_eq!(counts(player.space.stats()), counts(before));
}

/// Returns the counts that an error does not change.
fn counts(stats: Stats) -> [u64; 6] {
    let Stats { busy_areas, busy_pages, lazy_areas, free_pages, cached_areas, tenant_areas, .. } = stats;
    [busy_areas, busy_pages, lazy_areas, free_pages, cached_areas, tenant_areas]
}

fn cause(result: Result<(), AreaError>) -> Result<(), FreeError> {
    match result {
        Err(AreaError::Area(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Returns whether `error` is right for an address at which no such area starts.
fn is_right<P: Platform>(player: &Player<'_, P>, addr: usize, error: FreeError) -> bool {
    let starts_page = addr.is_multiple_of(player.page_bytes());
    let found = player.space.find(addr);
    match found.map(|area| area.addr) {
        Some(_) if !starts_page => error == FreeError::Unaligned { addr },
        Some(start) if start == addr => error == FreeError::WrongKind { addr },
        Some(start) => error == FreeError::Interior { addr, start },
        // It may lie in an area that was freed and is not back yet.
        None => match error {
            FreeError::NotAnArea { addr: told } | FreeError::AlreadyFreed { addr: told } => told == addr,
            FreeError::Interior { addr: told, start } => told == addr && start < addr,
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
    let refused = unsafe { vmalloc_percpu::free(&player.space, base, &group.offsets, &group.sizes) };
    assert!(refused.is_err(), "another group was freed: {group:x?}");
    player.check_area(nth);
}

/// Calls about frames that are wrong for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameCall {
    Unmap,
    MapShared,
    MapPages,
    UnmapPages,
}

impl FrameCall {
    const ALL: [Self; 4] = [Self::Unmap, Self::MapShared, Self::MapPages, Self::UnmapPages];

    /// Returns whether it may be made for an area, at its start or, for some, inside it.
    fn is_for(self, area: &Area) -> bool {
        match self {
            Self::Unmap => matches!(area.what, What::Mapping(_)) || area.is_beyond_blocks(What::Short),
            Self::MapShared => area.what == What::Shared,
            Self::MapPages | Self::UnmapPages => {
                area.what.takes_pages() || area.is_beyond_blocks(What::Slots)
            }
        }
    }

    /// Makes the call.
    fn make<P: MapFrames>(
        self,
        player: &Player<'_, P>,
        addr: usize,
        frames: &[Frame],
    ) -> Result<(), AreaError> {
        let (raw, rw) = (player.space.raw(), Protection::ReadWrite);
        // SAFETY: each of them is refused.
        unsafe {
            match self {
                Self::Unmap => raw.unmap(addr).map_err(AreaError::from),
                Self::MapShared => raw.map_shared(addr, 1, rw, None).map(drop),
                Self::MapPages => raw.map_pages(addr, frames, rw),
                Self::UnmapPages => raw.unmap_pages(addr, frames.len() as u64),
            }
        }
    }
}

pub(super) fn misuse_frames<P: MapFrames>(player: &mut Player<'_, P>) {
    let Some(frame) = player.oracle.mine.first().copied() else { return };
    let foreign = [Frame(u64::MAX >> 8), Frame(u64::MAX)][player.below(2)];
    map_foreign(player, Some(foreign));
    let (addr, call) = (any_addr(player), FrameCall::ALL[player.below(FrameCall::ALL.len())]);
    let page = (addr >> player.place.shift) as u64;
    if player.oracle.holder(page).is_some_and(|area| call.is_for(area)) {
        return;
    }
    let before = player.space.stats();
    let refused = call.make(player, addr, &[frame]);
    player.tell(format_args!("{call:?} {addr:#x}: {refused:?}"));
    assert_eq!(counts(player.space.stats()), counts(before));
    let (found, is_start) = (player.space.find(addr), call == FrameCall::Unmap);
    match refused {
        Err(AreaError::Area(error)) if is_start => assert!(is_right(player, addr, error), "{error}"),
        Err(AreaError::Area(error)) => {
            let right = match found {
                _ if !addr.is_multiple_of(player.page_bytes()) => is_right(player, addr, error),
                Some(area) => error == FreeError::WrongKind { addr: area.addr },
                None => error == FreeError::NotAnArea { addr },
            };
            assert!(right, "{call:?} of {addr:#x}: {error}");
        }
        other => panic!("{call:?} of {addr:#x}: {other:?}"),
    }
}

/// Frames that are not taken are refused, and so are none.
pub(super) fn map_foreign<P: MapFrames>(player: &mut Player<'_, P>, frame: Option<Frame>) {
    let (raw, rw) = (player.space.raw(), Protection::ReadWrite);
    let none = Err(RequestError::ZeroSize.into());
    assert_eq!((raw.map(&[], rw, None), short(&player.space).map(&[])), (none, none));
    let Some(foreign) = frame else { return };
    let origin = player.space.platform().origin(foreign);
    if origin == Origin::Supply {
        return;
    }
    let before = player.space.stats();
    let mut frames = player.oracle.mine.iter().take(2).copied().collect::<Vec<_>>();
    frames.push(foreign);
    let wrong = AllocError::BadFrame { frame: foreign.0, origin };
    assert_eq!((raw.map(&frames, rw, None), short(&player.space).map(&frames)), (Err(wrong), Err(wrong)));
    let device = raw.map_device(&[foreign, frames[0]], rw, None);
    assert!(matches!(device, Err(AllocError::BadFrame { .. })), "{device:?}");
    let takes = |area: &&Area| area.what.takes_pages() && area.pages.iter().all(|shown| shown.is_nothing());
    let reserved = player.oracle.areas.iter().find(takes);
    if let Some(area) = reserved.filter(|area| area.pages.len() >= frames.len()) {
        // SAFETY: it is refused.
        let mapped = unsafe { raw.map_pages(area.addr, &frames, rw) };
        assert_eq!(mapped, Err(AreaError::Alloc(wrong)));
    }
    assert_eq!(counts(player.space.stats()), counts(before));
}
