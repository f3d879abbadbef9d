//! The options of a reservation, checked once.

use crate::drain::TICK;
use crate::error::ReserveError;
use crate::means::{FRAMES_MAX, GuardMeans};
use crate::window::{To, Window, anywhere};
use std::ffi::CStr;
use std::time::Duration;
use vmalloc::setters;

/// The most that is reserved by default.
const DEFAULT_BYTES: u64 = 1 << 40;

/// The part of the addresses left that is reserved by default. After 1,000 spaces a program of 47
/// bits has still a terabyte for itself.
const DEFAULT_PART: u64 = 256;

/// Where that part is less than this, a larger part is reserved: programs of 32 or 39 bits open a
/// few spaces.
const FEW_BYTES: u64 = 8 << 30;
const LARGER_PART: u64 = 64;

/// The part of what `RLIMIT_AS` leaves that is reserved by default.
const PART_OF_LIMIT: u64 = 4;

/// The least that is reserved, unless less was asked for. Below two chunks nearly all of the span
/// would be opened at once by the first area.
const MINIMUM_BYTES: usize = 16 << 20;

/// The most of the supply of frames by default, which is more memory than most machines have, and
/// its part of the addresses left.
const DEFAULT_FRAME_BYTES: u64 = 64 << 30;
const DEFAULT_FRAME_PART: u64 = 1024;

/// Below this the supply is not worth having, unless it was asked for.
const FRAME_MINIMUM_BYTES: usize = 16 << 20;

/// A size to reserve, and the means to use. The default is a 256th of the addresses left, 512 GiB
/// on most machines, and the best means that the kernel has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinuxOptions {
    max_bytes: Option<usize>,
    min_bytes: Option<usize>,
    part_of_left: Option<u64>,
    at: Option<usize>,
    near: Option<(usize, usize)>,
    below: Option<usize>,
    align: usize,
    frame_bytes: Option<usize>,
    pub(crate) page_bytes: Option<usize>,
    pub(crate) guard_means: Option<GuardMeans>,
    pub(crate) drain_thread: bool,
    pub(crate) decay_every: Duration,
    pub(crate) populate: bool,
    pub(crate) dump: bool,
    pub(crate) huge_pages: bool,
    pub(crate) name: Option<&'static CStr>,
}

impl Default for LinuxOptions {
    fn default() -> Self {
        Self {
            max_bytes: None,
            min_bytes: None,
            part_of_left: None,
            at: None,
            near: None,
            below: None,
            align: 1,
            frame_bytes: None,
            page_bytes: None,
            guard_means: None,
            drain_thread: true,
            decay_every: TICK,
            populate: false,
            dump: true,
            huge_pages: true,
            name: None,
        }
    }
}

