//! Functions of the C library itself, from its table of symbols.
//!
//! The dynamic loader's own look-up is no help: the linker and dlsym(3) may find a function of the
//! same name in another library, and dlopen(3), which gives the C library's handle, calls malloc.
//! The table has a hash of its names, and lies in memory:
//!
//! ```text
//!   dynamic section ──► DT_GNU_HASH   counts │ bloom filter │ buckets │ chains of hashes
//!                  ├──► DT_SYMTAB     one symbol for each hash of the chains, from `first` on
//!                  ├──► DT_VERSYM     and its version
//!                  └──► DT_STRTAB     the names
//! ```

use libc::{Dl_info, Elf64_Sym, c_char, c_int, c_void};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;
/// The version of a symbol that only programs linked long ago still ask for.
const HIDDEN: u16 = 1 << 15;
/// The type of a function, in the lowest four bits of a symbol's `st_info`.
const FUNCTION: u8 = 2;

/// A loaded library, as dladdr1(3) tells it: the first fields of `struct link_map`.
#[repr(C)]
struct Library {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
}

/// An entry of a dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

unsafe extern "C" {
    /// No other library has a function of this name.
    fn gnu_get_libc_version() -> *const c_char;
    fn dladdr1(addr: *const c_void, info: *mut Dl_info, extra: *mut *mut c_void, kind: c_int) -> c_int;
}

/// Returns the address of a function of the C library by its name; `None` if it has no such
/// function. It allocates nothing, and leaves what dlerror(3) is about to tell.
pub(crate) fn function_of_glibc(name: &CStr) -> Option<usize> {
    // SAFETY: the C library's own tables, which stay where they are while the program runs.
    unsafe { find(glibc()?, name) }
}

fn glibc() -> Option<&'static Library> {
    /// `RTLD_DL_LINKMAP`.
    const LIBRARY: c_int = 2;
    let (mut info, mut library) = (MaybeUninit::uninit(), ptr::null_mut());
    // SAFETY: both places may be written. The loader tells in which library the address is, and
    // keeps that library for ever.
    unsafe {
        // The text lies in the C library. The function may not: in a program that takes its
        // address, and is not position independent, that address is the program's.
        let inside = gnu_get_libc_version().cast();
        dladdr1(inside, info.as_mut_ptr(), &raw mut library, LIBRARY);
        library.cast::<Library>().as_ref()
    }
}

/// # Safety
/// The library is one that the loader has loaded and does not unload.
unsafe fn find(library: &Library, name: &CStr) -> Option<usize> {
    // SAFETY: the promise, and the layout of these tables, which the loader reads in the same way.
    unsafe {
        let table = |tag| entry(library, tag).map(ptr::with_exposed_provenance::<u8>);
        let (symbols, names) = (table(DT_SYMTAB)?.cast::<Elf64_Sym>(), table(DT_STRTAB)?);
        let versions = table(DT_VERSYM).map(<*const u8>::cast::<u16>);
        let counts = table(DT_GNU_HASH)?.cast::<u32>();
        let [buckets, first, blooms] = [0, 1, 2].map(|nth| *counts.add(nth));
        // A word of the filter is twice as long as the others.
        let bucket = counts.add(4 + 2 * blooms as usize);
        let chains = bucket.add(buckets as usize);
        let hash = hash_of(name);
        let mut at = *bucket.add((hash % buckets) as usize);
        while at >= first {
            let (found, symbol) = (*chains.add((at - first) as usize), &*symbols.add(at as usize));
            let is_hidden = versions.is_some_and(|versions| *versions.add(at as usize) & HIDDEN != 0);
            // The lowest bit marks the end of a chain.
            if found | 1 == hash | 1
                && !is_hidden
                && symbol.st_shndx != 0
                && symbol.st_info & 0xf == FUNCTION
                && CStr::from_ptr(names.add(symbol.st_name as usize).cast()) == name
            {
                return Some(library.base + symbol.st_value as usize);
            }
            if found & 1 != 0 {
                break;
            }
            at += 1;
        }
        None
    }
}

/// Returns the address that an entry of a dynamic section has.
///
/// # Safety
/// That of [`find`].
unsafe fn entry(library: &Library, tag: i64) -> Option<usize> {
    let mut at = library.dynamic;
    // SAFETY: the section ends in an entry of zeros.
    unsafe {
        while (*at).tag != 0 {
            if (*at).tag == tag {
                // The loader of most machines has added the base.
                let value = (*at).value;
                return Some(if value < library.base { library.base + value } else { value });
            }
            at = at.add(1);
        }
    }
    None
}

fn hash_of(name: &CStr) -> u32 {
    name.to_bytes().iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_are_found_where_its_handle_has_them() {
        // SAFETY: a name of a library that is loaded.
        let handle = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        for name in [c"malloc", c"realloc", c"aligned_alloc", c"malloc_usable_size", c"mallopt", c"puts"] {
            // SAFETY: a handle and a name.
            let expected = unsafe { libc::dlsym(handle, name.as_ptr()) }.addr();
            assert_eq!(function_of_glibc(name), Some(expected), "{name:?}");
        }
        for name in [c"mallok", c"", c"environ", c"dladdr1_", c"cfree"] {
            assert_eq!(function_of_glibc(name), None, "{name:?}");
        }
    }
}
