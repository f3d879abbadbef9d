//! The answer for people: one sentence, and the facts below it.

use std::fmt::Write;
use vmalloc_inspect::{AreaState, Explanation, Neighbour, Place, Position, RecordedFree, Segment};
use vmalloc_lab::units::{counted, human_bytes};

/// Returns the answer as lines, some of which say why a fact is not known: `recorded` frees were
/// recorded, if any were.
pub(super) fn story(explanation: &Explanation, recorded: Option<u64>) -> String {
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
        facts(place, &mut fact);
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
    match (segment.state, place.position) {
        (AreaState::Free, _) => beside(place),
        (AreaState::Busy, Position::Inside(byte)) => format!("byte {byte} of {}", area(segment)),
        (AreaState::Busy, Position::Guard(bytes)) => {
            format!(
                "{} behind the end of {}, in its guard page: an overrun",
                counted(bytes, "byte"),
                area(segment)
            )
        }
        (AreaState::Busy, _) => format!("in {}", area(segment)),
        (state, Position::Inside(byte)) => {
            format!("byte {byte} of an area that is {state}: a use after free")
        }
        (state, _) => format!("in the guard page of an area that is {state}"),
    }
}

/// Returns what a free address is: perhaps an area beside it was meant.
fn beside(place: &Place) -> String {
    let page = 4096;
    let near = |found: &&Neighbour| found.distance < page && found.segment.state == AreaState::Busy;
    match (place.before.as_ref().filter(near), place.behind.as_ref().filter(near)) {
        (Some(found), _) => {
            format!("free, {} bytes behind the end of {}", found.distance, area(&found.segment))
        }
        (_, Some(found)) => {
            format!("free, {} bytes before the start of {}", found.distance, area(&found.segment))
        }
        _ => "free: in no area".into(),
    }
}

fn area(segment: &Segment) -> String {
    let tag = segment.tag.as_ref().map_or("without a tag".into(), |tag| format!("{tag:?}"));
    format!("the area in use at {:#x}, {} bytes, {tag}", segment.addr, segment.bytes)
}

fn facts(place: &Place, fact: &mut impl FnMut(&str, String)) {
    let segment = &place.segment;
    fact("segment", format!("{}, {}", range(segment), segment.state));
    // The plain one is no news.
    if let Some(kind) = segment.kind.as_ref().filter(|kind| *kind != "vmalloc") {
        fact("kind", kind.clone());
    }
    if segment.cookie != 0 {
        fact("cookie", format!("{:#x}", segment.cookie));
    }
    if let Some(found) = place.residency {
        let swapped = if found.swapped == 0 { String::new() } else { format!(", {} in swap", found.swapped) };
        fact("memory", format!("{} of {} pages{swapped}", found.resident, found.pages));
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
