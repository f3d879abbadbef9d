//! Spans that no space is made on, and the end of areas of every kind.

use crate::PAGE;
use vmalloc::{FreeError, PageRange, Request, Space, SpaceError, SpaceOptions};
use vmalloc_short::ShortMaps;
use vmalloc_sim::{Options, Sim};

fn on(start: u64, end: u64) -> Result<Space<Sim>, SpaceError> {
    Space::new(
        Options::new(PageRange::new(start, end).expect("not empty")).cpus(1).build(),
        SpaceOptions::default(),
    )
}

/// An area at page 0 would be a null pointer.
#[test]
fn a_span_with_page_0_is_refused() {
    let span = PageRange::new(0, 16 * PAGE as u64).expect("not empty");
    assert_eq!(on(0, 16).err(), Some(SpaceError::NullPage { span }));
    let space = on(1, 16).expect("a span without page 0");
    assert_eq!(space.raw().alloc(&Request::new(1)), Ok(1 << Sim::PAGE_SHIFT));
}

#[test]
fn a_span_that_ends_behind_the_last_address_is_refused() {
    let (page_shift, end) = (Sim::PAGE_SHIFT, u64::MAX >> Sim::PAGE_SHIFT);
    let span = PageRange::new((end - 15) << page_shift, u64::MAX).expect("not empty");
    assert_eq!(on(end - 15, end + 1).err(), Some(SpaceError::BeyondAddresses { span }));
    let space = on(end - 16, end).expect("a span whose end is an address");
    let first = (end as usize - 16) << page_shift;
    assert_eq!(space.raw().alloc(&Request::new(15 << page_shift)), Ok(first));
    assert_eq!(space.find(usize::MAX), None);
    assert!(space.vmallocinfo().to_string().ends_with("vmalloc\n"));
}

#[test]
fn remove_ends_areas_of_every_kind() {
    let space = on(0x1000, 0x11000).expect("a good span");
    let plain = space.raw().alloc(&Request::new(10).tag("a tag")).unwrap();
    let reserved = space.raw().reserve(&Request::new(3 * PAGE)).unwrap();
    let slot = ShortMaps::of(&space).unwrap().reserve(1).unwrap();
    // SAFETY: nothing is behind this platform's addresses.
    let remove = |addr| unsafe { space.raw().remove(addr) };
    assert_eq!(remove(slot), Err(FreeError::WrongKind { addr: slot }));
    assert_eq!(remove(reserved + PAGE), Err(FreeError::Interior { addr: reserved + PAGE, start: reserved }));
    assert_eq!(remove(plain).map(|info| (info.bytes, info.tag)), Ok((PAGE, Some("a tag".into()))));
    assert_eq!(remove(reserved).map(|info| info.pages), Ok(3));
    assert!(remove(plain).is_err());
    // SAFETY: nothing uses the addresses any more.
    unsafe { ShortMaps::of(&space).unwrap().unreserve(slot, 1) }.unwrap();
    space.purge().unwrap();
    let stats = space.stats();
    assert_eq!((stats.largest_free_pages, stats.busy_areas), (stats.span_pages, 0));
}
