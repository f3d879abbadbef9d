//! Messages of a space: addresses and bytes, and what to do.

use crate::PAGE;
use vmalloc::{AllocError, AreaError, PageRange, PagedArea, Request, Space, SpaceOptions};
use vmalloc_sim::{Options, Sim};

const START: usize = 1 << 24;

fn space() -> Space<Sim> {
    let span = PageRange::from_len((START / PAGE) as u64, 1 << 14).expect("not empty");
    Space::new(Options::new(span).cpus(1).build(), SpaceOptions::default()).expect("an empty space")
}

#[test]
fn a_refused_allocation_tells_bytes_and_addresses() {
    let space = space();
    let refused = space.raw().alloc(&Request::new(1 << 30).align(1 << 16)).expect_err("there is no room");
    let wanted = "no 1073745920 bytes free, aligned to 65536, within 0x1000000..0x5000000; the largest free \
                  range anywhere has 67108864: free some, or widen the limits, or open a larger space (max_bytes on Linux)";
    assert_eq!(refused.to_string(), wanted);
    // SAFETY: no memory is behind the areas of this platform.
    let refused = unsafe {
        let addr = space.raw().alloc(&Request::new(PAGE)).expect("room");
        let next = addr + 2 * PAGE;
        let _in_the_way =
            space.raw().reserve(&Request::new(PAGE).within(next, next + 2 * PAGE)).expect("room");
        space.raw().grow_in_place(addr, 3 * PAGE).expect_err("an area is in the way")
    };
    assert_eq!(refused.to_string(), "0x1000000..0x1004000 is not all free: 0x1002000..0x1004000 is taken");
    assert!(matches!(refused, AreaError::Alloc(AllocError::Occupied { .. })));
}

#[test]
fn wrong_limits_are_told_as_they_were_given() {
    let space = space();
    let refused = |start, end| {
        let refused = space.raw().alloc(&Request::new(PAGE).within(START + start, START + end));
        refused.expect_err("limits that hold nothing").to_string()
    };
    assert_eq!(refused(PAGE + 1, 2 * PAGE - 1), "the limits 0x1001001..0x1001fff hold no page");
    assert_eq!(refused(3 * PAGE, PAGE), "the limits 0x1003000..0x1001000 hold no page");
    assert_eq!(refused(0, 1 << 28), "0x1000000..0x11000000 is not inside 0x1000000..0x5000000");
}

#[test]
fn a_refused_free_tells_the_address_that_was_given() {
    let space = space();
    let addr = space.raw().alloc(&Request::new(2 * PAGE)).expect("room");
    // SAFETY: no memory is behind the areas of this platform.
    let free = |addr| unsafe { space.raw().free(addr) }.expect_err("no area").to_string();
    assert_eq!(free(0x7ff8), "0x7ff8 is in no area");
    assert_eq!(free(addr + 8), "0x1000008 is not at the start of a page");
    assert_eq!(free(addr + PAGE), "0x1001000 is inside the area that starts at 0x1000000");
    // SAFETY: as above.
    let unreserved = unsafe { space.raw().unreserve(addr) }.expect_err("it is memory");
    assert_eq!(unreserved.to_string(), "the area at 0x1000000 is not of the kind this call is for");
    // SAFETY: as above.
    unsafe { space.raw().free(addr) }.expect("it is busy");
    assert_eq!(free(addr), "0x1000000 was freed already");
    assert_eq!(free(addr + PAGE), "0x1001000 was freed already");
}

#[test]
fn pages_of_an_area_are_told_by_their_addresses() {
    let space = space();
    let mut area = PagedArea::new(&space, &Request::new(8 * PAGE)).expect("room");
    area.commit(PAGE..2 * PAGE).expect("nothing is there");
    let text = |result: Result<(), AreaError>| result.expect_err("it is refused").to_string();
    assert_eq!(
        text(area.commit(0..4 * PAGE)),
        format!("something is mapped at {:#x} already", area.addr() + PAGE)
    );
    let absent = format!("nothing that this call is for is mapped at {:#x}", area.addr());
    assert_eq!(text(area.decommit(0..PAGE)), absent);
    let (start, end) = (area.addr(), area.addr() + 8 * PAGE);
    let beyond = format!("{start:#x}..{:#x} is not inside the area {start:#x}..{end:#x}", end + PAGE);
    assert_eq!(text(area.commit(0..9 * PAGE)), beyond);
}
