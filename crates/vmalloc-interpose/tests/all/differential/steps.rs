//! Random calls, made in both worlds.

use super::calls::{Answer, Call, Door, PAGE};
use super::worlds::{Region, Worlds, guard};
use std::ops::Range;

const MOST_REGIONS: usize = 12;
const MOST_PAGES: usize = 32;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const SHARED: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

/// Access that pages may get, and one word that the kernel refuses.
const ACCESS: [i32; 7] = [
    libc::PROT_NONE,
    libc::PROT_READ,
    READ_WRITE,
    READ_WRITE,
    READ_WRITE | libc::PROT_EXEC,
    libc::PROT_READ | libc::PROT_EXEC,
    libc::PROT_GROWSDOWN | libc::PROT_GROWSUP,
];

/// All advice but that which damages memory or depends on what other programs do; 77 is none.
const ADVICE: [i32; 26] =
    [0, 1, 2, 3, 4, 4, 4, 8, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 102, 103];
const NO_ADVICE: i32 = 77;

/// Kinds of mappings: flags, access, and how often as parts of all.
const KINDS: [(i32, i32); 16] = [
    (PRIVATE, READ_WRITE),
    (PRIVATE, READ_WRITE),
    (PRIVATE, READ_WRITE),
    (PRIVATE, READ_WRITE),
    (PRIVATE, READ_WRITE),
    (PRIVATE, READ_WRITE),
    (PRIVATE | libc::MAP_NORESERVE, READ_WRITE),
    (PRIVATE | libc::MAP_STACK, READ_WRITE),
    (PRIVATE | libc::MAP_POPULATE, READ_WRITE),
    (PRIVATE | libc::MAP_GROWSDOWN, READ_WRITE),
    (PRIVATE, libc::PROT_READ),
    (PRIVATE, libc::PROT_NONE),
    (PRIVATE, READ_WRITE | libc::PROT_EXEC),
    (SHARED, READ_WRITE),
    (libc::MAP_PRIVATE, READ_WRITE),
    (libc::MAP_SHARED, libc::PROT_READ),
];

/// Makes one random call in both worlds, and compares.
pub(crate) fn step(worlds: &mut Worlds) {
    if worlds.regions.is_empty() || worlds.regions.len() < MOST_REGIONS && worlds.once_in(4) {
        map_anew(worlds);
    } else {
        let at = worlds.below(worlds.regions.len());
        match worlds.below(16) {
            0..=3 => unmap(worlds, at),
            4..=5 => protect(worlds, at),
            6..=7 => advise(worlds, at),
            8..=9 => remap(worlds, at),
            10..=11 => move_into(worlds, at),
            12..=13 => map_over(worlds, at),
            14 => look(worlds, at),
            _ => wrong(worlds, at),
        }
        worlds.compare_access();
        if at < worlds.regions.len() {
            worlds.compare_content(at);
            worlds.scribble(at);
        }
    }
    worlds.forget_unmapped();
}

/// Returns some pages of a region, that a call may name.
fn some_pages(worlds: &mut Worlds, at: usize) -> Option<Range<usize>> {
    let all = worlds.regions[at].pages;
    let range = match worlds.below(3) {
        0 => 0..all,
        _ => {
            let from = worlds.below(all);
            from..from + 1 + worlds.below(all - from)
        }
    };
    worlds.may_name(at, range.clone()).then_some(range)
}

#[track_caller]
fn equal(worlds: &Worlds, answers: [Answer; 2]) -> bool {
    let alike = answers[0].is_ok() == answers[1].is_ok();
    assert!(alike, "{answers:x?} to {}, among {:x?}", worlds.last, worlds.regions);
    if answers[0].is_err() {
        assert_eq!(answers[0], answers[1], "the answer to {}", worlds.last);
    }
    answers[0].is_ok()
}

/// Returns true if these pages are one mapping in both worlds, or in none. The kernel joins equal
/// neighbours where it can, which depends on all that was ever around them; and mremap(2) fails
/// where it could not.
fn is_one_in_both(worlds: &Worlds, at: usize, pages: &Range<usize>) -> bool {
    let (region, len) = (worlds.regions[at], pages.len() * PAGE);
    let [ours, image] =
        [Door::Ours, Door::Kernel].map(|door| worlds.maps.is_one(region.addr(door, pages.start), len));
    ours == image
}

