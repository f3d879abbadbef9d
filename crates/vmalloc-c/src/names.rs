//! Names that live as long as the program, as sub-spaces and reservations ask for them.
//!
//! A list that only grows, and has each name once: without a lock, so that no fork finds one held.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

struct Entry {
    name: Box<CStr>,
    next: *mut Entry,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

/// Returns a copy of the name that lives for ever.
pub(crate) fn lasting(name: &CStr) -> &'static CStr {
    // Acquire: pairs with the Release below, so an entry that is found is whole.
    let mut first = FIRST.load(Ordering::Acquire);
    let mut new: Option<Box<Entry>> = None;
    loop {
        if let Some(known) = find(first, name) {
            return known;
        }
        let mut entry = new.take().unwrap_or_else(|| Box::new(Entry { name: name.into(), next: first }));
        entry.next = first;
        let entry = Box::into_raw(entry);
        // Release: pairs with the Acquire of the loads. Acquire of a failure: as for the first
        // load.
        match FIRST.compare_exchange(first, entry, Ordering::Release, Ordering::Acquire) {
            // SAFETY: it is in the list now, whose entries are never changed or freed.
            Ok(_) => return unsafe { &(*entry).name },
            Err(other) => {
                first = other;
                // SAFETY: it was made above, and is in no list.
                new = Some(unsafe { Box::from_raw(entry) });
            }
        }
    }
}

fn find(mut entry: *const Entry, name: &CStr) -> Option<&'static CStr> {
    // SAFETY: entries of the list are whole, and are never changed or freed.
    while let Some(found) = unsafe { entry.as_ref() } {
        if *found.name == *name {
            return Some(&found.name);
        }
        entry = found.next;
    }
    None
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
}
