//! Switches that make mistakes and attacks harder.

use std::fs;
use vmalloc_harness::not_run;
use vmalloc_linux::{LinuxOptions, Request, SpaceOptions, open};

const PAGE: usize = 4096;

fn bytes(addr: usize, len: usize) -> Vec<u8> {
    // SAFETY: the test has memory of that length there.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(addr), len) }.to_vec()
}

/// Where frees trap, the platform keeps memory for the next areas: none that was not cleared.
#[test]
fn freed_memory_is_zeroed_where_frees_trap_as_well() {
    let options = LinuxOptions::new().max_bytes(1 << 30);
    let space = open(options, SpaceOptions::default().trap_on_free(true).zero_on_free(true)).unwrap();
    let write = |range: std::ops::Range<usize>| {
        // SAFETY: the test has memory of that length there.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(range.start).write_bytes(0x5e, range.len()) };
    };
    for pages in [1, 200, 256, 257, 500, 1023] {
        let addr = space.raw().alloc(&Request::new(pages * PAGE)).unwrap();
        write(addr..addr + pages * PAGE);
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().free(addr) }.unwrap();

        let reserved = space.raw().reserve(&Request::new(pages * PAGE)).unwrap();
        let all = reserved..reserved + pages * PAGE;
        // SAFETY: the area is the test's, and not committed.
        unsafe { space.raw().commit(std::slice::from_ref(&all)) }.unwrap();
        write(all);
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().unreserve(reserved) }.unwrap();

        for again in [1, 10, pages] {
            let addr = space.raw().alloc(&Request::new(again * PAGE)).unwrap();
            let is_clear = bytes(addr, again * PAGE).iter().all(|&byte| byte == 0);
            assert!(is_clear, "{again} pages after {pages}");
            // SAFETY: nothing uses it any more.
            unsafe { space.raw().free(addr) }.unwrap();
        }
    }
}

/// Small areas are cleared and cached, large ones unmapped, with and without a tag.
#[test]
fn freed_memory_is_zeroed_before_its_next_owner_has_it() {
    let space = open(LinuxOptions::new(), SpaceOptions::default().zero_on_free(true)).unwrap();
    for pages in [1, 5, 256, 257, 1024] {
        for request in [Request::new(pages * PAGE), Request::new(pages * PAGE).tag("secret")] {
            let addr = space.raw().alloc(&request).unwrap();
            // SAFETY: the area is this test's until it is freed, and has so many bytes.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<u8>(addr).write_bytes(0x5e, pages * PAGE);
                space.raw().free(addr).unwrap();
            }
            if pages <= 256 {
                assert_eq!(space.stats().cached_areas, 1, "{pages} pages");
                assert!(bytes(addr, pages * PAGE).iter().all(|&byte| byte == 0), "by a stale pointer");
            } else {
                // It is lazy, or was drained already.
                assert_eq!(space.stats().cached_areas, 0, "{pages} pages");
            }
            let again = space.raw().alloc(&request).unwrap();
            assert!(bytes(again, pages * PAGE).iter().all(|&byte| byte == 0));
            // SAFETY: as above; a second free is an error that changes nothing.
            unsafe {
                space.raw().free(again).unwrap();
                space.raw().free(again).unwrap_err();
            }
            space.purge().unwrap();
        }
    }
}

#[test]
fn a_span_has_a_name_and_stays_out_of_dumps() {
    let space = open(LinuxOptions::new().dump(false).name(c"vault"), SpaceOptions::default()).unwrap();
    let addr = space.raw().alloc(&Request::new(PAGE)).unwrap();
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let is_ours = |line: &str| {
        let ends = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).ok();
        ends.is_some_and(|(start, end)| number(start) <= Some(addr) && number(end) > Some(addr))
    };
    let mut lines = smaps.lines().skip_while(|line| !is_ours(line));
    let head = lines.next().expect("the area is in a mapping");
    let flags = lines.find(|line| line.starts_with("VmFlags:")).expect("every mapping has flags");
    assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
    if head.contains("[anon:") {
        assert!(head.ends_with("[anon:vault]"), "{head}");
    } else {
        not_run("the name of a span", "this kernel has none");
    }
}
