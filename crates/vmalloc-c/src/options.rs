//! Structs of options, and their meaning in Rust.

use crate::answer::{Argument, Refusal};
use crate::input::{self, Versioned};
use crate::names;
use libc::c_char;
use std::ffi::CStr;
use vmalloc_linux::{GuardMeans, LinuxOptions, MemoryCost, Policy, Request, Resize, SpaceOptions, Tag};

/// Makes some of the calls that build options, each under its condition.
macro_rules! built {
    ($options:ident; $($call:ident($($value:expr)?) if $is_chosen:expr),*) => {
        $(if $is_chosen {
            $options = $options.$call($($value)?);
        })*
    };
}

pub(crate) use built;

/// Leave guard pages out, in the whole space.
pub const VMALLOC_OPEN_NO_GUARDS: u32 = 1;
/// Cache no memory: a use after free traps once the purge has run.
pub const VMALLOC_OPEN_UNMAP_ON_FREE: u32 = 2;
/// Unmap each area before its free returns: a use after free traps at once.
pub const VMALLOC_OPEN_TRAP_ON_FREE: u32 = 4;
/// Fill freed memory with zeros.
pub const VMALLOC_OPEN_ZERO_ON_FREE: u32 = 8;
/// Have no thread drain the space in the background.
pub const VMALLOC_OPEN_NO_DRAIN_THREAD: u32 = 16;
/// Leave the memory out of core dumps.
pub const VMALLOC_OPEN_DONT_DUMP: u32 = 32;
/// Serve a request by an area of the exact size only, so that the guard is right behind it.
pub const VMALLOC_OPEN_NO_SLACK: u32 = 64;
/// Reserve no addresses for frames.
pub const VMALLOC_OPEN_NO_FRAMES: u32 = 128;
/// Put memory behind new areas of 8 to 1023 pages at once where the last two of their size were
/// filled: a page costs two thirds of a fault then. Memory lies near the CPU that allocates it.
pub const VMALLOC_OPEN_POPULATE: u32 = 256;
/// Cache a twelfth of what is in use, as where new memory is cheap, rather than a third of the most
/// that was.
pub const VMALLOC_OPEN_CHEAP_MEMORY: u32 = 512;

const OPEN_FLAGS: u32 = 1023;
/// Flags that concern a whole reservation, and no sub-space.
const RESERVATION_FLAGS: u32 =
    VMALLOC_OPEN_NO_DRAIN_THREAD | VMALLOC_OPEN_DONT_DUMP | VMALLOC_OPEN_NO_FRAMES | VMALLOC_OPEN_POPULATE;

/// The lowest address that fits. The default.
pub const VMALLOC_POLICY_LOWEST: u32 = 0;
/// The highest address that fits.
pub const VMALLOC_POLICY_HIGHEST: u32 = 1;
/// The fit nearest to a random page, which the seed chooses.
pub const VMALLOC_POLICY_RANDOM: u32 = 2;
/// The fit whose start is nearest to an address, or in a map to a page, which `seed` is.
pub const VMALLOC_POLICY_NEAR: u32 = 3;

/// The best guards that the kernel has. The default.
pub const VMALLOC_GUARDS_BEST: u32 = 0;
/// Marks in page tables (`MADV_GUARD_INSTALL`, Linux 6.13).
pub const VMALLOC_GUARDS_PTE_MARKERS: u32 = 1;
/// mprotect(2).
pub const VMALLOC_GUARDS_MPROTECT: u32 = 2;
/// userfaultfd(2): the cheapest where frees trap at once.
pub const VMALLOC_GUARDS_USERFAULT: u32 = 3;

