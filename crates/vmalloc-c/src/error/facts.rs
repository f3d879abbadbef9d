//! The figures of each error of Rust.

use super::vmalloc_error;
use crate::answer::{Argument, Refusal};
use crate::code::*;
use core::ops::Range;
use vmalloc_linux::area_map::ResizeError;
use vmalloc_linux::{
    AllocError, AreaError, Error, FreeError, MAX_NODES, NoArea, NoSpace, PageRange, PlatformError,
    PlatformFault, PurgeError, RequestError, ReserveError, SpaceError,
};
use vmalloc_percpu::{CongruentError, CongruentFreeError};
use vmalloc_short::UnmapError;
use vmalloc_slots::{SlotError, SlotsError};
use vmalloc_stacks::{AltStackError, StackError};
use vmalloc_subspaces::{LIMIT_BYTES, SubspaceError};

/// Makes functions that set a figure to a number of an error.
macro_rules! setters {
    ($($name:ident = $figure:ident),*) => {
        $(fn $name(mut self, number: &(impl Copy + TryInto<u64>)) -> Self {
            self.error.$figure = (*number).try_into().unwrap_or(u64::MAX);
            self
        })*
    };
}

/// Tells each error by its code and figures; others behind them by what tells these.
macro_rules! told {
    ($facts:ident, $error:ident;
     $($pattern:pat => $code:ident $(, $figure:ident $number:ident)*;)* $(; $($other:pat => $told:expr),*)?) => {
        match $error {
            $($pattern => $facts.code($code)$(.$figure($number))*,)*
            $($($other => $told,)*)?
        }
    };
}

/// An error that is being put together. Its figures are those of the error of Rust: bytes and
/// addresses, or the pages of an address map.
pub(crate) struct Facts {
    error: vmalloc_error,
}

impl Facts {
    pub(crate) fn of(refusal: &Refusal) -> Self {
        let new = Self { error: vmalloc_error::NONE };
        match refusal {
            Refusal::Argument(argument) => new.argument(argument),
            Refusal::Alloc(error) => new.alloc(error),
            Refusal::Area(error) => new.area(error),
            Refusal::Free(error) => new.free(error),
            Refusal::NoArea(error) => new.no_area(error),
            Refusal::Congruent(error) => new.congruent(error),
            Refusal::CongruentFree(error) => new.congruent_free(error),
            Refusal::Platform(error) | Refusal::Purge(PurgeError::Platform(error)) => new.platform(error),
            Refusal::Purge(PurgeError::Metadata) => new.code(VMALLOC_E_NO_MEMORY),
            Refusal::Unmap(error) => new.unmap(error),
            Refusal::Resize(error) => new.resize(error),
            Refusal::Open(error) => new.open(error),
            Refusal::Subspace(error) => new.subspace(error),
            Refusal::Slots(error) => new.slots(error),
            Refusal::Slot(error) => new.slot(error),
            Refusal::Stack(error) | Refusal::AltStack(AltStackError::Stack(error)) => new.stack(error),
            Refusal::AltStack(AltStackError::Refused(error)) | Refusal::Io(error) => {
                new.system(error.raw_os_error().unwrap_or(0))
            }
            Refusal::Violation(violation) => new.code(VMALLOC_E_DAMAGED).addr(&violation.at),
            Refusal::Metadata => new.code(VMALLOC_E_METADATA),
            Refusal::Contended => new.code(VMALLOC_E_CONTENDED),
            Refusal::System(_, errno) => new.system(*errno),
            // Errors that later versions of our own crates add.
            _ => new.code(VMALLOC_E_SYSTEM),
        }
    }

    /// Returns the detail, with family and `errno`.
    pub(crate) fn finish(mut self) -> vmalloc_error {
        self.error.family = self.error.code / 100;
        self.error.error_number = errno_of(self.error.code, self.error.system_errno);
        self.error
    }

    fn code(mut self, code: i32) -> Self {
        self.error.code = code;
        self
    }

    setters!(
        requested = requested,
        largest = largest_free,
        limit = limit,
        index = index,
        align = alignment,
        addr = addr,
        start = other_start
    );

    fn range(mut self, range: &PageRange) -> Self {
        (self.error.range_start, self.error.range_end) = (range.start(), range.end());
        self
    }

    fn other(mut self, range: &PageRange) -> Self {
        (self.error.other_start, self.error.other_end) = (range.start(), range.end());
        self
    }

