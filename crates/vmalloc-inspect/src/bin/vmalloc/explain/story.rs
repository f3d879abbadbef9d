//! The answer for people: one sentence, and the facts below it.

use std::fmt::Write;
use vmalloc_inspect::program::units::{counted, human_bytes};
use vmalloc_inspect::{AreaState, Explanation, Neighbour, Place, Position, RecordedFree, Residency, Segment};

/// Returns the answer as lines, some of which say why a fact is not known: `recorded` frees were
/// recorded, if any were.
pub(super) fn story(explanation: &Explanation, recorded: Option<u64>, is_dump: bool) -> String {
    let addr = explanation.addr;
    let mut text = match &explanation.place {
        Some(place) => format!("{addr:#x}: {}\n", sentence(place)),
        None => format!(
            "{addr:#x}: in no space; {} looked at\n",
            match explanation.spaces {
                1 => "1 space was".into(),
                spaces => format!("{spaces} spaces were"),
            }
        ),
    };
    let mut fact = |name: &str, value: String| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "  {name:<9} {value}");
    };
    if let Some(place) = &explanation.place {
        facts(place, is_dump, &mut fact);
    }
    let is_in_use = explanation.place.as_ref().is_none_or(|place| place.segment.state == AreaState::Busy);
    match &explanation.freed {
        Some(freed) => fact("freed", freed_by(freed)),
        None if is_in_use => {}
        None => fact("freed", unrecorded(recorded).into()),
    }
    if let Some(mapping) = &explanation.mapping {
        let name = mapping.name.as_deref().unwrap_or("(no name)");
        fact("mapping", format!("{:#x}-{:#x} {} {name}", mapping.start, mapping.end, mapping.rights));
    }
    text
}

/// Says why it is not told who freed an address that is not in use.
fn unrecorded(recorded: Option<u64>) -> &'static str {
    match recorded {
        None => {
            "not known: the process records no frees (trap_report::install and SpaceOptions::trap_on_free do, \
             and VMALLOC_DEBUG=1 under LD_PRELOAD)"
        }
        Some(_) => "not known: it is not among the frees that were recorded last",
    }
}

fn sentence(place: &Place) -> String {
    let segment = &place.segment;
    let (overrun, underrun) = (overrun(place), underrun(place));
    match (segment.state, place.position) {
        (AreaState::Free, _) => match (overrun, underrun) {
            (None, None) => "free: in no area".into(),
            (Some(one), None) | (None, Some(one)) => format!("free, {one}"),
            (Some(one), Some(other)) => format!("free, {one}, and {other}"),
        },
        (AreaState::Busy, Position::Inside(byte)) => format!("byte {byte} of {}", area(segment)),
        (AreaState::Busy, Position::Guard(bytes)) => {
            let is_nearer = place.behind.as_ref().is_some_and(|behind| behind.distance < bytes);
            let end = format!("{} behind the end of {}", counted(bytes, "byte"), area(segment));
            let other = underrun.filter(|_| is_nearer);
            format!("{end}, in its guard page: an overrun{}", or("an underrun", other))
        }
        (AreaState::Busy, _) => format!("in {}", area(segment)),
        (state, position) => {
            let (overrun, underrun) = (or("an overrun", overrun), or("an underrun", underrun));
            let place = match position {
                Position::Inside(byte) => format!("byte {byte} of"),
                _ => "in the guard page of".into(),
            };
            format!("{place} an area that is {state}: a use after free{overrun}{underrun}")
        }
    }
}

/// Names another cause of an access, beside the one that was named.
fn or(cause: &str, place: Option<String>) -> String {
    place.map_or(String::new(), |place| format!(", or {cause}, {place}"))
}

/// So near to an area in use an access may have been meant for it: a number, and no page size.
const NEAR: u64 = 4096;

/// Returns where an address is behind an area in use, if one ends near.
fn overrun(place: &Place) -> Option<String> {
    let found = place.before.as_ref().filter(is_near)?;
    Some(format!("{} behind the end of {}", counted(found.distance, "byte"), area(&found.segment)))
}

/// Returns where an address is before an area in use, if one starts near.
fn underrun(place: &Place) -> Option<String> {
    let found = place.behind.as_ref().filter(is_near)?;
    Some(format!("{} before the start of {}", counted(found.distance, "byte"), area(&found.segment)))
}

fn is_near(found: &&Neighbour) -> bool {
    found.distance < NEAR && found.segment.state == AreaState::Busy
}

fn area(segment: &Segment) -> String {
    let tag = segment.tag.as_ref().map_or("without a tag".into(), |tag| format!("{tag:?}"));
    format!("the area in use at {:#x}, {} bytes, {tag}", segment.addr, segment.bytes)
}

