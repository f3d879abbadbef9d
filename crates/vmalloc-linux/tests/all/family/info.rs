//! What a space tells of its areas; and memory of any size.

use super::*;
use std::alloc::Layout;
use vmalloc::{Kind, Protection, Request};

#[test]
fn every_kind_is_listed_with_its_tag() {
    in_both_modes(Config::default(), |space| {
        let frames = take_scattered(space, 70);
        let tagged = |pages: usize, tag| Request::new(pages * PAGE).tag(tag);
        let plain = space.raw().alloc(&tagged(2, "ring")).unwrap();
        let reserved = space.raw().reserve(&tagged(1, "window")).unwrap();
        let user = space.raw().alloc_shared(&tagged(3, "frame buffer")).unwrap();
        let exec = space.raw().alloc_exec(&tagged(1, "jit")).unwrap();
        let sparse = space.raw().alloc_sparse(&tagged(9, "arena")).unwrap();
        let vmap = space.raw().map(&frames[..4], Protection::Read, Some("pages")).unwrap();
        let shown = space.raw().map_shared(user, PAGE, Protection::Read, Some("shown")).unwrap();
        let ram = space.raw().map_short(&frames).unwrap();
        let slots = space.raw().map_short(&frames[..2]).unwrap();
        let percpu = space.raw().alloc_congruent(&[0], &[PAGE], PAGE).unwrap();

        let text = space.vmallocinfo().to_string();
        let line = |addr: usize, rest: &str| {
            let start = format!("{addr:#018x}-");
            let found = text.lines().find(|line| line.starts_with(&start));
            assert!(found.is_some_and(|line| line.ends_with(rest)), "{addr:#x} {rest} in\n{text}");
        };
        line(plain, "12288 ring pages=2 vmalloc");
        line(reserved, "8192 window pages=1 reserved");
        line(user, "16384 frame buffer pages=3 vmalloc user");
        line(exec, "8192 jit pages=1 vmalloc exec");
        line(sparse, "40960 arena pages=9 sparse");
        line(vmap, "20480 pages pages=4 vmap");
        line(shown, "8192 shown pages=1 vmap");
        line(ram, "286720 - pages=70 vm_map_ram");
        line(percpu, "4096 - pages=1 percpu");
        assert_eq!((text.lines().count(), text.matches("vm_map_ram block").count()), (10, 1));
        assert_eq!(space.find(slots + PAGE).map(|area| area.kind), Some(Kind::Block));
        assert_eq!(
            space.find(vmap + 4 * PAGE).map(|area| (area.addr, area.tag)),
            Some((vmap, Some("pages".into())))
        );

        [plain, user, exec].iter().for_each(|addr| free(space, *addr));
        [vmap, shown].iter().for_each(|addr| vunmap(space, *addr));
        unmap_ram(space, ram, 70);
        unmap_ram(space, slots, 2);
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().unreserve(reserved) }.unwrap();
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().free_congruent(percpu, &[0], &[PAGE]) }.unwrap();
        // SAFETY: nothing uses it.
        unsafe { space.raw().free_sparse(sparse) }.unwrap();
        assert_eq!(space.areas().filter(|area| area.kind != Kind::Block).count(), 0);
        space.purge().unwrap();
        give(space, &frames);
    });
}

#[test]
fn small_memory_is_of_the_heap_and_large_of_the_space() {
    in_both_modes(Config::default(), |space| {
        for (size, align) in [(1, 1), (100, 64), (PAGE, 8), (PAGE + 1, 16), (1 << 20, 1 << 16), (8, 1 << 13)]
        {
            let layout = Layout::from_size_align(size, align).unwrap();
            let addr = space.raw().alloc_or_heap(layout).unwrap();
            assert_eq!(space.contains(addr), size > PAGE, "{layout:?}");
            assert!(addr.is_multiple_of(align), "{layout:?}");
            set(addr, 1);
            set(addr + size - 1, 2);
            // SAFETY: it is of this space and this layout, and not used any more.
            unsafe { space.raw().free_or_heap(addr, layout) }.unwrap();
        }
        assert!(space.raw().alloc_or_heap(Layout::new::<()>()).is_err());
    });
}

#[test]
fn huge_memory_is_as_any_other_and_guarded() {
    in_both_modes(Config::default(), |space| {
        for bytes in [PAGE, 2 << 20, (9 << 20) + 1] {
            let addr = space.raw().alloc(&vmalloc::Request::new(bytes).huge()).unwrap();
            let pages = bytes.div_ceil(PAGE);
            (0..pages).for_each(|page| set(addr + page * PAGE, 3));
            assert!((0..pages).all(|page| get(addr + page * PAGE) == 3));
            assert!(traps(space, addr + pages * PAGE));
            free(space, addr);
            space.purge().unwrap();
            assert!(traps(space, addr) && traps(space, addr + (pages - 1) * PAGE));
        }
    });
}
