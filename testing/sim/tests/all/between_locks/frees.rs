//! Frees between two locks of a purge, and purges between two of a free.

use super::{CPU, OneThread, Test, make, pages, with_other};
use vmalloc::{Frames, Mapping, PageRange, Request, Space, SpaceOptions};
use vmalloc_sim::{Direct, TlbVisibility};

/// Frames that an area shows go back to the supply once no CPU reaches them there, whether a purge
/// comes between two locks of the free or the free between two of the purge.
#[test]
fn frames_go_back_once_no_cpu_reaches_them() {
    for is_free_first in [true, false] {
        let mut ends = 0;
        for nth in 0.. {
            let space = make(1 << 12, SpaceOptions::default().unmap_on_free());
            CPU.set(0);
            let frames: Frames<Test> = Frames::new(space, 2).unwrap();
            let mapping = Mapping::new(&frames).unwrap();
            drop(frames);
            let shown = pages(mapping.addr(), 2);
            (0..2).for_each(|cpu| space.platform().prefetch(cpu, shown));
            let free = move || drop(mapping);
            let purge = move || space.purge().unwrap();
            let (done, has_acted) = match is_free_first {
                true => with_other(nth, purge, free),
                false => with_other(nth, free, purge),
            };
            if !has_acted {
                break;
            }
            if done.is_none() {
                continue;
            }
            ends += 1;
            let is_reached =
                |page| (0..2).any(|cpu| space.platform().look(cpu, page) != TlbVisibility::Nothing);
            let are_reached = (shown.start()..shown.end()).any(is_reached);
            let are_taken = !space.platform().taken_frames().is_empty();
            assert!(are_taken || !are_reached, "lock {nth}: frames are free, and a CPU reaches them");
            space.purge().unwrap();
            assert!(space.platform().taken_frames().is_empty(), "lock {nth}: frames are lost");
            space.verify().unwrap();
        }
        assert!(ends > 1, "{ends}");
    }
}

/// An area that `free_atomic` frees while a purge takes those it freed before waits for the next
/// purge, and the next allocation asks for that.
#[test]
fn what_is_freed_during_a_purge_is_asked_for() {
    let (mut waited, mut ends) = (0, 0);
    for nth in 0.. {
        CPU.set(0);
        let machine = Direct::<OneThread>::new_with(1 << 9, |options| {
            options.cpus(2).current_cpu(|| CPU.get()).promises_drains()
        });
        let options = SpaceOptions::default().unmap_on_free().lazy_max_pages(1 << 20);
        let space: &'static _ = Box::leak(Box::new(Space::new(machine, options).unwrap()));
        let request = Request::new(2 << 12);
        let areas = [(); 2].map(|()| space.raw().alloc(&request).unwrap());
        // SAFETY: the areas are the test's, and each is freed once.
        let free = move |addr| unsafe { space.raw().free_atomic(addr) }.unwrap();
        free(areas[0]);
        let other = move || {
            CPU.set(1);
            free(areas[1]);
        };
        let (done, has_acted) = with_other(nth, other, || space.purge().unwrap());
        if !has_acted {
            break;
        }
        if done.is_none() {
            continue;
        }
        ends += 1;
        if is_lazy(space) {
            waited += 1;
            let drains = space.platform().sim().counts().drains;
            space.raw().alloc(&Request::new(100 << 12)).unwrap();
            let asked = space.platform().sim().counts().drains - drains;
            assert_eq!(asked, 1, "lock {nth}: drains at once that were asked for");
        }
        space.purge().unwrap();
        assert!(!is_lazy(space), "lock {nth}");
    }
    assert!(waited > 0 && ends > waited, "{waited} of {ends}");
}

fn is_lazy(space: &Space<Direct<OneThread>>) -> bool {
    space.stats().lazy_pages != 0
}

/// A thread whose change lacks memory for the map gets it, though another's change lacks some
/// before it has it.
#[test]
fn each_thread_gets_the_memory_that_its_change_lacks() {
    let mut ends = 0;
    for nth in 0.. {
        let space = make(1 << 20, SpaceOptions::default());
        // Each in a leaf that has no record yet.
        let reserve = move |page: u64| {
            let area = PageRange::from_len((1 << 20) + page, 3).unwrap();
            space.raw().reserve_all([area].into_iter(), "far").unwrap();
        };
        let (done, has_acted) = with_other(nth, move || reserve(500_000), || reserve(900_000));
        if !has_acted {
            break;
        }
        if done.is_some() {
            ends += 1;
            space.verify().unwrap();
        }
    }
    assert!(ends > 2, "{ends}");
}