impl LinuxOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for `bytes`, or, where that is refused, a half, a quarter … of it, down to 16 MiB or
    /// [`min_bytes`](Self::min_bytes). How many there are is told by
    /// [`Linux::reserved_bytes`](crate::Linux::reserved_bytes), and how many were asked for by
    /// [`Linux::asked_bytes`](crate::Linux::asked_bytes).
    ///
    /// By default it is a 256th of the addresses that the program has left, up to 1 TiB: 512 GiB
    /// for the first space on x86-64, and so much less for each next one that the program's own
    /// mappings find room beside a thousand of them. Where a 256th is less than 8 GiB, up to a 64th
    /// is taken: 8 GiB in 39 bits of addresses. Under `RLIMIT_AS` it is up to a quarter of what
    /// that leaves: 63 GiB of 256. Addresses cost no memory.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: Some(bytes), ..self }
    }

    /// Gives the space pages of `bytes` bytes, a power of two that is a multiple of the machine's:
    /// a test of code for every size of pages runs on a machine of one.
    #[cfg(feature = "set-page-size")]
    #[doc(hidden)]
    #[must_use]
    pub fn page_bytes(self, bytes: usize) -> Self {
        Self { page_bytes: Some(bytes), ..self }
    }

    /// Asks for `bytes` at least: fewer are refused, with the largest window that there is. With as
    /// many as [`max_bytes`](Self::max_bytes) the span has exactly that size.
    #[must_use]
    pub fn min_bytes(self, bytes: usize) -> Self {
        Self { min_bytes: Some(bytes), ..self }
    }

    /// Asks for no more than this part of the addresses left: an 8th for 8.
    #[doc(hidden)]
    #[must_use]
    pub fn part_of_left(self, part: u64) -> Self {
        Self { part_of_left: Some(part), ..self }
    }

    /// Asks for a span that starts at `addr`, of [`max_bytes`](Self::max_bytes), or of
    /// [`min_bytes`](Self::min_bytes) at least where these are set. What is mapped there stays, and
    /// the reservation is refused with [`ReserveError::NoWindow`].
    ///
    /// ```
    /// use vmalloc_linux::{Error, LinuxOptions, ReserveError, SpaceOptions, open};
    ///
    /// let options = LinuxOptions::new().max_bytes(64 << 20).min_bytes(64 << 20).align(1 << 32);
    /// let space = open(options, SpaceOptions::default())?;
    /// let start = space.geometry().span.start() as usize * vmalloc_linux::page_bytes();
    /// let again = open(options.at(start), SpaceOptions::default());
    /// assert!(matches!(again, Err(Error::Reserve(ReserveError::NoWindow { largest: 0, .. }))));
    /// drop(space);
    /// assert!(open(options.at(start), SpaceOptions::default()).is_ok());
    /// # Ok::<(), vmalloc_linux::Error>(())
    /// ```
    #[must_use]
    pub fn at(self, addr: usize) -> Self {
        Self { at: Some(addr), ..self }
    }

    /// Asks for a span that starts as near to `addr` as can be, and lies in the `within` bytes
    /// below it and above it: for code that calls a program, 2 GiB.
    ///
    /// ```
    /// use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
    ///
    /// let program = LinuxOptions::new as fn() -> LinuxOptions as usize;
    /// let options = LinuxOptions::new().max_bytes(64 << 20).near(program, 1 << 31);
    /// let space = open(options, SpaceOptions::default())?;
    /// let geometry = space.geometry();
    /// assert!(geometry.span.start().abs_diff((program >> geometry.page_shift) as u64) < 1 << 19);
    /// # Ok::<(), vmalloc_linux::Error>(())
    /// ```
    #[must_use]
    pub fn near(self, addr: usize, within: usize) -> Self {
        Self { near: Some((addr, within)), ..self }
    }

    setters! {
        /// Asks for a span below `limit`, as high as can be: `1 << 32` for addresses of 32 bits.
        #[must_use]
        below(limit: usize) { below = Some(limit) }
        /// Asks for a span that starts at a multiple of `bytes`, a power of two. Default: a page.
        #[must_use]
        align(bytes: usize) { align = bytes }
        /// Asks for up to `bytes` of pages that can be mapped at several addresses at once
        /// ([`Frames`](vmalloc::Frames)), or none for 0. By default a 1024th of the addresses left,
        /// up to 64 GiB, which costs addresses only.
        ///
        /// Where these addresses can't be had (`RLIMIT_AS`), the supply is a half, a quarter … of
        /// it, down to nothing: the reservation does not fail for them.
        ///
        /// After a `fork`, parent and child see each other's writes to frames that were taken
        /// before it. Frames taken afterwards belong to the process that took them. A child takes
        /// none below the highest one that its parent ever took. Frames of its parent that it gives
        /// back are forgotten, not reused.
        #[must_use]
        frame_bytes(bytes: usize) { frame_bytes = Some(bytes) }
        /// Sets whether core dumps have the span, and the memory that [`GuardMeans::Userfault`]
        /// keeps of freed areas; if not, both get `MADV_DONTDUMP`. Pages that were mapped to
        /// frames, protected or moved, and are plain again, are in them in any case. On by default.
        #[must_use]
        dump(dump: bool) { dump = dump }
        /// Sets whether the kernel puts memory behind new areas of 8 to 1023 pages by one call,
        /// where the last two of their size were filled (`MADV_POPULATE_WRITE`, Linux 5.14; not
        /// with [`GuardMeans::Userfault`]): a page costs two thirds of a fault. Where the next area
        /// of the size stays empty all the same, three quarters of its pages are wasted until it is
        /// purged. Off by default: memory then lies near the CPU that allocates it, instead of the
        /// one that touches it first.
        #[must_use]
        populate(populate: bool) { populate = populate }
        /// Names the span in `/proc/self/maps`: `[anon:NAME]` (`PR_SET_VMA_ANON_NAME`, Linux 5.17,
        /// where the kernel is built with it). Up to 79 bytes, without control characters,
        /// brackets, `$`, `\` and backticks; of any other name the kernel takes no note.
        #[must_use]
        name(name: &'static CStr) { name = Some(name) }
        /// Sets whether the kernel may put huge pages behind the areas by itself, as it does at the
        /// first touch where `transparent_hugepage/enabled` is `always`. If not
        /// (`MADV_NOHUGEPAGE`), only pages that were touched are resident. A program may still
        /// advise parts (`MADV_HUGEPAGE`). Pages that showed frames are like all others of the
        /// program afterwards. On by default.
        #[must_use]
        huge_pages(huge_pages: bool) { huge_pages = huge_pages }
        /// Asks for guards by one means, instead of probing.
        #[must_use]
        guard_means(means: GuardMeans) { guard_means = Some(means) }
        /// Sets whether the space uses the drain thread, and creates it where there is none. Off
        /// for programs that may not create threads (a sandbox) or will change their user. The
        /// freeing thread then purges, and cached areas stay until
        /// [`Space::decay`](vmalloc::Space::decay) is called. On by default.
        #[must_use]
        drain_thread(drain_thread: bool) { drain_thread = drain_thread }
        /// Sets the time between two drains of the thread by age, of which each gives back a
        /// quarter of the cached areas, but none that was needed since the last. With zero the
        /// thread drains only where much is lazy. A second by default.
        #[must_use]
        decay_every(every: Duration) { decay_every = every }
    }

    /// Returns the sizes to try, for pages of `page_bytes`, where `left` addresses are.
    pub(crate) fn sizes(&self, page_bytes: usize, left: Left) -> Result<Sizes, ReserveError> {
        let least = self.min_bytes.unwrap_or(0);
        let most =
            self.max_bytes.unwrap_or_else(|| left.default_bytes(page_bytes).max(MINIMUM_BYTES).max(least));
        check_size(most, page_bytes)?;
        if self.min_bytes.is_some() {
            check_size(least, page_bytes)?;
        }
        if least > most {
            return Err(ReserveError::LeastAboveMost { least, most });
        }
        let minimum = match (self.min_bytes, self.at) {
            (Some(least), _) => least,
            (None, Some(_)) => most,
            (None, None) => MINIMUM_BYTES.min(most),
        };
        let part = |part: u64| (left.machine.min(left.limit) / part).min(most as u64);
        let next = self.part_of_left.map_or(most, |of| rounded(part(of), page_bytes)).max(minimum);
        Ok(Sizes { next: Some(next), minimum, page_bytes })
    }

    /// Returns the bytes that were asked for, of those to be tried.
    pub(crate) fn asked_bytes(&self, sizes: Sizes) -> usize {
        self.max_bytes.or(sizes.next).unwrap_or(0)
    }

    /// Returns where the span may lie.
    pub(crate) fn window(&self, page_bytes: usize) -> Result<Window, ReserveError> {
        let (align, address) = (self.align.max(page_bytes), self.at.unwrap_or(0));
        if !self.align.is_power_of_two() || address % align != 0 {
            return Err(ReserveError::NotAligned { address, align: self.align.max(page_bytes) });
        }
        let mut window = Window { align: align as u64, ..anywhere() };
        let end = &mut window.within.end;
        if let Some((addr, within)) = self.near {
            let (addr, within) = (addr as u64, within as u64);
            *end = addr.saturating_add(within).min(*end);
            window.within.start = addr.saturating_sub(within).max(window.within.start);
        }
        *end = self.below.map_or(*end, |limit| (limit as u64).min(*end));
        window.to = match (self.at, self.near) {
            (Some(start), _) => To::At(start as u64),
            (None, Some((addr, _))) => To::Near(addr as u64),
            (None, None) if self.below.is_some() || align > page_bytes => To::Near(u64::MAX),
            (None, None) => To::Any,
        };
        Ok(window)
    }

    /// Returns the sizes to try for the supply of frames, if one is asked for.
    pub(crate) fn frame_sizes(&self, page_bytes: usize, left: Left) -> Result<Option<Sizes>, ReserveError> {
        let wanted = self.frame_bytes.unwrap_or_else(|| left.default_frame_bytes(page_bytes));
        if wanted == 0 {
            return Ok(None);
        }
        check_size(wanted, page_bytes)?;
        let most = FRAMES_MAX.saturating_mul(page_bytes as u64).min(wanted as u64) as usize;
        Ok(Some(Sizes { next: Some(most), minimum: FRAME_MINIMUM_BYTES.min(most), page_bytes }))
    }
}