fn facts(place: &Place, is_dump: bool, fact: &mut impl FnMut(&str, String)) {
    let segment = &place.segment;
    fact("segment", format!("{}, {}", range(segment), segment.state));
    // The plain one is no news.
    if let Some(kind) = segment.kind.as_ref().filter(|kind| *kind != "vmalloc") {
        fact("kind", kind.clone());
    }
    if segment.record != 0 {
        fact("record", format!("{:#x}", segment.record));
    }
    if let Some(found) = place.residency {
        fact("memory", memory(found, is_dump));
    } else if segment.state != AreaState::Free {
        fact("memory", "not known: /proc/PID/pagemap can't be read".into());
    }
    for (name, neighbour) in [("before", &place.before), ("behind", &place.behind)] {
        if let Some(Neighbour { segment, distance, .. }) = neighbour {
            let tag = segment.tag.as_ref().map_or(String::new(), |tag| format!(", {tag:?}"));
            fact(name, format!("{}, {}{tag}, {distance} bytes away", range(segment), segment.state));
        }
    }
    let [start, end] = place.span;
    fact("space", format!("{start:#x}-{end:#x}, {}", human_bytes(end - start)));
    if !place.is_settled {
        fact("note", "the space was changing all the time: some of this may be older".into());
    }
    if !place.is_whole {
        fact("note", "some tags or states of freed areas could not be read".into());
    }
}

fn memory(found: Residency, is_dump: bool) -> String {
    let besides = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let (swapped, closed) =
        (besides(found.swapped, "in swap"), besides(found.closed, "closed by guard marks"));
    let pages = format!("{} of {} pages", found.resident, found.pages);
    if is_dump { format!("{pages} are in the dump") } else { pages + &swapped + &closed }
}

fn range(segment: &Segment) -> String {
    format!("{:#x}-{:#x}, {}", segment.addr, segment.end, human_bytes(segment.end - segment.addr))
}

fn freed_by(freed: &RecordedFree) -> String {
    let RecordedFree { addr, bytes, thread, at_milliseconds, .. } = freed;
    let when = match freed.milliseconds_ago {
        Some(ago) => format!("{ago} ms ago"),
        None => format!("at {at_milliseconds} ms of the machine's clock"),
    };
    let tag = freed.tag.as_ref().map_or(String::new(), |tag| format!(", {tag:?}"));
    let frames: Vec<_> = freed.frames.iter().map(|frame| format!(" {frame:#x}")).collect();
    let frames = if frames.is_empty() { String::new() } else { format!("; called from{}", frames.concat()) };
    format!("by thread {thread} {when}: {addr:#x}, {bytes} bytes{tag}{frames}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmalloc::{Request, SpaceOptions};
    use vmalloc_inspect::{Process, Target};
    use vmalloc_linux::{LinuxOptions, open};

    const PAGE: usize = 4096;

    #[test]
    fn an_access_that_has_two_causes_is_told_with_both() {
        let options = LinuxOptions::new().max_bytes(1 << 30).drain_thread(false);
        let space = open(options, SpaceOptions::default()).expect("a space");
        let process = Process::open(std::process::id() as i32).expect("this one");
        let first_line = |addr: usize| {
            let explained = Target::find(&process).and_then(|target| target.explain(addr as u64));
            story(&explained.expect("it is read"), None, false).lines().next().unwrap_or_default().to_owned()
        };
        let start = (space.geometry().span.start() as usize + 0x4000) * PAGE;
        let alloc = |pages: std::ops::Range<usize>, guard| {
            let (addr, end) = (start + pages.start * PAGE, start + pages.end * PAGE);
            let request = Request::new(end - addr - usize::from(guard) * PAGE).guard(guard);
            space.raw().alloc(&request.within(addr, end)).expect("its place is free")
        };
        // SAFETY: nothing uses the areas.
        let free = |addr| unsafe { space.raw().free(addr) }.expect("it is busy");
        let [before, freed, behind] = [0..3, 3..6, 6..9].map(|pages| alloc(pages, false));
        free(freed);
        let is = |addr: usize, wanted: &[&str], unwanted: &[&str]| {
            let line = first_line(addr);
            assert!(wanted.iter().all(|word| line.contains(word)), "{line}");
            assert!(!unwanted.iter().any(|word| line.contains(word)), "{line}");
        };
        let [of_before, of_behind] = [before, behind].map(|addr| format!("in use at {addr:#x}"));
        is(freed + 10, &["a use after free, or an overrun, 10 bytes behind", &of_before], &["underrun"]);
        is(behind - 6, &["a use after free, or an underrun, 6 bytes before", &of_behind], &["overrun"]);
        is(freed + PAGE + 5000 - PAGE, &["a use after free"], &["run,"]);
        let [guarded, next] = [10..13, 13..16].map(|pages| alloc(pages, true));
        is(guarded + 2 * PAGE + 1, &["in its guard page: an overrun"], &["underrun"]);
        let of_next = format!("an underrun, 6 bytes before the start of the area in use at {next:#x}");
        is(next - 6, &["4,090 bytes behind the end", "in its guard page: an overrun, or", &of_next], &[]);
        is(behind + 3 * PAGE + 9, &["free, 9 bytes behind the end", "and", "before the start"], &[]);
    }
}
