use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn range(start: u64, pages: u64) -> PageRange {
    PageRange::from_len(start, pages).unwrap()
}

fn lowest(naive: &BTreeMap<u64, u64>, above: Option<u64>, pages: u64) -> Option<u64> {
    let from = above.map_or(0, |page| page + 1);
    naive.range(from..).find(|&(_, &len)| len >= pages).map(|(&start, _)| start)
}

proptest! {
    /// Slots of ten pages, each with a range of 1 to 10 pages or none.
    #[test]
    fn tree_agrees_with_a_sorted_map(steps in prop::collection::vec((0..300u64, 1..=10u64, 0..4u8), 1..600)) {
        let (mut tree, mut naive) = (Tree::<Largest, u64>::new(), BTreeMap::new());
        for (turn, (slot, pages, what)) in steps.into_iter().enumerate() {
            let start = slot * 10;
            match (tree.at(start), what) {
                (Some(node), 0) => tree.reshape(node, range(start, pages)),
                (Some(node), _) => {
                    prop_assert_eq!(tree.tag(node), start);
                    tree.remove(node);
                }
                (None, 0) => {
                    let below = tree.floor(start);
                    tree.insert_between(below, tree.next(below), range(start, pages), start);
                }
                (None, _) => {
                    let spot = tree.spot(start);
                    let (below, above) = tree.around(spot);
                    prop_assert_eq!(below, tree.floor(start));
                    prop_assert_eq!(above, tree.next(below));
                    tree.insert(spot, range(start, pages), start);
                }
            }
            if tree.at(start).is_some() { naive.insert(start, pages) } else { naive.remove(&start) };
            let start_of = |node| (node != NIL).then(|| tree.range(node).start());
            prop_assert_eq!(start_of(tree.lowest_of(pages)), lowest(&naive, None, pages));
            prop_assert_eq!(start_of(tree.lowest_above(start, pages)), lowest(&naive, Some(start), pages));
            prop_assert_eq!(tree.node(tree.root).sum, naive.values().copied().max().unwrap_or(0));
            if turn % 16 == 0 {
                prop_assert_eq!(tree.verify(), Ok(()));
            }
        }
        prop_assert_eq!(tree.verify(), Ok(()));
        prop_assert!(tree.ranges().eq(naive.iter().map(|(&start, &pages)| range(start, pages))));
        prop_assert_eq!(tree.len, naive.len());
        prop_assert_eq!(start_of_last(&tree), naive.keys().next_back().copied());
    }
}

fn start_of_last(tree: &Tree<Largest, u64>) -> Option<u64> {
    (tree.prev(NIL) != NIL).then(|| tree.range(tree.prev(NIL)).start())
}

#[test]
fn verify_names_a_wrong_sum_a_wrong_colour_and_a_wrong_order() {
    let filled = || {
        let mut tree = Tree::<Largest>::new();
        for slot in 0..32 {
            let spot = tree.spot(slot * 4);
            tree.insert(spot, range(slot * 4, 2), ());
        }
        assert_eq!(tree.verify(), Ok(()));
        tree
    };
    let broken = |damage: fn(&mut Tree<Largest>)| {
        let mut tree = filled();
        damage(&mut tree);
        tree.verify().unwrap_err()[..2].to_owned()
    };
    assert_eq!(broken(|tree| tree.nodes[7].sum = 9), "I3");
    assert_eq!(broken(|tree| tree.nodes[tree.root as usize].red = true), "I2");
    assert_eq!(broken(|tree| tree.nodes[7].range = range(1000, 2)), "I1");
    assert_eq!(broken(|tree| tree.len += 1), "I4");
    assert_eq!(broken(|tree| tree.nodes[7].red ^= true), "I2");
}

#[test]
fn a_node_of_an_unaugmented_tree_has_no_sum() {
    assert!(size_of::<Node<(), ()>>() == 40 && size_of::<Node<u64, ()>>() == 48);
}
