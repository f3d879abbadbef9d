//! Pages that are there already, shown at other addresses, and areas that grow: against what the
//! kernel and the C library offer.
//!
//! | module | what it measures |
//! |---|---|
//! | [`brief`] | map, touch, unmap of a few pages |
//! | [`moves`] | a few pages brought together and back, where their owner gives them up |
//! | [`growth`] | an area that grows from 1 to 64 MiB, page by page |
//! | [`crowd`] | how many short mappings can live at once, and what they take of the kernel |

pub mod brief;
pub mod crowd;
pub mod growth;
pub mod moves;
pub mod shared;

use vmalloc::SpaceOptions;
use vmalloc_linux::{LinuxOptions, SharedSpace, open};

/// Bytes in a page.
pub const PAGE_BYTES: usize = 4096;

/// A space on Linux memory, as it comes.
///
/// # Panics
/// Where there are no addresses for one, or pages are not of 4 KiB.
pub fn space() -> SharedSpace {
    let space = open(LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space");
    assert_eq!(1 << space.geometry().page_shift, PAGE_BYTES, "pages of 4 KiB are counted");
    space
}

/// Writes the first byte of each of `pages` pages at `addr`.
///
/// # Safety
/// They are mapped and writable, their provenance is exposed, and nothing else uses them.
#[inline]
unsafe fn touch(addr: usize, pages: usize) {
    for page in 0..pages {
        let byte = core::ptr::with_exposed_provenance_mut::<u8>(addr + page * PAGE_BYTES);
        // SAFETY: the caller vouches for all pages. Volatile, as the byte is never read.
        unsafe { byte.write_volatile(1) };
    }
}