/// The options of a space. Zero is the default of each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_options {
    /// `sizeof(vmalloc_options)`: `VMALLOC_OPTIONS_INIT` sets it.
    pub size: usize,
    /// Addresses to reserve, in bytes: by default a 256th of those that are left, up to 1 TiB.
    /// Where that is refused, a half, a quarter … of it, down to 16 MiB.
    pub max_bytes: usize,
    /// Addresses for pages that can be mapped several times: by default a 1024th of those that are
    /// left, up to 64 GiB.
    pub frame_bytes: usize,
    /// Memory of freed areas that is cached for reuse. By default a third of the most that was in
    /// use, within bounds. With `VMALLOC_OPEN_TRAP_ON_FREE`, memory that is kept of freed areas
    /// behind other addresses, with userfault guards: 64 MiB by default.
    pub cache_bytes: usize,
    /// Lazy pages that start a drain: 32 MiB for each bit of the number of CPUs by default.
    pub lazy_max_pages: u64,
    /// Nodes: one for each CPU by default, and at most 128.
    pub nodes: usize,
    /// Slots of a block of short mappings, a power of two from 64 to 1024.
    pub block_slots: u64,
    /// The seed of `VMALLOC_POLICY_RANDOM`, or the address of `VMALLOC_POLICY_NEAR`.
    pub seed: u64,
    /// Any of `VMALLOC_OPEN_...`.
    pub flags: u32,
    /// One of `VMALLOC_POLICY_...`: where areas are placed.
    pub policy: u32,
    /// One of `VMALLOC_GUARDS_...`.
    pub guards: u32,
    /// How much larger than a request a cached area may be that serves it, in percent, up to 100.
    /// See `VMALLOC_OPEN_NO_SLACK` for none.
    pub max_slack_percent: u32,
    /// The name of the addresses in `/proc/self/maps`, or `NULL`.
    pub name: *const c_char,
    /// Addresses to reserve at least, in bytes: fewer are refused. The detail has the largest
    /// window that there is.
    pub min_bytes: usize,
    /// The first address, of a page. Fewer than `max_bytes` are reserved there only if `min_bytes`
    /// is set. What is mapped there stays, and the reservation is refused.
    pub at: usize,
    /// The address that the first one is to be near to.
    pub near: usize,
    /// How far from `near` all addresses have to be, in bytes. With 0 any distance will do.
    pub within: usize,
    /// The address below which all lie, as high as can be.
    pub below: usize,
    /// The alignment of the first address in bytes, a power of two.
    pub align: usize,
}

// SAFETY: `repr(C)`, numbers and a pointer, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_options {
    const FIRST: usize = 88;
}

const _: () = assert!(size_of::<vmalloc_options>() == 14 * 8 + 4 * 4 + 8);

impl vmalloc_options {
    /// Returns the options of the reservation and the options of its space.
    ///
    /// # Safety
    /// The name is null, or ends with a zero byte.
    pub(crate) unsafe fn split(&self) -> Result<(LinuxOptions, SpaceOptions), Refusal> {
        let space = self.space()?;
        let mut options = LinuxOptions::new();
        built!(options; max_bytes(self.max_bytes) if self.max_bytes != 0,
            min_bytes(self.min_bytes) if self.min_bytes != 0, at(self.at) if self.at != 0,
            below(self.below) if self.below != 0, align(self.align) if self.align != 0,
            frame_bytes(self.frame_bytes) if self.frame_bytes != 0);
        match (self.near, self.within) {
            (0, 0) => {}
            (0, _) => return Err(Argument::Value(0).into()),
            (near, 0) => options = options.near(near, usize::MAX),
            (near, within) => options = options.near(near, within),
        }
        if let Some(guards) = self.guards()? {
            options = options.guard_means(guards);
        }
        if !self.name.is_null() {
            // SAFETY: the caller's condition.
            options = options.name(names::lasting(unsafe { CStr::from_ptr(self.name) }));
        }
        Ok((self.flagged(options)?, space))
    }

    fn flagged(&self, mut options: LinuxOptions) -> Result<LinuxOptions, Refusal> {
        let is_set = |flag| self.flags & flag != 0;
        options = options
            .drain_thread(!is_set(VMALLOC_OPEN_NO_DRAIN_THREAD))
            .dump(!is_set(VMALLOC_OPEN_DONT_DUMP))
            .populate(is_set(VMALLOC_OPEN_POPULATE));
        if is_set(VMALLOC_OPEN_NO_FRAMES) {
            if self.frame_bytes != 0 {
                return Err(Argument::Flags(self.flags).into());
            }
            options = options.frame_bytes(0);
        }
        Ok(options)
    }

    fn guards(&self) -> Result<Option<GuardMeans>, Refusal> {
        match self.guards {
            VMALLOC_GUARDS_BEST => Ok(None),
            VMALLOC_GUARDS_PTE_MARKERS => Ok(Some(GuardMeans::PteMarkers)),
            VMALLOC_GUARDS_MPROTECT => Ok(Some(GuardMeans::Mprotect)),
            VMALLOC_GUARDS_USERFAULT => Ok(Some(GuardMeans::Userfault)),
            other => Err(Argument::Value(other).into()),
        }
    }