    fn failed(mut self, code: i32, errno: i32) -> Self {
        self.error.system_errno = errno;
        self.code(code)
    }

    fn system(self, errno: i32) -> Self {
        self.failed(VMALLOC_E_SYSTEM, errno)
    }

    /// Enters the size asked for, its alignment, where it was looked for, and the largest range.
    fn room(mut self, size: u64, align: u64, within: &PageRange, largest: u64) -> Self {
        self.error.largest_free = largest;
        self.requested(&size).align(&align).range(within)
    }

    /// Enters the window in which no place has so many bytes, if it has addresses at all.
    fn no_window(self, bytes: usize, within: Range<u64>, largest: u64) -> Self {
        let facts = self.code(VMALLOC_E_NO_SPACE).requested(&bytes).largest(&largest);
        match PageRange::new(within.start, within.end) {
            Some(within) => facts.range(&within),
            None => facts,
        }
    }

    fn no_space(self, it: &NoSpace) -> Self {
        self.code(VMALLOC_E_NO_SPACE).room(it.size, it.align, &it.within, it.largest)
    }

    fn argument(self, argument: &Argument) -> Self {
        told! { self, argument;
            Argument::Null => VMALLOC_E_NULL;
            Argument::StructSize(size) => VMALLOC_E_STRUCT_SIZE, requested size;
            Argument::UnknownByte(index) => VMALLOC_E_UNKNOWN_BYTES, requested index;
            Argument::Flags(bits) => VMALLOC_E_FLAGS, requested bits;
            Argument::Name => VMALLOC_E_NAME;
            Argument::Value(bits) => VMALLOC_E_VALUE, requested bits;
            Argument::Count(count) => VMALLOC_E_COUNT, requested count;
        }
    }

    fn request(mut self, error: &RequestError) -> Self {
        if let RequestError::LimitsReversed { start, end } = *error {
            (self.error.range_start, self.error.range_end) = (start, end);
        }
        told! { self, error;
            RequestError::ZeroSize => VMALLOC_E_ZERO_SIZE;
            RequestError::SizeOverflow { bytes } => VMALLOC_E_SIZE_OVERFLOW, requested bytes;
            RequestError::AlignNotPowerOfTwo { align } => VMALLOC_E_ALIGN, align align;
            RequestError::NoSuchNode { node, nodes } => VMALLOC_E_NODE, requested node, limit nodes;
            RequestError::LimitsReversed { .. } => VMALLOC_E_LIMITS;
            RequestError::OutsideSpace { asked, space } => VMALLOC_E_OUTSIDE, range asked, other space;
            _ => VMALLOC_E_VALUE;
        }
    }

    fn alloc(self, error: &AllocError) -> Self {
        told! { self, error;
            AllocError::Occupied { asked, by } => VMALLOC_E_OCCUPIED, range asked, other by;
            AllocError::BadFrame { frame, .. } => VMALLOC_E_BAD_FRAME, requested frame;
            ;
            AllocError::Request(error) => self.request(error),
            AllocError::NoSpace(it) => self.no_space(it),
            AllocError::Unbacked(it) => self.room(it.size, it.align, &it.within, it.largest).platform(&it.cause),
            _ => self.code(VMALLOC_E_METADATA)
        }
    }

    fn area(self, error: &AreaError) -> Self {
        told! { self, error;
            AreaError::Beyond { asked, area } => VMALLOC_E_BEYOND, range asked, other area;
            AreaError::Mapped { addr } => VMALLOC_E_MAPPED, addr addr;
            AreaError::Overlap { first, second } => VMALLOC_E_OVERLAP, range first, other second;
            AreaError::NotMapped { addr } => VMALLOC_E_NOT_MAPPED, addr addr;
            ;
            AreaError::Area(error) => self.free(error),
            AreaError::Alloc(error) => self.alloc(error),
            AreaError::Platform(error) => self.platform(error),
            _ => self.code(VMALLOC_E_SYSTEM)
        }
    }

    fn free(self, error: &FreeError) -> Self {
        told! { self, error;
            FreeError::NotAnArea { addr } => VMALLOC_E_NOT_AN_AREA, addr addr;
            FreeError::Interior { addr, start } => VMALLOC_E_INTERIOR, addr addr, start start;
            FreeError::Unaligned { addr } => VMALLOC_E_UNALIGNED, addr addr;
            FreeError::AlreadyFreed { addr } => VMALLOC_E_ALREADY_FREED, addr addr;
            FreeError::Contended { addr } => VMALLOC_E_CONTENDED, addr addr;
            FreeError::NoMemory { addr } => VMALLOC_E_METADATA, addr addr;
            FreeError::WrongKind { addr } => VMALLOC_E_WRONG_KIND, addr addr;
            _ => VMALLOC_E_NOT_AN_AREA;
        }
    }

