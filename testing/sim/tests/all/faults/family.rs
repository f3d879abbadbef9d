//! Mappings of frames, and the rest of the family, of a whole machine and of a part of one.

use super::scene::{Machine, PAGE, Scene, configs};
use super::table;
use crate::{set_block_slots, short};
use std::fmt::Debug;
use vmalloc::{
    AreaError, Frame, FrameRun, Kind, MapFrames, Protect, Protection, Request, Space, SpaceOptions,
};
use vmalloc_sim::harness::{Case, Simulated, Step};
use vmalloc_sim::{Point, Sim};
use vmalloc_subspaces::{Root, Subspace, SubspaceOptions};

pub(crate) const RW: Protection = Protection::ReadWrite;
pub(crate) const UNMAP: Step = Step::Machine(Point::Unmap);
pub(crate) const FLUSH: Step = Step::Machine(Point::Flush);
pub(crate) const MAP_FRAMES: Step = Step::Machine(Point::MapFrames);
const TAKE_FRAMES: Step = Step::Machine(Point::TakeFrames);
/// Pages of a large short mapping.
const LARGE: usize = 70;

/// The subjects of an operation, with room for what it makes.
pub(crate) struct Family {
    /// The test's own.
    pub(crate) frames: Vec<Frame>,
    /// Short mappings in blocks: where, and of how many pages.
    pub(crate) slots: Vec<(usize, usize)>,
    /// Other areas.
    pub(crate) areas: Vec<usize>,
}

pub(crate) trait Machined: Simulated + MapFrames + Protect {}
impl<P: Simulated + MapFrames + Protect> Machined for P {}

/// Returns a space with frames for its user.
pub(crate) fn begin<P: Machined>(space: Space<P>) -> (Space<P>, Family) {
    set_block_slots(&space, 64);
    let mut frames = vec![Frame(0); LARGE];
    space.platform().take_frames(&mut frames).expect("there are many");
    (space, Family { frames, slots: Vec::with_capacity(8), areas: Vec::with_capacity(8) })
}

/// Frees whatever there is, and gives the frames back.
pub(crate) fn release<P: Machined>(space: &Space<P>, family: Family) {
    for &(addr, count) in &family.slots {
        // SAFETY: nothing is used any more: here and below.
        unsafe { short(space).unmap(addr, count) }.expect("it is mapped");
    }
    for area in space.areas() {
        let freed = match area.kind {
            // SAFETY: as above.
            Kind::Vmalloc | Kind::Shared | Kind::Exec => unsafe { space.raw().free(area.addr) },
            // SAFETY: as above.
            Kind::Vmap | Kind::IoMap => unsafe { space.raw().unmap(area.addr) },
            // SAFETY: nothing uses the addresses any more.
            Kind::Reserved => unsafe { space.raw().unreserve(area.addr) },
            _ => Ok(()),
        };
        freed.expect("it is busy");
    }
    // Before frames are given back that something may lead to.
    space.purge().expect("nothing is made to fail");
    // SAFETY: nothing leads to them any more.
    unsafe { space.platform().give_frames(&family.frames) };
}

/// Where the rows begin: a machine, or a part of one.
trait Ground {
    type On: Machined;
    fn space(scene: Scene) -> Space<Self::On>;
}

struct Whole;

impl Ground for Whole {
    type On = Sim;
    fn space(scene: Scene) -> Space<Sim> {
        scene.build().0
    }
}

struct Part;

impl Ground for Part {
    type On = Subspace<Sim>;
    fn space(scene: Scene) -> Space<Subspace<Sim>> {
        let root = Root::new(scene.sim()).expect("a root");
        let config = SubspaceOptions::default().space(scene.config()).limit_bytes(1024 * PAGE);
        root.subspace("part", &Request::new(2048 * PAGE), config).expect("room")
    }
}

/// Returns a row that begins with nothing.
fn make<G: Ground, E: Debug + 'static>(
    name: &'static str,
    scene: Scene,
    operation: impl Fn(&Space<G::On>, &mut Family) -> Result<usize, E> + 'static,
) -> Case
where
    G::On: 'static,
{
    let setup = move || begin(G::space(scene));
    let operation = move |space: &Space<G::On>, family: &mut Family| {
        operation(space, family).map(|addr| family.areas.push(addr))
    };
    Case::new(name, setup, operation, release)
}