    /// Returns the options of a sub-space. Those of a reservation have to be left out.
    pub(crate) fn of_subspace(&self) -> Result<SpaceOptions, Refusal> {
        let window = self.min_bytes | self.at | self.near | self.within | self.below | self.align;
        if self.max_bytes | self.frame_bytes | window != 0 || self.guards != 0 || !self.name.is_null() {
            return Err(Argument::Value(self.guards).into());
        }
        input::flags(self.flags, OPEN_FLAGS & !RESERVATION_FLAGS)?;
        self.space()
    }

    fn space(&self) -> Result<SpaceOptions, Refusal> {
        let flags = input::flags(self.flags, OPEN_FLAGS)?;
        let is_set = |flag| flags & flag != 0;
        let mut options = SpaceOptions::default()
            .guard(!is_set(VMALLOC_OPEN_NO_GUARDS))
            .trap_on_free(is_set(VMALLOC_OPEN_TRAP_ON_FREE))
            .zero_on_free(is_set(VMALLOC_OPEN_ZERO_ON_FREE))
            .lazy_max_pages(self.lazy_max_pages)
            .nodes(self.nodes)
            .policy(policy(self.policy, self.seed)?);
        if is_set(VMALLOC_OPEN_UNMAP_ON_FREE) {
            if self.cache_bytes != 0 {
                return Err(Argument::Flags(flags).into());
            }
            options = options.unmap_on_free();
        } else if self.cache_bytes != 0 {
            options = options.cache_bytes(self.cache_bytes);
        }
        built!(options; memory_cost(MemoryCost::Cheap) if is_set(VMALLOC_OPEN_CHEAP_MEMORY));
        match (self.max_slack_percent, is_set(VMALLOC_OPEN_NO_SLACK)) {
            (0, false) => Ok(options),
            (0, true) => Ok(options.max_slack_percent(0)),
            (1..=100, false) => Ok(options.max_slack_percent(self.max_slack_percent as u8)),
            (1..=100, true) => Err(Argument::Flags(flags).into()),
            (other, _) => Err(Argument::Value(other).into()),
        }
    }
}

/// Returns the policy of this number.
pub(crate) fn policy(number: u32, seed: u64) -> Result<Policy, Refusal> {
    match number {
        VMALLOC_POLICY_LOWEST => Ok(Policy::Lowest),
        VMALLOC_POLICY_HIGHEST => Ok(Policy::Highest),
        VMALLOC_POLICY_RANDOM => Ok(Policy::Random { seed }),
        VMALLOC_POLICY_NEAR => Ok(Policy::Near { to: seed }),
        other => Err(Argument::Value(other).into()),
    }
}

/// Fill the memory with zeros.
pub const VMALLOC_ZERO: u32 = 1;
/// Leave the guard page out.
pub const VMALLOC_NO_GUARD: u32 = 2;
/// Use huge pages where the area has room for one and the machine has some.
pub const VMALLOC_HUGE: u32 = 4;
/// Fail rather than wait for a purge or call notifiers.
pub const VMALLOC_NO_BLOCK: u32 = 8;
/// Take memory that the node `node` has freed, where there is some.
pub const VMALLOC_ON_NODE: u32 = 16;
/// Place by `policy`, whatever the options of the space say.
pub const VMALLOC_PLACE: u32 = 32;

const REQUEST_FLAGS: u32 = 63;

/// A request for memory or addresses. Zero is the default of each field but `bytes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_request {
    /// `sizeof(vmalloc_request)`: `VMALLOC_REQUEST_INIT` sets it.
    pub size: usize,
    /// Bytes asked for, not 0.
    pub bytes: usize,
    /// The alignment in bytes, a power of two. Areas always start at a page.
    pub align: usize,
    /// The lowest address allowed. Without limits it is 0, and so is `range_end`.
    pub range_start: usize,
    /// The address behind the last one allowed, for the guard page too.
    pub range_end: usize,
    /// The node of `VMALLOC_ON_NODE`.
    pub node: usize,
    /// The seed of `VMALLOC_POLICY_RANDOM`, or the address of `VMALLOC_POLICY_NEAR`.
    pub seed: u64,
    /// Any of `VMALLOC_ZERO` to `VMALLOC_PLACE`.
    pub flags: u32,
    /// One of `VMALLOC_POLICY_...`, with the flag `VMALLOC_PLACE`.
    pub policy: u32,
    /// The name of the owner, for reports, or `NULL`. The first 31 bytes count, which are copied.
    pub tag: *const c_char,
    /// A number of the caller's for the area, which `vmalloc_find` tells for each address inside.
    pub record: u64,
}

// SAFETY: `repr(C)`, numbers and a pointer, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_request {
    const FIRST: usize = 72;
}