    fn unmap(self, error: &UnmapError) -> Self {
        told! { self, error;
            UnmapError::WrongCount { addr, mapped, given } => VMALLOC_E_WRONG_COUNT, addr addr, requested given, limit mapped;
            ;
            UnmapError::Free(error) => self.free(error),
            _ => self.code(VMALLOC_E_SYSTEM)
        }
    }

    fn no_area(self, error: &NoArea) -> Self {
        told! { self, error;
            NoArea::Nothing { page } => VMALLOC_E_NOT_AN_AREA, addr page;
            NoArea::Interior { page, start } => VMALLOC_E_INTERIOR, addr page, start start;
            NoArea::Retired { page } => VMALLOC_E_ALREADY_FREED, addr page;
            NoArea::Busy { page } => VMALLOC_E_WRONG_KIND, addr page;
        }
    }

    fn platform(self, error: &PlatformError) -> Self {
        let code = match error.fault {
            PlatformFault::OutOfMemory if error.call == LIMIT_BYTES => VMALLOC_E_LIMIT,
            PlatformFault::OutOfMemory => VMALLOC_E_NO_MEMORY,
            PlatformFault::MapLimit => VMALLOC_E_MAP_LIMIT,
            PlatformFault::Unsupported => VMALLOC_E_UNSUPPORTED,
            PlatformFault::Locked => VMALLOC_E_LOCKED,
            _ => VMALLOC_E_SYSTEM,
        };
        self.failed(code, error.code)
    }

    fn congruent(self, error: &CongruentError) -> Self {
        told! { self, error;
            CongruentError::NoAreas => VMALLOC_E_COUNT;
            CongruentError::LengthsDiffer { offsets, sizes } => VMALLOC_E_COUNT, requested offsets, limit sizes;
            CongruentError::OffsetNotPages { index, offset } => VMALLOC_E_NOT_PAGES, index index, requested offset;
            CongruentError::ZeroSize { index } => VMALLOC_E_ZERO_SIZE, index index;
            CongruentError::Overflow { index } => VMALLOC_E_SIZE_OVERFLOW, index index;
            CongruentError::Overlap { first, second } => VMALLOC_E_OVERLAP, index first, requested second;
            CongruentError::AlignNotPowerOfTwo { align } => VMALLOC_E_ALIGN, align align;
            CongruentError::AlignNotPages { align } => VMALLOC_E_ALIGN, align align;
            ;
            CongruentError::Request(error) => self.request(error),
            CongruentError::NoSpace(it) => {
                self.code(VMALLOC_E_NO_SPACE).room(it.size, it.align, &it.within, it.largest)
            },
            _ => self.code(VMALLOC_E_METADATA)
        }
    }

    fn congruent_free(self, error: &CongruentFreeError) -> Self {
        told! { self, error;
            CongruentFreeError::Size { index, asked, area } => VMALLOC_E_WRONG_SIZE, index index, range asked, other area;
            ;
            CongruentFreeError::Request(error) => self.congruent(error),
            CongruentFreeError::Area { index, cause } => self.free(cause).index(index),
            _ => self.code(VMALLOC_E_VALUE)
        }
    }

    fn resize(self, error: &ResizeError) -> Self {
        told! { self, error;
            ResizeError::NotAPart { asked, area } => VMALLOC_E_BEYOND, range asked, other area;
            ResizeError::NotInside { at, area } => VMALLOC_E_BEYOND, addr at, other area;
            ResizeError::WrongSize { pages, area } => VMALLOC_E_WRONG_SIZE, requested pages, other area;
            ;
            ResizeError::Alloc(error) => self.alloc(&(*error).into()),
            ResizeError::Area(error) => self.no_area(error),
            _ => self.code(VMALLOC_E_VALUE)
        }
    }

    fn space(self, error: &SpaceError) -> Self {
        told! { self, error;
            SpaceError::Metadata => VMALLOC_E_METADATA;
            ;
            SpaceError::TooManyNodes { nodes } => self.code(VMALLOC_E_NODE).requested(nodes).limit(&MAX_NODES),
            _ => self.code(VMALLOC_E_OUTSIDE)
        }
    }

