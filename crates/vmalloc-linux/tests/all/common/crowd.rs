//! The limit on mappings, reached by mappings of the test's own.

use std::num::NonZeroUsize;

/// Other mappings, of the test's own, leave the platform none at all.
pub struct Crowd {
    base: *mut libc::c_void,
    bytes: usize,
    splits: usize,
}

impl Crowd {
    /// Splits a mapping into single pages until the program has `max` mappings, or the kernel
    /// refuses.
    pub fn gather(max: u64) -> Self {
        Self::of(max / 2)
    }

    /// Splits a mapping into single pages, with twice as many mappings as splits, until the kernel
    /// refuses.
    pub fn of(max: u64) -> Self {
        let page = rustix::param::page_size();
        let bytes = NonZeroUsize::new(2 * max as usize * page).unwrap().get();
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let split = |index: &usize| {
            let at = base.wrapping_byte_add(2 * index * page);
            // SAFETY: inside the mapping just made.
            unsafe { libc::mprotect(at, page, libc::PROT_READ) == 0 }
        };
        let splits = (0..max as usize).take_while(split).count();
        Self { base, bytes, splits }
    }

    /// Makes room for two mappings: the last page that was split off becomes one with its neighbours.
    pub fn thin(&mut self) {
        let page = rustix::param::page_size();
        self.splits -= 1;
        let at = self.base.wrapping_byte_add(2 * self.splits * page);
        // SAFETY: inside the mapping, in which nothing is. It stays mapped: into a hole the C library
        // may put a part of its heap, and a drop would take that too.
        assert_eq!(unsafe { libc::mprotect(at, page, libc::PROT_NONE) }, 0);
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // SAFETY: our own mapping, in which nothing is.
        assert_eq!(unsafe { libc::munmap(self.base, self.bytes) }, 0);
    }
}