fn map_anew(worlds: &mut Worlds) {
    let mut pages = 1 + worlds.below(MOST_PAGES);
    if worlds.once_in(60) {
        pages = 512 + worlds.below(2) * 100;
    }
    let (flags, access) = worlds.choose(&KINDS);
    let image = worlds.next_image();
    let is_file = flags & libc::MAP_ANONYMOUS == 0;
    let len = pages * PAGE - if worlds.once_in(5) { 100 } else { 0 };
    let answers = worlds.both(|worlds, door| {
        let addr = if door == Door::Ours { 0 } else { image };
        let flags = if door == Door::Ours { flags } else { flags | libc::MAP_FIXED_NOREPLACE };
        let file = if is_file { worlds.file(door) } else { -1 };
        Call::Map { addr, len, access, flags, file, offset: 0 }
    });
    assert!(equal(worlds, answers), "memory");
    let ours = answers[0].expect("it was mapped");
    let is_loose = !worlds.is_reserved(ours);
    let region = Region { ours, image, pages, is_loose, stays_behind: false, was_locked: false };
    if !is_loose {
        guard(&region);
    }
    worlds.regions.push(region);
    worlds.compare_access();
    worlds.compare_content(worlds.regions.len() - 1);
    worlds.scribble(worlds.regions.len() - 1);
}

fn unmap(worlds: &mut Worlds, at: usize) {
    let Some(pages) = some_pages(worlds, at) else { return };
    let region = worlds.regions[at];
    let cut = if worlds.once_in(5) { 1 } else { 0 };
    let len = pages.len() * PAGE - cut;
    let answers = worlds.both(|_, door| Call::Unmap { addr: region.addr(door, pages.start), len });
    equal(worlds, answers);
}

fn protect(worlds: &mut Worlds, at: usize) {
    let Some(pages) = some_pages(worlds, at) else { return };
    let (region, access) = (worlds.regions[at], worlds.choose(&ACCESS));
    let len = pages.len() * PAGE;
    let answers = worlds.both(|_, door| Call::Protect { addr: region.addr(door, pages.start), len, access });
    equal(worlds, answers);
}

fn advise(worlds: &mut Worlds, at: usize) {
    let Some(pages) = some_pages(worlds, at) else { return };
    let region = worlds.regions[at];
    let advice = if worlds.once_in(20) { NO_ADVICE } else { worlds.choose(&ADVICE) };
    let writable = |page| worlds.maps.access(region.addr(Door::Kernel, page)).is_none_or(|it| it[1] == b'w');
    if advice == libc::MADV_FREE && !pages.clone().all(writable) {
        return;
    }
    let len = pages.len() * PAGE;
    let answers = worlds.both(|_, door| Call::Advise { addr: region.addr(door, pages.start), len, advice });
    equal(worlds, answers);
    if advice == libc::MADV_FREE {
        // Until it is written again, either content is right.
        worlds.fill(at, pages);
    }
    if advice == libc::MADV_DONTFORK {
        worlds.regions[at].stays_behind = true;
    }
}

/// Lets the kernel resize or move a part of a region.
fn remap(worlds: &mut Worlds, at: usize) {
    let Some(pages) = some_pages(worlds, at) else { return };
    let region = worlds.regions[at];
    let flags = worlds.choose(&[0, libc::MREMAP_MAYMOVE, libc::MREMAP_MAYMOVE, 8]);
    let new = 1 + worlds.below(2 * pages.len());
    if new > pages.len() {
        // In a reservation nothing grows where it is; and a hole behind may be anybody's.
        let is_blocked = pages.end == region.pages || worlds.is_mapped(&region, pages.end);
        if !is_blocked || region.is_loose || worlds.is_shared || !is_one_in_both(worlds, at, &pages) {
            return;
        }
    }
    let old = pages.len() * PAGE;
    let answers = worlds.both(|_, door| Call::Remap {
        addr: region.addr(door, pages.start),
        old,
        new: new * PAGE,
        flags,
        to: 0,
    });
    if !equal(worlds, answers) {
        return;
    }
    let [ours, image] = answers.map(|answer| answer.expect("both are addresses"));
    let is_here = |door, it: usize| it == region.addr(door, pages.start);
    assert_eq!(is_here(Door::Ours, ours), is_here(Door::Kernel, image), "{}", worlds.last);
    if !is_here(Door::Ours, ours) {
        worlds.regions.push(Region { ours, image, pages: new, is_loose: true, ..region });
    }
}

