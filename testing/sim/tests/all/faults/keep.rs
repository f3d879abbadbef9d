//! Areas freed and not given back yet: purges of every kind.

use super::scene::{Areas, Scene, configs};
use super::table;
use vmalloc::{PlatformError, Space, SpaceOptions};
use vmalloc_sim::harness::{Case, Step, free_all};
use vmalloc_sim::{Point, Sim};

type Call = fn(&Space<Sim>) -> Result<(), PlatformError>;

const CALLS: [(&str, Call); 6] = [
    ("purge", Space::purge),
    ("flush_unmap_aliases", Space::flush),
    // The second one finds areas that were not needed since the first.
    ("decay", |space| space.decay().and_then(|()| space.decay())),
    ("drain", |space| space.drain().and_then(|_| space.drain()).map(|_| ())),
    ("shrink", |space| space.shrink(3).map(|_| ())),
    ("shrink all", |space| space.shrink(u64::MAX).map(|_| ())),
];

fn case(name: &'static str, call: Call, settings: SpaceOptions) -> Case {
    let operation = move |space: &Space<Sim>, _: &mut Areas| call(space);
    let scene = Scene::used(settings);
    let case = Case::new(name, move || scene.build(), operation, |space, _| free_all(space));
    case.meets([Point::Unmap, Point::Flush].map(Step::Machine))
}

#[test]
fn purges() {
    for (config, settings) in configs().into_iter().filter(|(_, settings)| settings.lazy_max_pages != 1) {
        table(config, CALLS.map(|(name, call)| case(name, call, settings)));
    }
}

/// More is lazy than is to be, as a drain finds it.
#[test]
fn a_drain_of_much() {
    let settings = SpaceOptions::default().unmap_on_free().lazy_max_pages(100);
    table("lazy", [case("drain of much", |space| space.drain().map(|_| ()), settings)]);
}

/// The areas of a set that was refused are tried again by themselves, at once and by the next
/// purge.
#[test]
fn a_purge_is_an_error_as_long_as_anything_is_refused() {
    for point in [Point::Unmap, Point::Flush] {
        let (space, _) = Scene::used(SpaceOptions::default().unmap_on_free()).build();
        space.platform().fail_nth(point, 1);
        assert_eq!(space.purge(), Ok(()));
        free_all(&space);
        space.platform().fail_from(point, 1);
        let call = if point == Point::Unmap { "unmap" } else { "flush" };
        assert_eq!(space.purge().map_err(|error| error.call), Err(call));
        space.platform().heal();
        assert_eq!(space.purge(), Ok(()));
    }
}
