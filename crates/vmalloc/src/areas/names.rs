//! Names: the tags of a table's areas, each tag once.
//!
//! A name is the place of its tag in a list, from 1 on. It counts its users, the areas with that
//! tag. A name without users stays, for areas with its tag often come again, until a new tag finds
//! no place: then all such names are given up at once, and the list grows to twice its length if
//! they were not more than half. So a name costs O(1) amortized, and the list is at most four times
//! as long as the tags that were ever in use together are many.

use super::Tag;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::mem::offset_of;
use hashbrown::{DefaultHashBuilder, HashTable};

/// A tag, and how many areas have it.
struct Name {
    tag: Tag,
    users: u32,
}

/// The tags of a table, by name.
#[derive(Default)]
pub(crate) struct Names {
    list: Vec<Name>,
    /// Names by the hash of their tags.
    by_tag: HashTable<u32>,
    /// Names without a tag: there is room for all of the list.
    unused: Vec<u32>,
    hasher: DefaultHashBuilder,
}

/// The least places of a list that has any.
const LEAST: usize = 4;

impl Names {
    /// The place of the list.
    pub(super) const LIST: usize = offset_of!(Self, list);
    /// Places for an outline: the bytes of an element of the list; in it, of the length and the
    /// bytes of the tag.
    pub(crate) const FIELDS: [usize; 3] = {
        let ([len, bytes], tag) = (Tag::FIELDS, offset_of!(Name, tag));
        [size_of::<Name>(), tag + len, tag + bytes]
    };

    /// Returns the tag with this name; 0 is the name of none.
    #[inline]
    pub(super) fn tag(&self, name: u32) -> Option<Tag> {
        Some(self.list.get(name.checked_sub(1)? as usize)?.tag)
    }

    /// Returns the name of a tag, with one more user; `None` when memory is short.
    #[inline]
    pub(super) fn enter(&mut self, tag: Option<&Tag>) -> Option<u32> {
        let Some(tag) = tag else { return Some(0) };
        let (hash, list) = (self.hasher.hash_one(tag), &mut self.list);
        let found = self.by_tag.find(hash, |&name| list[name as usize - 1].tag == *tag).copied();
        let name = found.or_else(|| self.add(tag, hash))?;
        self.list[name as usize - 1].users += 1;
        Some(name)
    }

    /// Returns the name of a tag that has none yet.
    #[inline(never)]
    fn add(&mut self, tag: &Tag, hash: u64) -> Option<u32> {
        if self.unused.is_empty() {
            self.make_room();
        }
        let Self { list, by_tag, unused, hasher } = self;
        let hash_of = |list: &[Name], name: &u32| hasher.hash_one(list[*name as usize - 1].tag);
        by_tag.try_reserve(1, |name| hash_of(list, name)).ok()?;
        let name = unused.pop()?;
        list[name as usize - 1].tag = *tag;
        by_tag.insert_unique(hash, name, |name| hash_of(list, name));
        Some(name)
    }

    /// Gives up the names without users, and makes the list longer where they are few.
    fn make_room(&mut self) {
        let Self { list, by_tag, unused, .. } = self;
        by_tag.retain(|name| {
            let is_used = list[*name as usize - 1].users != 0;
            if !is_used {
                unused.push(*name);
            }
            is_used
        });
        let (len, more) = (list.len(), list.len().max(LEAST));
        let has_room = 2 * unused.len() > len
            || list.try_reserve_exact(more).is_err()
            || unused.try_reserve_exact(len + more - unused.len()).is_err();
        if !has_room {
            list.resize_with(len + more, || Name { tag: Tag::new(""), users: 0 });
            unused.extend((len + 1..=len + more).rev().map(|name| name as u32));
        }
    }

    /// Takes a user from a name.
    #[inline]
    pub(super) fn leave(&mut self, name: u32) {
        if let Some(place) = name.checked_sub(1) {
            self.list[place as usize].users -= 1;
        }
    }

    /// Returns the bytes that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        let (list, unused) = (self.list.capacity(), self.unused.capacity());
        list * size_of::<Name>() + unused * size_of::<u32>() + self.by_tag.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use std::collections::HashMap;

    /// Random users come and go, of few tags and of many. Each name leads to its tag, users of a
    /// tag share a name, and the list follows what was in use at most.
    #[test]
    fn names_lead_to_their_tags_and_follow_what_is_in_use() {
        let (mut names, mut users, mut state, mut most) = (Names::default(), Vec::new(), 1u64, 0);
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        for round in 0..20_000 {
            if users.len() < 300 && below(2 + u64::from(users.len() > 150)) == 0 {
                // Most tags come once.
                let number = if below(2) == 0 { below(7) } else { round };
                let tag = Tag::new(&format!("tag {number}"));
                users.push((names.enter(Some(&tag)).expect("memory"), tag));
            } else if !users.is_empty() {
                let (name, _) = users.swap_remove(below(users.len() as u64) as usize);
                names.leave(name);
            }
            let by_tag: HashMap<Tag, u32> = users.iter().map(|&(name, tag)| (tag, name)).collect();
            assert!(users.iter().all(|(name, tag)| names.tag(*name) == Some(*tag) && by_tag[tag] == *name));
            most = most.max(by_tag.len());
        }
        assert!((most..=4 * most.max(LEAST)).contains(&names.list.len()), "{} for {most}", names.list.len());
        assert_eq!((names.enter(None), names.tag(0)), (Some(0), None));
    }

    #[test]
    fn a_tag_that_comes_again_keeps_its_name() {
        let mut names = Names::default();
        let first = names.enter(Some(&Tag::new("first"))).expect("memory");
        names.leave(first);
        assert_eq!(names.enter(Some(&Tag::new("first"))), Some(first));
        for number in 0..1000 {
            let other = names.enter(Some(&Tag::new(&format!("{number}")))).expect("memory");
            names.leave(other);
        }
        assert_eq!((names.tag(first), names.list.len()), (Some(Tag::new("first")), LEAST));
    }
}
