//! Two worlds that should be one: regions behind the library, each with its image in the kernel's
//! own hands.
//!
//! ```text
//!   ours     ───[ region ]────────[ region ]───      where the library puts them
//!   kernel   ──G[ image  ]G──────G[ image  ]G──      at addresses that only the test maps; G: a page
//!                                                    without access, for the neighbour that
//!                                                    every area of a reservation has
//! ```
//!
//! The mappings of the image are the truth: nothing else is kept of a region but where it is.

use super::calls::{Answer, Call, Door, PAGE, read, write};
use super::maps::{Maps, NO_ACCESS};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::ops::Range;

/// The first image, far from where the kernel maps on its own, and the addresses of one thread.
const IMAGES: usize = 0x1000_0000_0000;
const FOR_THREAD: usize = 1 << 40;
/// From one image to the next.
const STRIDE: usize = 4096 * PAGE;

/// A region and its image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) ours: usize,
    pub(crate) image: usize,
    pub(crate) pages: usize,
    /// Its holes may be anybody's: the kernel has placed one of the two.
    pub(crate) is_loose: bool,
    /// A child of a fork may not have it.
    pub(crate) stays_behind: bool,
    /// Pages of it were locked once.
    pub(crate) was_locked: bool,
}

impl Region {
    pub(crate) fn addr(&self, door: Door, page: usize) -> usize {
        page * PAGE + if door == Door::Ours { self.ours } else { self.image }
    }
}

/// The regions of one thread, with all that is needed to compare them.
pub(crate) struct Worlds {
    pub(crate) regions: Vec<Region>,
    pub(crate) maps: Maps,
    rng: Xoshiro256PlusPlus,
    images: Range<usize>,
    /// Other threads map memory as well: free pages may be theirs by now.
    pub(crate) is_shared: bool,
    /// Areas that were unmapped as a whole may stay mapped for reuse.
    pub(crate) keeps: bool,
    /// Files of the same content: one for ours, one for the images.
    files: [i32; 2],
    buffers: [Vec<u8>; 2],
    reservation: (usize, usize),
    pub(crate) last: String,
}

