//! The allocators that a program would use instead of vmalloc.

use super::{Buffers, Memory, PAGE_BYTES};
use crate::by_hand::{ACCESS, Mapped};
use rustix::mm::{MprotectFlags, ProtFlags};
use std::ffi::CStr;
use std::ptr::{NonNull, null, null_mut, with_exposed_provenance_mut};

/// `mmap` and `munmap`, with so many guard pages behind each buffer.
#[derive(Debug)]
pub struct Mmap<const GUARD_PAGES: usize>;

impl<const GUARD_PAGES: usize> Buffers for Mmap<GUARD_PAGES> {
    const NAME: &'static str = if GUARD_PAGES == 0 { "mmap + munmap" } else { "mmap + guard + munmap" };
    const GUARD: &'static str = if GUARD_PAGES == 0 { "no" } else { "yes" };
    const TRAPS: &'static str = "yes";

    fn build() -> Self {
        Self
    }

    fn version() -> String {
        let name = rustix::system::uname();
        format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy())
    }
}

impl<const GUARD_PAGES: usize> Memory for Mmap<GUARD_PAGES> {
    fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        let access = if GUARD_PAGES == 0 { ACCESS } else { ProtFlags::empty() };
        let mapped = Mapped::new(bytes + GUARD_PAGES * PAGE_BYTES, access).expect("a mapping");
        if GUARD_PAGES > 0 {
            let whole = MprotectFlags::READ | MprotectFlags::WRITE;
            mapped.protect(mapped.addr()..mapped.addr() + bytes, whole).expect("a mapping more");
        }
        NonNull::new(with_exposed_provenance_mut(mapped.leak())).expect("no mapping lies at address zero")
    }

    unsafe fn free(&mut self, buffer: NonNull<u8>, bytes: usize) {
        // SAFETY: the mapping was made by `allocate` with this length and nothing uses it, as the
        // caller promises.
        drop(unsafe { Mapped::leaked(buffer.as_ptr().addr(), bytes + GUARD_PAGES * PAGE_BYTES) });
    }
}

called!(
    /// The C library's `aligned_alloc`, at its defaults.
    pub Glibc, "libc aligned_alloc", "no", Self, glibc_version(),
    |bytes| libc::aligned_alloc(PAGE_BYTES, bytes),
    |buffer, _bytes| libc::free(buffer)
);

#[cfg(target_env = "gnu")]
fn glibc_version() -> String {
    // SAFETY: takes nothing; returns a constant text.
    let text = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", text.to_string_lossy())
}

#[cfg(not(target_env = "gnu"))]
fn glibc_version() -> String {
    "unknown".to_owned()
}

const IS_SECURE: bool = cfg!(feature = "mimalloc-secure");

called!(
    /// mimalloc.
    pub Mimalloc,
    if IS_SECURE { "mimalloc secure" } else { "mimalloc" },
    if IS_SECURE { "some" } else { "no" },
    Self,
    mimalloc_version(),
    |bytes| libmimalloc_sys::mi_malloc_aligned(bytes, PAGE_BYTES),
    |buffer, _bytes| libmimalloc_sys::mi_free(buffer)
);

fn mimalloc_version() -> String {
    // SAFETY: takes nothing and changes nothing.
    let number = unsafe { libmimalloc_sys::mi_version() };
    // From 2.3 on two digits each for what follows the first.
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

const JEMALLOC_FLAGS: libc::c_int = tikv_jemalloc_sys::MALLOCX_ALIGN(PAGE_BYTES);

called!(
    /// jemalloc.
    pub Jemalloc, "jemalloc", "no", Self, jemalloc_version(),
    |bytes| tikv_jemalloc_sys::mallocx(bytes, JEMALLOC_FLAGS),
    |buffer, bytes| tikv_jemalloc_sys::sdallocx(buffer, bytes, JEMALLOC_FLAGS)
);

fn jemalloc_version() -> String {
    let (mut text, mut size) = (null::<libc::c_char>(), size_of::<*const libc::c_char>());
    // SAFETY: the name ends with a zero byte; a pointer to a text is written where there is room
    // for a pointer; nothing is set.
    let code = unsafe {
        let out = (&raw mut text).cast();
        tikv_jemalloc_sys::mallctl(c"version".as_ptr(), out, &raw mut size, null_mut(), 0)
    };
    if code != 0 || text.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: jemalloc's version is a constant text.
    let told = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    told.split('-').next().unwrap_or_default().to_owned()
}
