//! Short mappings that a flush leaves, or not.

use super::scene::{PAGE, empty};
use crate::short;
use vmalloc::{Frames, SpaceOptions, Translate};
use vmalloc_short::ShortMapping;
use vmalloc_sim::{Due, heap};

/// A flush that is refused memory says so, or has unmapped every short mapping without it.
#[test]
fn a_flush_without_memory_is_an_error_or_flushes_everything() {
    let mut errors = 0;
    for nth in 1.. {
        let space = empty(SpaceOptions::default());
        let (frames, short) = (Frames::new(&space, 3).expect("there are frames"), short(&space));
        // More than one block, with slots in use in between.
        let mappings: Vec<_> = (0..60).map(|_| ShortMapping::new(&short, &frames).expect("room")).collect();
        let (kept, ended): (Vec<_>, Vec<_>) =
            mappings.into_iter().enumerate().partition(|(nth, _)| nth % 7 == 0);
        let ended: Vec<u64> = ended.into_iter().map(|(_, mapping)| (mapping.addr() / PAGE) as u64).collect();
        let (result, demand) = heap::short_of(Due::Nth(nth), || space.flush());
        let is_gone = |&page: &u64| space.platform().physical_page(page).is_none();
        assert!(result.is_err() || ended.iter().all(is_gone), "memory refused at {nth}");
        errors += u64::from(result.is_err());
        drop((kept, frames));
        let (result, _) = heap::short_of(Due::Nth(nth), || space.flush());
        assert!(result.is_err() || space.platform().taken_frames().is_empty(), "memory refused at {nth}");
        space.flush().expect("there is memory");
        assert_eq!(space.platform().taken_frames(), []);
        assert_eq!(space.platform().check_end(), []);
        if demand.refused == 0 {
            break;
        }
    }
    assert!(errors > 0);
}