impl Worlds {
    pub(crate) fn new(seed: u64, thread: usize, is_shared: bool) -> Self {
        let images = IMAGES + thread * FOR_THREAD + STRIDE;
        Self {
            regions: Vec::with_capacity(64),
            maps: Maps::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed ^ (thread as u64) << 32),
            images: images..images + FOR_THREAD - 2 * STRIDE,
            is_shared,
            keeps: std::env::var_os("VMALLOC_MMAP_KEEP").is_some(),
            files: [(); 2].map(|()| file()),
            buffers: [(); 2].map(|()| vec![0; 4096 * PAGE]),
            reservation: (0, 0),
            last: String::new(),
        }
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.rng.next_u64() % end as u64) as usize
    }

    /// Returns true once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns the file of a world.
    pub(crate) fn file(&self, door: Door) -> i32 {
        self.files[usize::from(door == Door::Kernel)]
    }

    /// Returns the address of a new image.
    pub(crate) fn next_image(&mut self) -> usize {
        let image = self.images.start;
        self.images.start += STRIDE;
        assert!(self.images.start < self.images.end, "addresses for images are used up");
        image
    }

    /// Returns true if `addr` lies in the reservation of the library.
    pub(crate) fn is_reserved(&mut self, addr: usize) -> bool {
        if self.reservation.0 == 0 {
            self.reservation = crate::common::reservation();
        }
        addr.wrapping_sub(self.reservation.0) < self.reservation.1
    }

    /// Makes a call in both worlds, and compares the answers. An address counts from the region.
    #[track_caller]
    pub(crate) fn both(&mut self, make: impl Fn(&Self, Door) -> Call) -> [Answer; 2] {
        let calls = [Door::Ours, Door::Kernel].map(|door| (make(self, door), door));
        self.last = format!("{:x?}", calls[0].0);
        // SAFETY: the generator names pages of the test's own.
        calls.map(|(call, door)| unsafe { call.make(door) })
    }

    /// Returns true if the page of the region is mapped, in the kernel's world.
    pub(crate) fn is_mapped(&self, region: &Region, page: usize) -> bool {
        self.maps.access(region.addr(Door::Kernel, page)).is_some()
    }

    /// Returns true if a call may name these pages: none is a hole that is somebody else's by now.
    pub(crate) fn may_name(&self, at: usize, pages: Range<usize>) -> bool {
        let region = &self.regions[at];
        pages.clone().all(|page| {
            let is_free = || !region.is_loose && !self.is_shared && self.owner(region, page).is_none();
            page >= region.pages || self.is_mapped(region, page) || is_free()
        })
    }

    /// Returns the region that has reused a hole of `region`.
    fn owner(&self, region: &Region, page: usize) -> Option<&Region> {
        let addr = region.addr(Door::Ours, page);
        let mut regions = self.regions.iter();
        regions.find(|other| {
            let page = addr.wrapping_sub(other.ours) / PAGE;
            addr >= other.ours && page < other.pages && self.is_mapped(other, page)
        })
    }

    /// Writes words at random places of a region, in both worlds.
    pub(crate) fn scribble(&mut self, at: usize) {
        let region = self.regions[at];
        for _ in 0..4 {
            let page = self.below(region.pages);
            if !self.is_mapped(&region, page) {
                continue;
            }
            let word = self.rng.next_u64().to_ne_bytes();
            let offset = self.below(PAGE / 8) * 8;
            let sides = [Door::Ours, Door::Kernel].map(|door| write(region.addr(door, page) + offset, &word));
            assert_eq!(sides[0], sides[1], "page {page} of {region:x?} can be written after {}", self.last);
        }
    }

    /// Fills whole pages of a region, in both worlds.
    pub(crate) fn fill(&mut self, at: usize, pages: Range<usize>) {
        let region = self.regions[at];
        let bytes = [self.rng.next_u64() as u8; PAGE];
        for page in pages.filter(|&page| self.is_mapped(&region, page)) {
            write(region.addr(Door::Ours, page), &bytes);
            write(region.addr(Door::Kernel, page), &bytes);
        }
    }

    /// Looks at the mappings, and compares the access to every page of every region.
    pub(crate) fn compare_access(&mut self) {
        self.maps.look();
        for region in &self.regions {
            for page in 0..region.pages {
                let [ours, image] =
                    [Door::Ours, Door::Kernel].map(|door| self.maps.access(region.addr(door, page)));
                let is_equal = match image {
                    Some(_) => ours == image,
                    None if self.is_shared || region.is_loose => true,
                    // A kept area may have had the hole.
                    None if self.keeps && ours == Some(*b"rw-p") => true,
                    None => ours.is_none_or(|it| it == NO_ACCESS) || self.owner(region, page).is_some(),
                };
                assert!(
                    is_equal,
                    "page {page} of {region:x?}: {:?} instead of {:?} after {}",
                    ours.map(|it| String::from_utf8_lossy(&it).into_owned()),
                    image.map(|it| String::from_utf8_lossy(&it).into_owned()),
                    self.last
                );
            }
        }
    }

    /// Compares the content of a region.
    pub(crate) fn compare_content(&mut self, at: usize) {
        let region = self.regions[at];
        let mut page = 0;
        while page < region.pages {
            if !self.is_mapped(&region, page) {
                page += 1;
                continue;
            }
            let end = (page..region.pages).find(|&it| !self.is_mapped(&region, it)).unwrap_or(region.pages);
            let len = (end - page) * PAGE;
            let [ours, image] = &mut self.buffers;
            let got = read(region.addr(Door::Ours, page), &mut ours[..len]);
            let meant = read(region.addr(Door::Kernel, page), &mut image[..len]);
            assert_eq!(got, meant, "bytes of {region:x?} from page {page} can be read after {}", self.last);
            let is_equal = ours[..got] == image[..got];
            assert!(is_equal, "{region:x?} differs from page {page} on after {}", self.last);
            // The page at which the reading ended can't be read in either world.
            page += got / PAGE + usize::from(got < len);
        }
    }

    pub(crate) fn compare_all(&mut self) {
        self.compare_access();
        (0..self.regions.len()).for_each(|at| self.compare_content(at));
    }

    /// Forgets regions of which nothing is mapped any more. One whose holes may be anybody's is
    /// divided at them.
    pub(crate) fn forget_unmapped(&mut self) {
        for region in std::mem::take(&mut self.regions) {
            let first = (0..region.pages).find(|&page| self.is_mapped(&region, page));
            let is_whole = (0..region.pages).all(|page| self.is_mapped(&region, page));
            match first {
                Some(first) if !is_whole && (region.is_loose || self.is_shared) => {
                    self.divide(&region, first);
                }
                Some(_) => self.regions.push(region),
                None if region.is_loose => {}
                None => unguard(&region),
            }
        }
    }

    /// Adds the parts of a region that are mapped, of which the first starts at page `from`.
    fn divide(&mut self, region: &Region, mut from: usize) {
        if !region.is_loose {
            unguard(region);
        }
        while from < region.pages {
            let end = (from..region.pages).find(|&page| !self.is_mapped(region, page));
            let end = end.unwrap_or(region.pages);
            if end > from {
                let [ours, image] = [Door::Ours, Door::Kernel].map(|door| region.addr(door, from));
                self.regions.push(Region { ours, image, pages: end - from, is_loose: true, ..*region });
            }
            from = end + 1;
        }
    }
}

/// Puts pages without access around an image.
pub(crate) fn guard(region: &Region) {
    for addr in [region.image - PAGE, region.image + region.pages * PAGE] {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let call = Call::Map { addr, len: PAGE, access: libc::PROT_NONE, flags, file: -1, offset: 0 };
        // SAFETY: it replaces nothing.
        assert_eq!(unsafe { call.make(Door::Kernel) }, Ok(addr), "a guard");
    }
}

/// Takes these pages away.
fn unguard(region: &Region) {
    for addr in [region.image - PAGE, region.image + region.pages * PAGE] {
        // SAFETY: `guard` has mapped it.
        let _ = unsafe { Call::Unmap { addr, len: PAGE }.make(Door::Kernel) };
    }
}

fn file() -> i32 {
    // SAFETY: a name that ends in a zero byte.
    let file = unsafe { libc::memfd_create(c"differential".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(file >= 0, "a file in memory");
    for page in 0..128_u8 {
        // SAFETY: as many bytes are there.
        let wrote = unsafe { libc::pwrite(file, [page; PAGE].as_ptr().cast(), PAGE, i64::from(page) << 12) };
        assert_eq!(wrote, PAGE as isize);
    }
    file
}
