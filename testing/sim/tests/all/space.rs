//! Spans that no space is made on.

use crate::PAGE;
use vmalloc::{PageRange, Request, Space, SpaceError, SpaceOptions};
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
