//! What the steps do not show: the records are arrays, and now and then one of them grows.
//!
//! The allocation in which that happens copies the array: work that is linear in the number of leaves. It is
//! logarithmic only on average, as arrays grow by an eighth of what they are: leaves, nodes of the tree, nodes of
//! the directory, and its window, which for its part takes in no more than eight entries with any leaf.

use super::leaves;
use super::reference::Request;
use vmalloc::{AreaMap, PageRange};

#[test]
fn growth_is_rare_but_falls_on_one_allocation() {
    let span = PageRange::from_len(1 << 31, 1 << 30).expect("not empty");
    let mut map = AreaMap::new(span).expect("the heap has room");
    let fit = Request { pages: 300, order: 9 }.fit();
    let (mut growths, mut largest) = (0, 0);
    for _ in 0..50_000 {
        let before = map.metadata_bytes();
        map.alloc(&fit).expect("the span is large enough");
        let more = map.metadata_bytes() - before;
        growths += u32::from(more > 0);
        largest = largest.max(more);
    }
    let leaves = leaves(&map);
    println!("{leaves} leaves: {growths} allocations of 50,000 let an array grow, one by {largest} bytes");
    // Growing by an eighth takes six times to double, for each of four arrays.
    assert!(growths <= 24 * (leaves.ilog2() + 1), "{growths} growths for {leaves} leaves");
}