/// Moves a part of a region over pages of another one, or of its own.
fn move_into(worlds: &mut Worlds, at: usize) {
    let to = worlds.below(worlds.regions.len());
    let (Some(from), Some(over)) = (some_pages(worlds, at), some_pages(worlds, to)) else { return };
    let (source, target) = (worlds.regions[at], worlds.regions[to]);
    if !is_one_in_both(worlds, at, &from) || from.clone().any(|page| !worlds.is_mapped(&source, page)) {
        // Since 6.17 the kernel moves several mappings at once, and the holes between.
        return;
    }
    // It also unlocks pages around the source, as far as the kernel has joined them with it.
    let may_stay = worlds.once_in(3) && !source.was_locked;
    let keep = if may_stay { libc::MREMAP_DONTUNMAP } else { 0 };
    let flags = libc::MREMAP_FIXED | libc::MREMAP_MAYMOVE | keep;
    let (old, new) = (from.len() * PAGE, over.len() * PAGE);
    let new = if worlds.once_in(2) && new > old { old } else { new };
    // The kernel cuts what is too much off, and moves the rest if that is one mapping.
    let rest = from.start..from.start + new.min(old) / PAGE;
    if !is_one_in_both(worlds, at, &rest) {
        return;
    }
    let answers = worlds.both(|_, door| Call::Remap {
        addr: source.addr(door, from.start),
        old,
        new,
        flags,
        to: target.addr(door, over.start),
    });
    equal(worlds, answers);
    worlds.regions[to].stays_behind |= source.stays_behind;
    worlds.regions[to].was_locked |= source.was_locked;
    worlds.compare_access();
    worlds.compare_content(to);
}

/// Maps something over pages of a region.
fn map_over(worlds: &mut Worlds, at: usize) {
    let Some(pages) = some_pages(worlds, at) else { return };
    let (region, (flags, access)) = (worlds.regions[at], worlds.choose(&KINDS));
    let place = worlds.choose(&[libc::MAP_FIXED, libc::MAP_FIXED, libc::MAP_FIXED_NOREPLACE]);
    let is_file = flags & libc::MAP_ANONYMOUS == 0;
    let offset = worlds.below(64) * PAGE + if worlds.once_in(20) { 7 } else { 0 };
    let len = pages.len() * PAGE;
    let answers = worlds.both(|worlds, door| Call::Map {
        addr: region.addr(door, pages.start),
        len,
        access,
        flags: flags | place,
        file: if is_file { worlds.file(door) } else { -1 },
        offset: if is_file { offset } else { 0 },
    });
    equal(worlds, answers);
}

/// Locks, unlocks, writes back, asks for what is resident.
fn look(worlds: &mut Worlds, at: usize) {
    let Some(pages) = some_pages(worlds, at) else { return };
    let (region, which) = (worlds.regions[at], worlds.below(4));
    let len = pages.len() * PAGE;
    worlds.regions[at].was_locked |= which == 0;
    let answers = worlds.both(|_, door| {
        let addr = region.addr(door, pages.start);
        match which {
            0 => Call::Lock { addr: addr + 5, len: len - 5 },
            1 => Call::Unlock { addr, len },
            2 => Call::Sync { addr, len, flags: libc::MS_ASYNC },
            _ => Call::Resident { addr, len },
        }
    });
    equal(worlds, answers);
}

/// Makes a call that the kernel refuses for its arguments, or that does nothing.
fn wrong(worlds: &mut Worlds, at: usize) {
    let Some(pages) = some_pages(worlds, at) else { return };
    let (region, which) = (worlds.regions[at], worlds.below(10));
    let len = pages.len() * PAGE;
    let answers = worlds.both(|_, door| {
        let addr = region.addr(door, pages.start);
        let fixed = PRIVATE | libc::MAP_FIXED;
        let map = |addr, len, flags| Call::Map { addr, len, access: READ_WRITE, flags, file: -1, offset: 0 };
        match which {
            0 => Call::Unmap { addr: addr + 1, len },
            1 => Call::Unmap { addr, len: 0 },
            2 => Call::Unmap { addr, len: 1 << 63 },
            3 => Call::Protect { addr: addr + 1, len, access: libc::PROT_READ },
            4 => Call::Protect { addr, len: 0, access: libc::PROT_READ },
            5 => map(addr + 1, len, fixed),
            6 => map(addr, 0, fixed),
            7 => Call::Map {
                addr,
                len,
                access: 3,
                flags: libc::MAP_PRIVATE | libc::MAP_FIXED,
                file: -1,
                offset: 0,
            },
            8 => Call::Remap { addr, old: len, new: 0, flags: libc::MREMAP_MAYMOVE, to: 0 },
            _ => Call::Remap { addr, old: len, new: len, flags: libc::MREMAP_FIXED, to: addr },
        }
    });
    equal(worlds, answers);
}
