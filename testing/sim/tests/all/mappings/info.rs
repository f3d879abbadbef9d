//! The text of all areas.

use crate::mappings::support::{
    PAGE, PAGES, devices, finish, free, give, plain, space, take, unmap_ram, unreserve, vunmap,
};
use crate::short;
use vmalloc::{Kind, Protection, Request, SpaceOptions};

const RW: Protection = Protection::ReadWrite;

/// Returns the line of an area.
fn line(addr: usize, pages: usize, guards: usize, tag: &str, kind: &str) -> String {
    let bytes = (pages + guards) * PAGE;
    format!("{addr:#018x}-{:#018x} {bytes:7} {tag} pages={pages} {kind}\n", addr + bytes)
}

#[test]
fn every_kind_has_its_line_in_address_order() {
    let space = space(plain(PAGES, 2), SpaceOptions::default());
    let frames = take(&space, 70);
    let request = |tag| Request::new(3 * PAGE - 5).tag(tag);
    let addrs = [
        space.raw().alloc(&request("memory")),
        space.raw().reserve(&request("addresses")),
        space.raw().alloc_exec(&request("code")),
        space.raw().alloc_shared(&request("shared")),
        space.raw().reserve(&request("holes")),
        space.raw().map(&frames[..3], RW, Some("frames")),
        space.raw().map_device(&devices(3), RW, Some("registers")),
        space.raw().map(&frames[..3], RW, None),
    ]
    .map(|addr| addr.expect("room"));
    let tags = ["memory", "addresses", "code", "shared", "holes", "frames", "registers", "-"];
    let kinds =
        ["vmalloc", "reserved", "vmalloc exec", "vmalloc user", "reserved", "vmap", "ioremap", "vmap"];
    let shown = space.raw().map_shared(addrs[3], 2 * PAGE, RW, Some("shown")).expect("room");
    let [slot, large] = [1, 70].map(|count| short(&space).map(&frames[..count]).expect("room"));
    let base = vmalloc_percpu::alloc(&space, &[0, 4 * PAGE], &[PAGE, 2 * PAGE], PAGE).expect("room");
    let block = space.find(slot).expect("a block");
    assert_eq!(block.kind, Kind::Tenant);
    let mut lines: Vec<(usize, String)> = addrs
        .into_iter()
        .zip(tags.into_iter().zip(kinds))
        .map(|(addr, (tag, kind))| (addr, line(addr, 3, 1, tag, kind)))
        .chain([
            (shown, line(shown, 2, 1, "shown", "vmap")),
            (large, line(large, 70, 1, "vm_map_ram", "vmap")),
            (block.addr, line(block.addr, block.pages as usize, 0, "vm_map_ram", "tenant")),
            (base, line(base, 1, 0, "percpu", "reserved")),
            (base + 4 * PAGE, line(base + 4 * PAGE, 2, 0, "percpu", "reserved")),
        ])
        .collect();
    lines.sort();
    let expected: String = lines.into_iter().map(|(_, line)| line).collect();
    assert_eq!(space.vmallocinfo().to_string(), expected);

    unmap_ram(&space, slot, 1);
    unmap_ram(&space, large, 70);
    [addrs[5], addrs[6], addrs[7], shown].into_iter().for_each(|addr| vunmap(&space, addr));
    [addrs[0], addrs[2], addrs[3]].into_iter().for_each(|addr| free(&space, addr));
    // SAFETY: nothing uses the addresses any more.
    unsafe { space.raw().unreserve(addrs[1]) }.expect("reserved");
    unreserve(&space, addrs[4]);
    // SAFETY: nothing uses the addresses any more.
    unsafe { vmalloc_percpu::free(&space, base, &[0, 4 * PAGE], &[PAGE, 2 * PAGE]) }.expect("made");
    let waiting = space.vmallocinfo().to_string();
    let count = waiting.lines().filter(|line| line.ends_with(" unpurged vm_area")).count();
    let lazy: u64 = space.node_stats().map(|node| node.lazy_areas).sum();
    assert!(count as u64 == lazy && lazy > 5, "{waiting}");
    space.purge().expect("nothing fails");
    assert_eq!(space.vmallocinfo().to_string(), "");
    give(&space, &frames);
    finish(&space);
}
