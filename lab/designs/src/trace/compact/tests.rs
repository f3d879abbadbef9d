use super::*;
use crate::trace::{Damage, Event, Kind, Place, Reason, Synthetic};
use proptest::prelude::*;
use vmalloc::PageRange;

fn write(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    events.iter().for_each(|event| writer.push(event).expect("memory"));
    let (bytes, count) = writer.finish().expect("memory");
    assert_eq!(count, events.len() as u64);
    bytes
}

/// The events before the damage, if there is any.
fn read(bytes: &[u8]) -> (Vec<Event>, Option<Damage>) {
    let mut blocks = Blocks::new(bytes);
    let mut events = Vec::new();
    loop {
        match blocks.next() {
            Some(Ok(event)) => events.push(event),
            Some(Err(damage)) => {
                assert_eq!(blocks.next(), None);
                return (events, Some(damage));
            }
            None => return (events, None),
        }
    }
}

fn range() -> impl Strategy<Value = PageRange> {
    (0_u64..1 << 51, 1_u64..1 << 51)
        .prop_map(|(start, pages)| PageRange::from_len(start, pages).expect("fits"))
}

fn kind() -> impl Strategy<Value = Kind> {
    let run = || range().prop_map(|range| (range.start(), range.len()));
    let page = || 0_u64..=1 << 52;
    prop_oneof![
        (run(), 0..52_u32, proptest::option::of(range())).prop_map(|((start, pages), order, within)| {
            Kind::Alloc { start, pages, align: 1 << order, within }
        }),
        any::<u64>().prop_map(|pages| Kind::Failed { pages }),
        page().prop_map(|start| Kind::Free { start }),
        (proptest::option::of(range()), any::<u32>()).prop_map(|(hull, areas)| Kind::Purge { hull, areas }),
        page().prop_map(|base| Kind::ChunkMade { base }),
        page().prop_map(|base| Kind::ChunkGone { base }),
        run().prop_map(|(start, pages)| Kind::Map { start, pages }),
        run().prop_map(|(start, pages)| Kind::Unmap { start, pages }),
        (run(), run()).prop_map(|((from, from_pages), (to, to_pages))| Kind::Remap {
            from,
            from_pages,
            to,
            to_pages
        }),
        page().prop_map(|end| Kind::BreakIs { end }),
        page().prop_map(|end| Kind::Break { end }),
        (page(), any::<u64>()).prop_map(|(start, pages)| Kind::Protect { start, pages }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (any::<Option<u64>>(), any::<u32>(), any::<u32>(), kind()).prop_map(|(time_ns, cpu, task, kind)| Event {
        time_ns,
        cpu,
        task,
        kind,
    })
}

proptest! {
    #[test]
    fn events_come_back(events in proptest::collection::vec(event(), 0..200)) {
        prop_assert_eq!(read(&write(&events)), (events, None));
    }

    #[test]
    fn random_bytes_are_damage(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), magic: bool) {
        if magic {
            bytes.splice(..0, *MAGIC);
        }
        prop_assert!(read(&bytes).1.is_some());
    }
}

#[test]
fn changed_bits_and_missing_ends_are_reported_with_their_place() {
    let events: Vec<Event> = Synthetic::new(12_000, 1).collect();
    let bytes = write(&events);
    assert!(bytes.len() > 2 * BLOCK_BYTES, "{}", bytes.len());
    for at in (0..bytes.len()).step_by(997) {
        for mask in [1, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            let (found, damage) = read(&changed);
            let Some(Damage { at: Place::Byte { offset, events: before }, .. }) = damage else {
                panic!("{at} {mask}: {damage:?}");
            };
            assert!(
                offset <= at as u64 && before == found.len() as u64 && events.starts_with(&found),
                "{at}"
            );
        }
        let (found, damage) = read(&bytes[..at]);
        assert_eq!(damage.expect("cut").reason, Reason::CutShort, "{at}");
        assert!(events.starts_with(&found));
    }
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(read(&longer).1.expect("longer").reason, Reason::BehindTheEnd);
}

#[test]
fn an_event_takes_a_few_bytes() {
    let events: Vec<Event> = Synthetic::new(100_000, 1).collect();
    let bytes = write(&events).len();
    assert!(bytes < 10 * events.len(), "{bytes}");
}
