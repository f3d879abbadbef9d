//! Walks over a space: what they show agrees with the counts, and no thread waits for them.

use crate::{alloc, free};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::area_map::State;
use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_sim::{Options, Sim};

fn space(options: SpaceOptions) -> Space<Sim> {
    let span = PageRange::from_len(0x7_0003, 1 << 20).expect("not empty");
    Space::new(Options::new(span).cpus(4).build(), options).expect("an empty space")
}

#[test]
fn segments_and_cached_areas_match_the_counts() {
    for options in [SpaceOptions::default().cache_bytes(128 << 20), SpaceOptions::default().unmap_on_free()] {
        let space = space(options);
        let areas: Vec<usize> = (0..1000).map(|nth| alloc(&space, 1 + nth % 30)).collect();
        areas.iter().step_by(2).for_each(|&addr| free(&space, addr));
        if options.cache_bytes == Some(0) {
            let _ = space.drain().expect("it refuses nothing");
        }
        areas.iter().skip(1).step_by(4).for_each(|&addr| free(&space, addr));

        let stats = space.stats();
        let kept: Vec<PageRange> = space.cached().map(|(area, _)| area).collect();
        assert!(kept.len() > 400, "{}", kept.len());
        assert_eq!(kept.len() as u64, stats.cached_areas + stats.pooled_areas);
        assert_eq!(kept.iter().map(PageRange::len).sum::<u64>(), stats.cached_pages + stats.pooled_pages);
        let retired: HashSet<PageRange> =
            space.segments().filter(|it| it.state == State::Retired).map(|it| it.range).collect();
        assert!(kept.iter().all(|area| retired.contains(area)));
        assert_eq!(retired.len() as u64, stats.lazy_areas + kept.len() as u64);
        let pages =
            |state| space.segments().filter(|it| it.state == state).map(|it| it.range.len()).sum::<u64>();
        assert_eq!((pages(State::Busy), pages(State::Free)), (stats.busy_pages, stats.free_pages));
        assert_eq!(space.segments().map(|it| it.range.len()).sum::<u64>(), stats.span_pages);
    }
}

#[test]
fn concurrent_walk_visits_every_page_once() {
    let (space, stop) =
        (space(SpaceOptions::default().unmap_on_free().lazy_max_pages(200)), AtomicBool::new(false));
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