    fn reserve(self, error: &ReserveError) -> Self {
        told! { self, error;
            ReserveError::ZeroSize => VMALLOC_E_ZERO_SIZE;
            ReserveError::NotPageMultiple { bytes, page_bytes } => VMALLOC_E_NOT_PAGES, requested bytes, limit page_bytes;
            ReserveError::TooLarge { bytes } => VMALLOC_E_SIZE_OVERFLOW, requested bytes;
            ReserveError::AddressSpaceLimit { bytes, limit, .. } => VMALLOC_E_ADDRESS_LIMIT, requested bytes, limit limit;
            ReserveError::LeastAboveMost { least, most } => VMALLOC_E_TOO_LARGE, requested least, limit most;
            ReserveError::NotAligned { address, align } => VMALLOC_E_ALIGN, requested align, addr address;
            ;
            ReserveError::NoWindow { bytes, start, end, largest } => self.no_window(*bytes, *start..*end, *largest),
            ReserveError::NoRoom { bytes, largest, code } => {
                self.failed(VMALLOC_E_ADDRESS_LIMIT, *code).requested(bytes).largest(largest)
            },
            ReserveError::Unsupported { code, .. } => self.failed(VMALLOC_E_UNSUPPORTED, *code),
            ReserveError::System { code, .. } => self.system(*code),
            _ => self.code(VMALLOC_E_SYSTEM)
        }
    }

    fn open(self, error: &Error) -> Self {
        match error {
            Error::Reserve(error) => self.reserve(error),
            Error::Space(error) => self.space(error),
            Error::Fork(vmalloc_linux::fork::RegisterError::Refused { code }) => self.system(*code),
            _ => self.code(VMALLOC_E_SYSTEM),
        }
    }

    fn subspace(self, error: &SubspaceError) -> Self {
        told! { self, error;
            SubspaceError::DuplicateName { range, .. } => VMALLOC_E_DUPLICATE_NAME, other range;
            SubspaceError::Outside { asked, parent } => VMALLOC_E_OUTSIDE, range asked, other parent;
            SubspaceError::Overlap { asked, range, .. } => VMALLOC_E_OCCUPIED, range asked, other range;
            ;
            SubspaceError::Request(error) => self.request(error),
            SubspaceError::NoSpace(it) => self.no_space(it),
            SubspaceError::Space(error) => self.space(error),
            _ => self.code(VMALLOC_E_METADATA)
        }
    }

    fn slots(self, error: &SlotsError) -> Self {
        told! { self, error;
            SlotsError::ZeroSize => VMALLOC_E_ZERO_SIZE;
            SlotsError::HeadBeyondSlot { head, slot } => VMALLOC_E_BEYOND, requested head, limit slot;
            SlotsError::BadCount { slots } => VMALLOC_E_COUNT, requested slots;
            SlotsError::BeyondSpan { slot, span, .. } => VMALLOC_E_TOO_LARGE, requested slot, limit span;
            _ => VMALLOC_E_METADATA;
        }
    }

    fn slot(self, error: &SlotError) -> Self {
        told! { self, error;
            SlotError::Exhausted { slots } => VMALLOC_E_EXHAUSTED, limit slots;
            SlotError::Beyond { asked, slot } => VMALLOC_E_BEYOND, requested asked, limit slot;
            ;
            SlotError::Area(error) => self.area(error),
            _ => self.code(VMALLOC_E_METADATA)
        }
    }

    fn stack(self, error: &StackError) -> Self {
        told! { self, error;
            StackError::TooSmall { bytes, page_bytes } => VMALLOC_E_TOO_SMALL, requested bytes, limit page_bytes;
            StackError::TooLarge { bytes, most } => VMALLOC_E_TOO_LARGE, requested bytes, limit most;
            StackError::BadAlign { align } => VMALLOC_E_ALIGN, align align;
            StackError::BeyondMost { bytes, most } => VMALLOC_E_BEYOND, requested bytes, limit most;
            StackError::Growing => VMALLOC_E_GROWING;
            ;
            StackError::Open(error) => self.open(error),
            StackError::Alloc(error) => self.alloc(error),
            StackError::Commit(error) => self.area(error),
            _ => self.code(VMALLOC_E_SYSTEM)
        }
    }
}
