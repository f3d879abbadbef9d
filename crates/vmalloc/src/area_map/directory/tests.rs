//! The directory by itself, on leaves that hold nothing but their base, against an ordered map.

use super::super::bitmaps::Spare;
use super::*;
use crate::shared::{Lent, Shared};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use std::vec;

/// A directory, its leaves, and what it should know: group → leaf.
struct Bench<'m> {
    directory: Directory<'m>,
    bitmaps: Shared<'m, Bitmaps<'m>>,
    spare: Spare,
    known: BTreeMap<u64, u32>,
    span: PageRange,
}

impl<'m> Bench<'m> {
    fn new(start: u64, end: u64) -> Self {
        Self::of(
            Pool::on_heap().unwrap(),
            Bitmaps::on_heap(PageRange::of(start, end), Lent::default()).unwrap(),
        )
    }

    /// One with room for so many nodes.
    fn lent(mut memory: &'m mut [u8], span: PageRange, fans: usize) -> Self {
        let fans = Pool::in_buffer(&mut memory, fans).unwrap();
        Self::of(fans, Bitmaps::in_buffer(span, &mut memory, 400).unwrap())
    }

    fn of(fans: Pool<'m, Fan>, bitmaps: Shared<'m, Bitmaps<'m>>) -> Self {
        let span = bitmaps.span();
        let directory = Directory::new(span, fans).unwrap();
        Self { directory, bitmaps, spare: Spare::default(), known: BTreeMap::new(), span }
    }

    /// Enters the leaf of `page`, or takes it out.
    fn toggle(&mut self, page: u64) {
        let group = self.bitmaps.group(page);
        if let Some(leaf) = self.known.remove(&group) {
            self.directory.remove(page, &self.bitmaps);
            self.bitmaps.leaf(leaf).join_free(0);
            self.bitmaps.put(leaf, &mut self.spare);
        } else {
            self.directory.ensure(1).unwrap();
            let leaf = self.bitmaps.number(group, self.known.len(), &mut self.spare).unwrap();
            self.bitmaps.leaf(leaf).begin(0, 0, page >> LEAF_SHIFT << LEAF_SHIFT);
            self.bitmaps.leaf(leaf).start_free(0);
            self.directory.insert(leaf, &self.bitmaps);
            self.known.insert(group, leaf);
        }
    }

    fn leaf_of(&self, page: u64) -> u32 {
        let beyond = self.directory.leaf_of(page, &self.bitmaps);
        let near = self.bitmaps.dense_leaf(page).unwrap_or(beyond);
        assert_eq!(near, beyond, "the group and the tree disagree on page {page:#x}");
        near
    }

    /// Asks for `page` and for what lies before it.
    fn compare(&self, page: u64) {
        let group = self.bitmaps.group(page);
        assert_eq!(self.leaf_of(page), self.known.get(&group).copied().unwrap_or(0), "at {page:#x}");
        if self.span.contains(page) {
            let before = self.known.range(..group).next_back().map(|(_, &leaf)| leaf);
            assert_eq!(self.directory.leaf_before(page, &self.bitmaps), before, "before {page:#x}");
            assert_eq!(
                self.directory.leaf_before_group(group, &self.bitmaps),
                before,
                "by the tree, before {page:#x}"
            );
        }
    }

    fn compare_around(&self, page: u64) {
        let distances: &[u64] = if cfg!(miri) { &[0, 257] } else { &[0, 1, 255, 256, 257, 1 << 12, 1 << 40] };
        for &distance in distances {
            self.compare(page.saturating_sub(distance));
            self.compare(page.saturating_add(distance));
        }
    }

    /// DIR-1 and DIR-2.
    fn check(&self) {
        let (mut nodes, mut found) = (0, Vec::new());
        self.check_node(self.directory.root, &mut nodes, &mut found);
        assert!(found.iter().eq(self.known.values()), "DIR-2: the leaves, in order");
        assert_eq!(nodes, self.directory.fans.in_use(), "a node is lost");
        assert!(nodes <= found.len().max(1), "DIR-1: {nodes} nodes for {} leaves", found.len());
    }

