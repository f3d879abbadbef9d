//! Walks over a space, for which no thread waits.

use crate::{alloc, free};
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_sim::Options;

#[test]
fn concurrent_walk_visits_every_page_once() {
    let span = PageRange::from_len(0x7_0003, 1 << 20).expect("not empty");
    let options = SpaceOptions::default().unmap_on_free().lazy_max_pages(200);
    let space = Space::new(Options::new(span).cpus(4).build(), options).expect("an empty space");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut live = std::collections::VecDeque::new();
            for nth in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                live.push_back(alloc(&space, 1 + nth % 40));
                if live.len() > 300 {
                    live.pop_front().into_iter().for_each(|addr| free(&space, addr));
                }
            }
            live.into_iter().for_each(|addr| free(&space, addr));
        });
        for _ in 0..200 {
            let mut page = 0x7_0003;
            for segment in space.segments() {
                assert_eq!(segment.range.start(), page);
                page = segment.range.end();
            }
            assert_eq!(page, 0x7_0003 + (1 << 20));
            assert!(space.cached().all(|(area, _)| area.len() <= 41));
        }
        stop.store(true, Ordering::Relaxed);
    });
}
