//! Names that live as long as the program, as sub-spaces and reservations ask for them.
//!
//! A tree that only grows, and has each name once: without a lock, so that no fork finds one held.
//! A name's hash is the way to it, two bits for each level. So a name is found among n in O(log n).

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Link = AtomicPtr<Entry>;

struct Entry {
    name: Box<CStr>,
    below: [Link; 4],
}

static FIRST: Link = AtomicPtr::new(ptr::null_mut());

/// Returns a copy of the name that lives for ever.
pub(crate) fn lasting(name: &CStr) -> &'static CStr {
    let (mut link, mut way) = (&FIRST, hash(name));
    loop {
        let entry = at(link).unwrap_or_else(|| enter(link, name));
        if *entry.name == *name {
            return &entry.name;
        }
        // Of two names with one hash, one is below the other, as far down as it takes.
        (link, way) = (&entry.below[way as usize % 4], way.rotate_right(2));
    }
}

fn hash(name: &CStr) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn at(link: &Link) -> Option<&'static Entry> {
    // Acquire: pairs with the Release of `enter`, so an entry that is found is whole.
    let entry = link.load(Ordering::Acquire);
    // SAFETY: entries of the tree are whole, and are never changed or freed.
    unsafe { entry.as_ref() }
}

/// Returns the entry at `link`, where there was none: a new one, or that of a thread that was
/// quicker.
fn enter(link: &Link, name: &CStr) -> &'static Entry {
    let new = Box::into_raw(Box::new(Entry { name: name.into(), below: Default::default() }));
    // Release: pairs with the Acquire of the loads. Acquire of a failure: as for `at`.
    match link.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire) {
        // SAFETY: it is in the tree now, whose entries are never changed or freed.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: it was made above, and is in no tree.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: as in `at`.
            unsafe { &*other }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_however_many_threads_ask() {
        let ask = || {
            (0..50).map(|nth| lasting(&std::ffi::CString::new(format!("n{nth}")).unwrap()).as_ptr().addr())
        };
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(move || ask().collect::<Vec<_>>())).collect();
        let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(lasting(c"n7").to_str(), Ok("n7"));
    }

    #[test]
    fn a_name_among_many_is_few_links_from_the_first() {
        for nth in 0..10_000 {
            lasting(&std::ffi::CString::new(format!("many{nth}")).unwrap());
        }
        let (mut left, mut level) = (vec![&FIRST], 0);
        while !left.is_empty() {
            left = left.iter().filter_map(|link| at(link)).flat_map(|entry| &entry.below).collect();
            level += 1;
        }
        assert!(level < 24, "{level} levels");
    }
}