    fn check_node(&self, node: u32, nodes: &mut usize, found: &mut Vec<u32>) {
        *nodes += 1;
        let fan = &self.directory.fans[node];
        assert!(node == self.directory.root || fan.present.count_ones() >= 2, "DIR-1");
        for slot in 0..FAN {
            let (group, child) = match fan.get(slot) {
                Child::None => continue,
                Child::Leaf(leaf) => (self.bitmaps.group(self.bitmaps.leaf(leaf).base()), Child::Leaf(leaf)),
                Child::Node(node) => (self.directory.fans[node].first, Child::Node(node)),
            };
            assert!(fan.covers(group) && fan.slot(group) == slot, "DIR-2");
            match child {
                Child::Node(child) => {
                    assert!(self.directory.fans[child].shift < fan.shift, "DIR-2");
                    self.check_node(child, nodes, found);
                }
                Child::Leaf(leaf) => found.push(leaf),
                Child::None => {}
            }
        }
    }
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn every_span_is_known_page_by_page() {
    let spans = [
        (3, 4),
        (5, 300),
        (255, 256 * 17 + 1),
        (77, 1 << 45),
        (1 << 31, (1 << 31) + (1 << 34)),
        (0, u64::MAX),
        (1, u64::MAX),
        (u64::MAX - 70_000, u64::MAX),
        (u64::MAX - 1, u64::MAX),
    ];
    let step = if cfg!(miri) { 3 } else { 1 };
    for (start, end) in spans.into_iter().step_by(step) {
        let mut bench = Bench::new(start, end);
        let mut state = 11;
        for _ in 0..if cfg!(miri) { 3 } else { 3_000 } {
            // Some near each other, some anywhere: every distance is as likely as any.
            let distance = random(&mut state) >> (random(&mut state) % 64);
            let page = match random(&mut state) % 2 {
                0 => start + distance % (end - start),
                _ => end - 1 - distance % (end - start),
            };
            bench.toggle(page);
            bench.compare_around(page);
            bench.compare_around(distance);
        }
        bench.check();
        bench.compare_around(start);
        bench.compare_around(end);
        for group in bench.known.clone().into_keys() {
            bench.toggle((bench.span.start() >> LEAF_SHIFT << LEAF_SHIFT) + (group << LEAF_SHIFT));
        }
        bench.check();
        assert_eq!(bench.directory.fans.in_use(), 1, "only the root stays");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri takes minutes for it, and the other tests do the same steps")]
fn the_leaf_before_is_found_across_all_levels() {
    let mut bench = Bench::new(0, u64::MAX);
    // One leaf in each level's step of the way to the last page; the root has four steps.
    let pages: Vec<u64> = (0..19).map(|level| u64::MAX - 1 - (0x3 << (LEAF_SHIFT + 3 * level))).collect();
    pages.iter().for_each(|&page| bench.toggle(page));
    bench.toggle(u64::MAX - 1);
    for &page in pages.iter().chain(&[0, u64::MAX - 1]) {
        bench.compare_around(page);
    }
    bench.check();
    assert_eq!(bench.directory.fans.in_use(), 19, "a way down with as many nodes as there can be");
}

#[test]
fn dense_leaves_are_found_by_their_group() {
    let mut bench = Bench::new(1 << 20, 1 << 44);
    let groups = if cfg!(miri) { 40 } else { 10_000 };
    for group in 0..groups {
        bench.toggle((1 << 20) + (group << LEAF_SHIFT));
        assert!(bench.bitmaps.dense_leaf((1 << 20) + (group << LEAF_SHIFT)).is_some());
    }
    bench.check();
    let bytes = bench.bitmaps.bytes();
    // Those that lie far apart are not, and take no more than their records.
    let others = if cfg!(miri) { 20 } else { 1_000 };
    for far in 1..others {
        bench.toggle((1 << 40) + (far << 20));
        assert!(bench.bitmaps.dense_leaf((1 << 40) + (far << 20)).is_none());
    }
    assert!(bench.bitmaps.bytes() - bytes <= (others as usize + 128) * 128);
    bench.check();
    bench.compare_around(1 << 40);
}

#[test]
fn leaves_entered_from_above_are_found() {
    let mut bench = Bench::new(0, 1 << 34);
    // At first each is too far for those before it; once there are many, they are near.
    let (groups, step) = if cfg!(miri) { (180, 29) } else { (4_000, 1) };
    for group in (0..groups).rev() {
        bench.toggle(group << LEAF_SHIFT);
    }
    bench.check();
    (0..=groups).step_by(step).for_each(|group| bench.compare_around(group << LEAF_SHIFT));
    assert!(bench.bitmaps.dense_leaf(0).is_some());
    assert!(bench.bitmaps.dense_leaf((groups - 1) << LEAF_SHIFT).is_none());
}

#[test]
fn failed_growth_changes_nothing() {
    let mut memory = vec![0; 1 << 17];
    let mut bench = Bench::lent(&mut memory, PageRange::of(0, 1 << 41), 5);
    // Every second leaf needs a node: three are left beside the zeroed one and the root.
    let pages: Vec<u64> = (1..8).flat_map(|n| [n << 38, (n << 38) + 4096]).collect();
    let entered = pages.iter().take_while(|&&page| {
        let fits = bench.directory.ensure(1).is_ok();
        if fits {
            bench.toggle(page);
        }
        fits
    });
    assert_eq!(entered.count(), 6);
    bench.check();
    pages.iter().for_each(|&page| bench.compare_around(page));
    // An entry that was taken out can be entered again.
    bench.toggle(pages[1]);
    bench.toggle(pages[1]);
    bench.check();
}
