//! Peers that are not built by default.

use super::{Buffers, Memory, PAGE_BYTES, Visitor};
use std::ptr::NonNull;

/// Shows `visitor` both.
pub(super) fn each(visitor: &mut impl Visitor) {
    visitor.visit::<Snmalloc>();
    visitor.visit::<Rpmalloc>();
}

/// The versions of their crates; a test compares them with the lock file. That of snmalloc is its
/// crate's.
const SNMALLOC: &str = "0.7.6";
const RPMALLOC: &str = "0.2.3+b097fd0";

called!(
    /// snmalloc.
    pub(super) Snmalloc, "snmalloc", "no", Self, SNMALLOC.to_owned(),
    |bytes| snmalloc_sys::sn_rust_alloc(PAGE_BYTES, bytes),
    |buffer, bytes| snmalloc_sys::sn_rust_dealloc(buffer, PAGE_BYTES, bytes)
);

called!(
    /// rpmalloc.
    pub(super) Rpmalloc, "rpmalloc", "no", { ready_rpmalloc(); Self }, format!("1.4.3, crate {RPMALLOC}"),
    |bytes| rpmalloc_sys::rpaligned_alloc(PAGE_BYTES, bytes),
    |buffer, _bytes| rpmalloc_sys::rpfree(buffer)
);

fn ready_rpmalloc() {
    // SAFETY: may be called by any thread, any number of times.
    let code = unsafe { rpmalloc_sys::rpmalloc_initialize() };
    assert_eq!(code, 0, "rpmalloc can't be initialized");
    // SAFETY: the allocator is initialized; a thread may say again that it uses it.
    unsafe { rpmalloc_sys::rpmalloc_thread_initialize() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        for (name, version) in [("snmalloc-sys", SNMALLOC), ("rpmalloc-sys", RPMALLOC)] {
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"");
            assert!(lock.contains(&entry), "{entry}");
        }
    }
}