const _: () = assert!(size_of::<vmalloc_request>() == 7 * 8 + 2 * 4 + 2 * 8);

/// Returns the request that a caller has put together.
///
/// # Safety
/// That of [`input::read`], and the tag is null or ends with a zero byte.
pub(crate) unsafe fn request(given: *const vmalloc_request) -> Result<Request, Refusal> {
    // SAFETY: the caller's condition.
    let given = unsafe { input::read(given) }?;
    let mut request = Request::new(given.bytes);
    built!(request; record(given.record) if given.record != 0, align(given.align) if given.align != 0);
    if (given.range_start, given.range_end) != (0, 0) {
        request = request.within(given.range_start, given.range_end);
    }
    // SAFETY: the caller's condition.
    if let Some(tag) = unsafe { input::name(given.tag) }? {
        request = request.tag(Tag::new(tag));
    }
    given.flagged(request)
}

/// Returns the request that a caller has put together, if it asks for nothing rare: then it needs no
/// copy, and never gets as far as memory.
///
/// # Safety
/// That of [`input::read`].
#[inline(always)]
pub(crate) unsafe fn usual_request(given: *const vmalloc_request) -> Option<Request> {
    // SAFETY: the caller's condition; a struct of another size is not read beyond that.
    let size = unsafe { given.cast::<usize>().as_ref() }?;
    if *size != size_of::<vmalloc_request>() {
        return None;
    }
    // SAFETY: as above, and it is as large as ours.
    let given = unsafe { &*given };
    let rare = given.range_start | given.range_end | given.tag.addr() | (given.flags | given.policy) as usize;
    if rare != 0 {
        return None;
    }
    let request = Request::new(given.bytes).align(given.align.max(1));
    Some(if given.record != 0 { request.record(given.record) } else { request })
}

const RESIZE_FLAGS: u32 = VMALLOC_ZERO | VMALLOC_NO_BLOCK;

/// A new size for memory that is there. Everything else stays the memory's: its guard, tag, record,
/// limits, policy and huge pages. Zero is the default of each field but `bytes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_resize {
    /// `sizeof(vmalloc_resize)`: `VMALLOC_RESIZE_INIT` sets it.
    pub size: usize,
    /// Bytes asked for, not 0.
    pub bytes: usize,
    /// The alignment in bytes, a power of two: memory that starts elsewhere moves.
    pub align: usize,
    /// `VMALLOC_ZERO` for zeros in new bytes, `VMALLOC_NO_BLOCK`, or both.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, numbers, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_resize {
    const FIRST: usize = 32;
}

const _: () = assert!(size_of::<vmalloc_resize>() == 3 * 8 + 2 * 4);

impl vmalloc_resize {
    /// Returns the new size for memory that is there, and the request for memory that is not.
    ///
    /// # Safety
    /// That of [`input::read`].
    pub(crate) unsafe fn split(given: *const Self) -> Result<(Resize, Request), Refusal> {
        // SAFETY: the caller's condition.
        let given = unsafe { input::read(given) }?;
        if given.reserved != 0 {
            return Err(Argument::Value(given.reserved).into());
        }
        let flags = input::flags(given.flags, RESIZE_FLAGS)?;
        let is_set = |flag| flags & flag != 0;
        let (mut resize, mut request) = (Resize::new(given.bytes), Request::new(given.bytes));
        built!(resize; align(given.align) if given.align != 0, zeroed() if is_set(VMALLOC_ZERO),
            may_block(false) if is_set(VMALLOC_NO_BLOCK));
        built!(request; align(given.align) if given.align != 0, zeroed() if is_set(VMALLOC_ZERO),
            may_block(false) if is_set(VMALLOC_NO_BLOCK));
        Ok((resize, request))
    }
}

impl vmalloc_request {
    fn flagged(&self, mut request: Request) -> Result<Request, Refusal> {
        let flags = input::flags(self.flags, REQUEST_FLAGS)?;
        let is_set = |flag| flags & flag != 0;
        built!(request; zeroed() if is_set(VMALLOC_ZERO), guard(false) if is_set(VMALLOC_NO_GUARD),
            huge() if is_set(VMALLOC_HUGE), may_block(false) if is_set(VMALLOC_NO_BLOCK),
            node(self.node) if is_set(VMALLOC_ON_NODE));
        match (is_set(VMALLOC_PLACE), self.policy) {
            (true, number) => Ok(request.policy(policy(number, self.seed)?)),
            (false, 0) => Ok(request),
            (false, _) => Err(Argument::Flags(flags).into()),
        }
    }
}
