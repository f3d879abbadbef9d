//! What the steps do not show: now and then an allocation needs memory for records.
//!
//! Leaves lie in pieces that never move: one more takes the same time however many there are, once
//! in so many leaves. Nodes of the tree lie in an array, and the allocation for which it grows
//! copies it: work that is linear in the number of leaves. It is logarithmic only on average, as
//! the array grows by an eighth of what it is.

use super::leaves;
use super::reference::Request;
use vmalloc_map::{AreaMap, PageRange};

/// Leaves in a piece, as in `vmalloc-map/src/bitmaps.rs`.
const LEAVES_OF_A_PIECE: usize = 128;
/// Bytes of a piece: 128 for a leaf.
const PIECE: usize = LEAVES_OF_A_PIECE * 128;
/// Arrays that are copied when they grow: the nodes of the tree.
const ARRAYS: u32 = 1;
/// Growing by an eighth takes six times to double.
const GROWTHS_OF_A_DOUBLING: u32 = 6;

#[test]
fn growth_is_rare_but_falls_on_one_allocation() {
    let span = PageRange::from_len(1 << 31, 1 << 30).expect("not empty");
    let mut map = AreaMap::new(span).expect("the heap has room");
    let fit = Request { pages: 300, order: 9 }.fit();
    let (mut pieces, mut copies, mut largest) = (0, 0, 0);
    for _ in 0..50_000 {
        let before = map.metadata_bytes();
        map.alloc(&fit).expect("the span is large enough");
        match map.metadata_bytes() - before {
            0 => {}
            PIECE => pieces += 1,
            more => {
                copies += 1;
                largest = largest.max(more);
            }
        }
    }
    let leaves = leaves(&map);
    let nodes = map.metadata_bytes() - pieces * PIECE;
    println!(
        "{leaves} leaves: {pieces} pieces; {copies} allocations of 50,000 let an array grow, one by {largest} bytes, \
         all of them to {nodes} at most"
    );
    // Every group has a leaf here, so no piece is made for leaves that are not there.
    assert!(pieces <= leaves / LEAVES_OF_A_PIECE + 1, "{pieces} pieces for {leaves} leaves");
    let most = ARRAYS * GROWTHS_OF_A_DOUBLING * (leaves.ilog2() + 1);
    assert!(copies <= most, "{copies} copies for {leaves} leaves");
    // With a piece at the same time, perhaps.
    assert!(largest <= nodes / 8 + PIECE, "an array of at most {nodes} bytes grew by {largest}");
    // All that is ever copied is less than half of what stays where it is.
    assert!(nodes * 2 <= pieces * PIECE, "{nodes} bytes of nodes for {pieces} pieces of leaves");
}
