//! What a space does with memory itself: buffers, and freeing where nothing may be waited for.

use super::scene::{Areas, PAGE, Scene, configs};
use super::table;
use vmalloc::{AllocError, PlatformError, Request, Space};
use vmalloc_sim::harness::{Case, Step, free_all};
use vmalloc_sim::{Direct, Point};

fn case<E: std::fmt::Debug + 'static>(
    name: &'static str,
    scene: Scene,
    operation: impl Fn(&Space<Direct>, &mut Areas) -> Result<(), E> + 'static,
) -> Case {
    Case::new(name, move || scene.build_direct(), operation, |space, _| free_all(space))
}

/// Makes one, uses it, and drops it.
fn zeroed(space: &Space<Direct>, _: &mut Areas) -> Result<(), AllocError> {
    let mut buffer = space.zeroed_buffer(20 * PAGE + 1)?;
    assert!(buffer.iter().all(|&byte| byte == 0));
    buffer.fill(7);
    Ok(())
}

/// Makes one, and keeps its memory.
fn raw(space: &Space<Direct>, areas: &mut Areas) -> Result<(), AllocError> {
    let memory = space.buffer(20 * PAGE + 1)?.into_raw().0;
    areas.push(memory.as_ptr().expose_provenance());
    Ok(())
}

#[test]
fn buffers() {
    let steps = [Step::Machine(Point::Frame), Step::Machine(Point::Map), Step::Heap];
    for (config, settings) in configs() {
        let (empty, used) = (Scene::empty(settings), Scene::used(settings));
        table(
            config,
            [
                case("zeroed_buffer", empty, zeroed).meets(steps),
                case("buffer", empty, raw).meets(steps),
                case("zeroed_buffer in a used space", used, zeroed),
                case("vmalloc", empty, |space, _| {
                    space.raw().alloc(&vmalloc::Request::new(5 * PAGE)).map(|_| ())
                })
                .meets(steps),
                case("vzalloc", empty, |space, _| {
                    space.raw().alloc(&vmalloc::Request::new(5 * PAGE).zeroed()).map(|_| ())
                })
                .meets(steps),
            ],
        );
    }
}

/// Frees what is freed without a step, and then purges what that left.
fn free_and_purge(space: &Space<Direct>, areas: &mut Areas) -> Result<(), PlatformError> {
    // SAFETY: the areas are the test's, and nothing uses them any more.
    areas.retain(|&addr| unsafe { space.raw().free_atomic(addr) }.is_err());
    space.purge()
}

#[test]
fn free_atomic() {
    for (config, settings) in configs() {
        let scene = Scene::empty(settings);
        let plain = move || {
            let (space, mut areas) = scene.build_direct();
            (0..80).for_each(|_| areas.push(space.raw().alloc(&Request::new(PAGE)).expect("there is room")));
            (space, areas)
        };
        table(
            config,
            [
                Case::new("free_atomic", plain, free_and_purge, |space, _| free_all(space)),
                case("free_atomic of all sizes", Scene::used(settings), free_and_purge),
            ]
            .map(|case| case.meets([Step::Machine(Point::Unmap), Step::Machine(Point::Flush), Step::Heap])),
        );
    }
}