fn makers<G: Ground>(scene: Scene) -> Vec<Case>
where
    G::On: 'static,
{
    let two = || Request::new(2 * PAGE);
    let devices = [Frame(8192), Frame(8193)];
    let map = Step::Machine(Point::Map);
    vec![
        make::<G, _>("vmap", scene, |space, own| space.raw().map(&own.frames[..3], RW, None))
            .meets([MAP_FRAMES, Step::Heap]),
        make::<G, _>("vmap tagged", scene, |space, own| space.raw().map(&own.frames[..9], RW, Some("tag")))
            .meets([MAP_FRAMES]),
        make::<G, _>("vmap of runs", scene, |space, own| {
            let runs = [3, 1].map(|nth| FrameRun { first: own.frames[nth], count: 1 });
            space.raw().map_runs(&runs, RW, None)
        })
        .meets([MAP_FRAMES, Step::Heap]),
        make::<G, _>("vmap_pfn", scene, move |space, _| space.raw().map_device(&devices, RW, None))
            .meets([MAP_FRAMES]),
        make::<G, _>("vm_map_ram of 70", scene, |space, own| short(space).map(&own.frames))
            .meets([MAP_FRAMES]),
        make::<G, _>("vmalloc_exec", scene, move |space, _| space.raw().alloc_exec(&two()))
            .meets([map, Step::Heap]),
        in_block::<G>("vm_map_ram", scene, 5).meets([MAP_FRAMES, Step::Heap]),
        in_block::<G>("vm_map_ram of 64", scene, 64).meets([MAP_FRAMES]),
    ]
}

/// Returns a short mapping in a block.
fn in_block<G: Ground>(name: &'static str, scene: Scene, count: usize) -> Case
where
    G::On: 'static,
{
    let operation = move |space: &Space<G::On>, family: &mut Family| {
        short(space).map(&family.frames[..count]).map(|addr| family.slots.push((addr, count)))
    };
    Case::new(name, move || begin(G::space(scene)), operation, release)
}

/// Returns a row that begins with areas of every kind, of which some are freed; all CPUs remember
/// everything.
fn change<G: Ground, E: Debug + 'static>(
    name: &'static str,
    scene: Scene,
    operation: impl Fn(&Space<G::On>, &mut Family) -> Result<(), E> + 'static,
) -> Case
where
    G::On: 'static,
{
    Case::new(name, move || furnished(begin(G::space(scene))), operation, release)
}

const USER: usize = 0;
const SHOWN: usize = 1;
const EXEC: usize = 2;
const SPARSE: usize = 3;
const VMAP: usize = 4;
const PERCPU: usize = 5;

fn furnished<P: Machined>((space, mut own): (Space<P>, Family)) -> (Space<P>, Family) {
    let request = Request::new(4 * PAGE);
    let user = space.raw().alloc_shared(&request).expect("room");
    own.areas.extend([
        user,
        space.raw().map_shared(user, 2 * PAGE, RW, None).expect("room"),
        space.raw().alloc_exec(&request).expect("room"),
        space.raw().reserve(&request).expect("room"),
        space.raw().map(&own.frames[..4], RW, None).expect("room"),
        vmalloc_percpu::alloc(&space, &[0], &[4 * PAGE], PAGE).expect("room"),
    ]);
    // SAFETY: the pages are the test's.
    unsafe { space.raw().map_pages(own.areas[SPARSE], &own.frames[4..7], RW) }.expect("room");
    own.slots.extend([3, 2].map(|count| (short(&space).map(&own.frames[..count]).expect("room"), count)));
    let span = space.geometry().span;
    (0..3).for_each(|cpu| space.platform().machine().prefetch(cpu, span));
    (space, own)
}

fn changes<G: Ground>(scene: Scene) -> Vec<Case>
where
    G::On: 'static,
{
    let protect = Step::Machine(Point::Protect);
    vec![
        change::<G, _>("remap_vmalloc_range", scene, |space, own| {
            let shown = space.raw().map_shared(own.areas[USER] + PAGE, 3 * PAGE, RW, Some("again"))?;
            own.areas.push(shown);
            Ok::<(), AreaError>(())
        })
        .meets([MAP_FRAMES, Step::Heap]),
        change::<G, _>("map_pages of a group", scene, |space, own| {
            // SAFETY: the pages are the test's.
            unsafe { space.raw().map_pages(own.areas[PERCPU] + PAGE, &own.frames[..2], RW) }
        })
        .meets([MAP_FRAMES]),
        change::<G, _>("set_protection", scene, |space, own| {
            // SAFETY: nothing is used otherwise.
            unsafe {
                space.raw().protect(own.areas[EXEC], Protection::ReadExecute)?;
                space.raw().protect(own.areas[VMAP], Protection::Read)
            }
        })
        .meets([protect]),
    ]
}

