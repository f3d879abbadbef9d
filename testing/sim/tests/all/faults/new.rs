//! Making a space.

use super::scene::{all_options, sim};
use vmalloc::{Space, SpaceError};
use vmalloc_sim::harness::{check_whole, each};
use vmalloc_sim::{Due, Point};

#[test]
fn new_space() {
    for (options, settings) in all_options() {
        for due in Due::KINDS {
            let mut refused = 0;
            let failed = each(Point::Heap, due, |injection| {
                let sim = sim();
                let (result, failed) = injection.on_heap(|| Space::new(sim, settings));
                match result {
                    Ok(space) => check_whole(&space),
                    Err(error) => {
                        assert_eq!(error, SpaceError::Metadata);
                        refused += 1;
                    }
                }
                failed > 0
            });
            println!("{options}: Space::new {failed} steps; refused {refused}");
            assert!(failed > 0 && refused > 0);
        }
    }
}
