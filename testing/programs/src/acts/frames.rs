//! Frames, and mappings of them.

use super::makes::{mapped, refused_mapping};
use super::misuse;
use crate::oracle::{Area, Shown, What};
use crate::player::Player;
use vmalloc::{AllocError, AreaError, Frame, FrameRun, Kind, MapFrames, Platform, Protect, Protection};

/// Frames that the player has at most.
const MOST: usize = 160;
const PROTECTIONS: [Protection; 3] = [Protection::ReadWrite, Protection::Read, Protection::ReadExecute];

pub(super) fn take<P: MapFrames>(player: &mut Player<'_, P>) {
    if player.oracle.mine.len() > MOST {
        return;
    }
    let mut frames = vec![Frame(0); 1 + player.below(20)];
    let (before, platform) = (player.failed(), player.space.platform());
    let taken = match player.source.chance(64) {
        true => platform.take_run(frames.len() as u64, 4).map(|first| {
            assert!(first.0.is_multiple_of(4));
            frames.iter_mut().zip(0..).for_each(|(frame, nth)| *frame = first.plus(nth));
        }),
        false => platform.take_frames(&mut frames),
    };
    player.tell(format_args!("{frames:?}: {taken:?}"));
    match taken {
        Ok(()) => {
            for frame in &frames {
                assert!(!player.oracle.mine.contains(frame), "{frame:?} was taken already");
                player.oracle.set_frame_word(*frame, None);
            }
            if player.source.chance(128) {
                frames.reverse();
            }
            player.oracle.mine.extend(frames);
        }
        Err(error) => player.excuse(before, &error),
    }
}

/// Gives the frames back that nothing shows, of some.
pub(super) fn give<P: MapFrames>(player: &mut Player<'_, P>) {
    if player.is_shared {
        // Others flush unseen.
        player.space.flush().unwrap_or_else(|error| panic!("{error}"));
        player.oracle.lingering.clear();
    }
    let from = player.below(player.oracle.mine.len() + 1);
    let of = player.oracle.mine.split_off(from);
    let (kept, gone): (Vec<_>, Vec<_>) = of.into_iter().partition(|frame| player.oracle.is_shown(*frame));
    player.oracle.mine.extend(kept);
    player.tell(format_args!("{gone:?}"));
    (player.program.end.give)(&player.space, &gone);
    // They are the supply's now.
    if !player.is_shared {
        misuse::map_foreign(player, gone.first().copied());
    }
}

/// Returns some of the player's frames: consecutive ones, or any, and some of them twice.
pub(super) fn some<P: Platform>(player: &mut Player<'_, P>, most: usize) -> Option<Vec<Frame>> {
    let len = player.oracle.mine.len();
    if len == 0 {
        return None;
    }
    let (first, count) = (player.below(len), 1 + player.below(most));
    let shuffles = player.source.chance(96);
    let nth =
        |player: &mut Player<'_, P>, nth| if shuffles { player.below(len) } else { (first + nth) % len };
    Some(
        (0..count)
            .map(|n| nth(player, n))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|n| player.oracle.mine[n])
            .collect(),
    )
}

fn random_protection<P: Platform>(player: &mut Player<'_, P>) -> Protection {
    PROTECTIONS[[0, 0, 0, 0, 1, 2][player.below(6)]]
}

pub(super) fn map<P: MapFrames>(player: &mut Player<'_, P>) {
    let most = if player.source.chance(32) { 100 } else { 10 };
    let Some(frames) = some(player, most) else { return };
    let protection = random_protection(player);
    let before = player.failed();
    let made = player.call(|space| space.raw().map(&frames, protection, None));
    mapped(player, What::Mapping(Kind::Vmap), &frames, protection, made, before);
}

pub(super) fn map_runs<P: MapFrames>(player: &mut Player<'_, P>) {
    let Some(frames) = some(player, 40) else { return };
    let mut runs: Vec<FrameRun> = Vec::new();
    for &frame in &frames {
        match runs.last_mut() {
            Some(run) if run.first.plus(run.count) == frame => run.count += 1,
            _ => runs.push(FrameRun { first: frame, count: 1 }),
        }
    }
    let (protection, before) = (random_protection(player), player.failed());
    let made = player.call(|space| space.raw().map_runs(&runs, protection, None));
    mapped(player, What::Mapping(Kind::Vmap), &frames, protection, made, before);
}

pub(super) fn map_device<P: MapFrames>(player: &mut Player<'_, P>) {
    let devices = &player.program.devices;
    if devices.is_empty() {
        return;
    }
    let frames: Vec<_> = (0..1 + player.below(4)).map(|_| devices[player.below(devices.len())]).collect();
    let before = player.failed();
    let made = player.call(|space| space.raw().map_device(&frames, Protection::ReadWrite, None));
    mapped(player, What::Mapping(Kind::IoMap), &frames, Protection::ReadWrite, made, before);
}

/// Maps a part of shared memory once more.
pub(super) fn map_shared<P: MapFrames>(player: &mut Player<'_, P>) {
    let Some(nth) = player.any(|area| area.what == What::Shared) else { return };
    let (addr, all) = (player.oracle.areas[nth].addr, player.oracle.areas[nth].pages.clone());
    let start = player.below(all.len());
    let count = 1 + player.below(all.len() - start);
    let (protection, before, page) = (random_protection(player), player.failed(), player.page_bytes());
    let bytes = count * page - player.below(page);
    let beyond = player.space.raw().map_shared(addr, (all.len() + 1) * page, protection, None);
    assert!(matches!(beyond, Err(AreaError::Beyond { .. })), "{beyond:?}");
    let from = addr + start * page;
    let made = player.call(|space| space.raw().map_shared(from, bytes, protection, None));
    let frames: Vec<_> = all[start..start + count].iter().map(frame).collect();
    let what = What::Mapping(Kind::Vmap);
    match made {
        Ok(addr) => _ = mapped(player, what, &frames, protection, Ok(addr), before),
        Err(AreaError::Platform(error)) => player.excuse(before, &error),
        Err(AreaError::Alloc(error)) => refused_mapping(player, count as u64, &error, before),
        Err(error) => panic!("{error}"),
    }
}

fn frame(shown: &Shown) -> Frame {
    let Shown::Frame(frame) = shown else { panic!("shared memory is made of frames") };
    Frame(*frame)
}

/// Changes what may be done with code, or with a mapping.
pub(super) fn protect<P: Protect>(player: &mut Player<'_, P>) {
    let may_be = |area: &Area| matches!(area.what, What::Exec | What::Mapping(Kind::Vmap));
    let Some(nth) = player.any(may_be) else { return };
    let (addr, protection) = (player.oracle.areas[nth].addr, random_protection(player));
    // SAFETY: the player owns the area, and goes by its protection.
    let protect =
        |player: &Player<'_, P>| player.call(|space| unsafe { space.raw().protect(addr, protection) });
    let before = player.failed();
    let mut changed = protect(player);
    player.tell(format_args!("protect {addr:#x}, {protection:?}: {changed:?}"));
    if let Err(AreaError::Platform(_) | AreaError::Alloc(AllocError::Metadata)) = changed {
        // Each page has the old protection or the new one.
        player.excuse_any(before);
        player.heal();
        changed = protect(player);
    }
    changed.unwrap_or_else(|error| panic!("{error}"));
    player.oracle.areas[nth].protection = protection;
    player.write_some(nth);
    player.check_area(nth);
}