/// Frees succeed whatever fails; what they leave goes with the next purge that succeeds.
fn ends<G: Ground>(scene: Scene) -> Vec<Case>
where
    G::On: 'static,
{
    let free_some = |space: &Space<G::On>, own: &mut Family| {
        if own.areas.len() == 6 {
            own.areas.truncate(4);
            let (vmap, percpu) = family_ends(space);
            // SAFETY: nothing uses it any more.
            unsafe { space.raw().unmap(vmap) }.expect("it is busy");
            // SAFETY: nothing uses the addresses any more.
            unsafe { vmalloc_percpu::free(space, percpu, &[0], &[4 * PAGE]) }.expect("it is busy");
            for which in [SHOWN, USER, EXEC, SPARSE] {
                free(space, own.areas[which]);
            }
        }
        while let Some((addr, count)) = own.slots.pop() {
            // SAFETY: nothing uses it any more.
            unsafe { short(space).unmap(addr, count) }.expect("it is mapped");
        }
    };
    vec![
        change::<G, _>("everything freed and purged", scene, move |space, own| {
            free_some(space, own);
            space.purge()
        })
        .meets([UNMAP, FLUSH]),
        change::<G, _>("everything freed and flushed", scene, move |space, own| {
            free_some(space, own);
            space.flush()
        })
        .meets([UNMAP, FLUSH]),
    ]
}

/// Returns where the mapping and the group are.
fn family_ends<P: Machined>(space: &Space<P>) -> (usize, usize) {
    let mut found = (0, 0);
    for area in space.areas() {
        match area.kind {
            Kind::Vmap if area.pages == 4 => found.0 = area.addr,
            Kind::Reserved => found.1 = area.addr,
            _ => {}
        }
    }
    found
}

fn free<P: Machined>(space: &Space<P>, addr: usize) {
    let kind = space.find(addr).map(|area| area.kind);
    // SAFETY: nothing uses it any more: here and below.
    let freed = match kind {
        // SAFETY: as above.
        Some(Kind::Vmap) => unsafe { space.raw().unmap(addr) },
        // SAFETY: as above.
        Some(Kind::Reserved) => unsafe { space.raw().unreserve(addr) },
        // SAFETY: as above.
        _ => unsafe { space.raw().free(addr) },
    };
    freed.expect("it is busy");
}

/// Returns every configuration on every machine on which blocks hold their invariants.
fn grounds() -> impl Iterator<Item = (&'static str, Scene)> {
    Machine::ALL.into_iter().flat_map(|machine| {
        configs().into_iter().map(move |(name, config)| (name, Scene::empty(config).on(machine)))
    })
}

#[test]
fn creating_mappings() {
    for (config, scene) in grounds() {
        table(config, makers::<Whole>(scene));
    }
}

#[test]
fn changing_mappings() {
    for (config, scene) in grounds() {
        table(config, changes::<Whole>(scene));
    }
}

#[test]
fn ending_mappings() {
    for (config, scene) in grounds() {
        table(config, ends::<Whole>(scene));
    }
}

#[test]
fn mappings_in_a_part_of_a_machine() {
    for (config, scene) in grounds() {
        table(
            config,
            makers::<Part>(scene).into_iter().chain(changes::<Part>(scene)).chain(ends::<Part>(scene)),
        );
    }
}

#[test]
fn unmap_pages() {
    for (config, scene) in grounds() {
        let unmap = change::<Whole, _>("unmap_pages", scene, |space, own| {
            // SAFETY: nothing uses the pages any more.
            unsafe { space.raw().unmap_pages(own.areas[SPARSE], 3) }
        });
        table(config, [unmap.meets([UNMAP, FLUSH])]);
    }
}

/// In a space that is full of what was freed.
#[test]
fn mappings_in_need() {
    for (config, settings) in configs() {
        let scene = Scene::full(settings.lazy_max_pages(1 << 20)).pages(256);
        table(
            config,
            [make::<Whole, _>("vmap in need", scene, |space, own| {
                space.raw().map(&own.frames[..3], RW, None)
            })
            .meets([UNMAP, FLUSH, MAP_FRAMES])],
        );
    }
}

/// Returns memory that has frames of its own, in an empty space and in one that is full of what was
/// freed.
fn user_rows(settings: SpaceOptions, scene: Scene) -> [Case; 2] {
    let user = |space: &Space<Sim>, _: &mut Family| space.raw().alloc_shared(&Request::new(3 * PAGE));
    let full = Scene::full(settings.lazy_max_pages(1 << 20)).pages(256);
    [
        make::<Whole, _>("vmalloc_user", scene, user).meets([TAKE_FRAMES, MAP_FRAMES, Step::Heap]),
        make::<Whole, _>("vmalloc_user in need", full, user).meets([UNMAP, FLUSH, TAKE_FRAMES]),
    ]
}

#[test]
fn user_memory() {
    for (config, settings) in configs() {
        for row in user_rows(settings, Scene::empty(settings)) {
            println!("{config:14} {}", row.walk());
        }
    }
}

#[test]
fn user_memory_when_two_steps_fail() {
    for (_, settings) in configs() {
        user_rows(settings, Scene::empty(settings)).iter().for_each(|row| _ = row.walk_pairs());
    }
}