/// The addresses that a program has left, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Of those that its processor and kernel give.
    pub(crate) machine: u64,
    /// Of those that `RLIMIT_AS` allows.
    pub(crate) limit: u64,
}

impl Left {
    fn default_bytes(self, page_bytes: usize) -> usize {
        let few = (self.machine / LARGER_PART).min(FEW_BYTES);
        let part = (self.machine / DEFAULT_PART).max(few).min(DEFAULT_BYTES);
        rounded(part.min(self.limit / PART_OF_LIMIT), page_bytes)
    }

    fn default_frame_bytes(self, page_bytes: usize) -> usize {
        let part = (self.machine / DEFAULT_FRAME_PART).clamp(FRAME_MINIMUM_BYTES as u64, DEFAULT_FRAME_BYTES);
        rounded(part, page_bytes)
    }
}

/// Returns up to a 64th less than `bytes`: a multiple of a large power of two. The kernel aligns
/// such mappings for huge pages.
fn rounded(bytes: u64, page_bytes: usize) -> usize {
    let unit = (1 << bytes.checked_ilog2().unwrap_or(0).saturating_sub(6)).max(page_bytes as u64);
    (bytes / unit * unit) as usize
}

fn check_size(bytes: usize, page_bytes: usize) -> Result<(), ReserveError> {
    if bytes == 0 {
        return Err(ReserveError::ZeroSize);
    }
    if bytes % page_bytes != 0 {
        return Err(ReserveError::NotPageMultiple { bytes, page_bytes });
    }
    if isize::try_from(bytes).is_err() {
        return Err(ReserveError::TooLarge { bytes });
    }
    Ok(())
}

/// Sizes to try in turn: each half of the one before, in whole pages, and last the minimum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    next: Option<usize>,
    minimum: usize,
    page_bytes: usize,
}

impl Sizes {
    /// Leaves out sizes above `bytes`, but never the minimum.
    pub(crate) fn capped(mut self, bytes: usize) -> Self {
        while self.next.is_some_and(|next| next > bytes && next > self.minimum) {
            self.next();
        }
        self
    }
}

impl Iterator for Sizes {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let size = self.next?;
        let half = size / 2 / self.page_bytes * self.page_bytes;
        self.next = (size > self.minimum).then(|| half.max(self.minimum));
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;
    const LEAST: usize = MINIMUM_BYTES / PAGE;
    const LEFT: Left = Left { machine: 1 << 47, limit: u64::MAX };

    /// A thousand spaces leave room for a mapping of 64 GiB. A limit leaves most of itself.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn default_sizes_leave_addresses() {
        let odd = Left { machine: (1 << 47) - (77 << 20), ..LEFT }.default_bytes(PAGE);
        assert!(odd.is_multiple_of(1 << 30) && odd > (1 << 39) - (1 << 33), "{odd:#x} is not aligned");
        let mut left = LEFT;
        assert_eq!(left.default_bytes(PAGE), 1 << 39);
        for _ in 0..1000 {
            left.machine -= (left.default_bytes(PAGE) + left.default_frame_bytes(PAGE)) as u64;
        }
        assert!(left.machine > 512 << 30, "{} GiB are left", left.machine >> 30);
        let few = [1 << 32, 1 << 39].map(|machine| Left { machine, ..LEFT }.default_bytes(PAGE));
        assert_eq!(few, [64 << 20, 8 << 30]);
        assert_eq!(Left { limit: 8 << 30, ..LEFT }.default_bytes(PAGE), 2 << 30);
    }

    #[test]
    fn sizes_halve_down_to_the_minimum() {
        let sizes = LinuxOptions::new().max_bytes((4 * LEAST + 20) * PAGE).sizes(PAGE, LEFT);
        let pages: Vec<_> = sizes.into_iter().flatten().map(|bytes| bytes / PAGE).collect();
        assert_eq!(pages, [4 * LEAST + 20, 2 * LEAST + 10, LEAST + 5, LEAST]);
    }

    #[test]
    fn a_cap_never_hides_the_minimum() {
        let sizes = LinuxOptions::new().max_bytes(4 * MINIMUM_BYTES).sizes(PAGE, LEFT);
        let capped = |cap| sizes.map(|sizes| sizes.capped(cap).collect::<Vec<_>>());
        assert_eq!(capped(2 * MINIMUM_BYTES + PAGE), Ok(vec![2 * MINIMUM_BYTES, MINIMUM_BYTES]));
        assert_eq!(capped(PAGE), Ok(vec![MINIMUM_BYTES]));
        assert_eq!(capped(usize::MAX).map(|sizes| sizes.len()), Ok(3));
    }

    #[test]
    fn a_size_below_the_minimum_is_tried_once() {
        let sizes = LinuxOptions::new().max_bytes(3 * PAGE).sizes(PAGE, LEFT);
        assert_eq!(sizes.map(Iterator::collect::<Vec<_>>), Ok(vec![3 * PAGE]));
    }

    #[test]
    fn wrong_sizes_are_told_apart() {
        let refusal = |options: LinuxOptions| options.sizes(PAGE, LEFT).map(|_| ());
        assert_eq!(refusal(LinuxOptions::new().max_bytes(0)), Err(ReserveError::ZeroSize));
        let bytes = PAGE + 1;
        let page_bytes = PAGE;
        let wrong = ReserveError::NotPageMultiple { bytes, page_bytes };
        assert_eq!(refusal(LinuxOptions::new().max_bytes(bytes)), Err(wrong));
        let bytes = usize::MAX - PAGE + 1;
        assert_eq!(refusal(LinuxOptions::new().max_bytes(bytes)), Err(ReserveError::TooLarge { bytes }));
    }
}
