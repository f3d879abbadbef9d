//! The figures of each error of Rust.

use super::vmalloc_error;
use crate::answer::{Argument, Refusal};
use crate::code::*;
use vmalloc_linux::area_map::ResizeError;
use vmalloc_linux::{
    AllocError, AreaError, FreeError, NoArea, OpenError, PageRange, PlatformError, PlatformFault,
    RequestError, ReserveError, SpaceError,
};
use vmalloc_percpu::{CongruentError, CongruentFreeError};
use vmalloc_slots::{SlotError, SlotsError};
use vmalloc_stacks::{AltStackError, StackError};
use vmalloc_subspaces::{LIMIT_BYTES, SubspaceError};

/// Makes functions that set a figure.
macro_rules! setters {
    ($($name:ident: $type:ty = $figure:ident),*) => {
        $(fn $name(mut self, $figure: $type) -> Self {
            self.error.$figure = $figure as _;
            self
        })*
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
            Refusal::Argument(argument) => new.argument(*argument),
            Refusal::Alloc(error) => new.alloc(error),
            Refusal::Area(error) => new.area(error),
            Refusal::Free(error) => new.free(error),
            Refusal::NoArea(error) => new.no_area(error),
            Refusal::Congruent(error) => new.congruent(error),
            Refusal::CongruentFree(error) => new.congruent_free(error),
            Refusal::Platform(error) => new.platform(error),
            Refusal::Resize(error) => new.resize(error),
            Refusal::Open(error) => new.open(error),
            Refusal::Subspace(error) => new.subspace(error),
            Refusal::Slots(error) => new.slots(error),
            Refusal::Slot(error) => new.slot(error),
            Refusal::Stack(error) | Refusal::AltStack(AltStackError::Stack(error)) => new.stack(error),
            Refusal::AltStack(AltStackError::Refused(error)) | Refusal::Io(error) => {
                new.system(error.raw_os_error().unwrap_or(0))
            }
            Refusal::Violation(violation) => new.code(VMALLOC_E_DAMAGED).addr(violation.at),
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

    setters! {
        code: i32 = code, requested: u64 = requested, limit: u64 = limit, index: usize = index,
        align: u64 = alignment, addr: u64 = addr, errno: i32 = system_errno
    }

    fn range(mut self, range: PageRange) -> Self {
        (self.error.range_start, self.error.range_end) = (range.start(), range.end());
        self
    }

    fn other(mut self, range: PageRange) -> Self {
        (self.error.other_start, self.error.other_end) = (range.start(), range.end());
        self
    }

    fn system(self, errno: i32) -> Self {
        self.code(VMALLOC_E_SYSTEM).errno(errno)
    }

    /// Enters the size asked for, its alignment, where it was looked for, and the largest range.
    fn room(mut self, size: u64, align: u64, within: PageRange, largest: u64) -> Self {
        self.error.largest_free = largest;
        self.requested(size).align(align).range(within)
    }

    fn argument(self, argument: Argument) -> Self {
        let (code, number) = match argument {
            Argument::Null => (VMALLOC_E_NULL, 0),
            Argument::StructSize(size) => (VMALLOC_E_STRUCT_SIZE, size as u64),
            Argument::UnknownByte(index) => (VMALLOC_E_UNKNOWN_BYTES, index as u64),
            Argument::Flags(bits) => (VMALLOC_E_FLAGS, bits.into()),
            Argument::Name => (VMALLOC_E_NAME, 0),
            Argument::Value(bits) => (VMALLOC_E_VALUE, bits.into()),
            Argument::Count(count) => (VMALLOC_E_COUNT, count as u64),
        };
        self.code(code).requested(number)
    }

    fn request(self, error: &RequestError) -> Self {
        match *error {
            RequestError::ZeroSize => self.code(VMALLOC_E_ZERO_SIZE),
            RequestError::SizeOverflow { bytes } => {
                self.code(VMALLOC_E_SIZE_OVERFLOW).requested(bytes as u64)
            }
            RequestError::AlignNotPowerOfTwo { align } => self.code(VMALLOC_E_ALIGN).align(align),
            RequestError::PhaseTooLarge { phase, align } => {
                self.code(VMALLOC_E_PHASE).requested(phase).align(align)
            }
            RequestError::BadBoundary { boundary, pages } => {
                self.code(VMALLOC_E_BOUNDARY).requested(pages).limit(boundary)
            }
            RequestError::NoSuchNode { node, nodes } => {
                self.code(VMALLOC_E_NODE).requested(node as u64).limit(nodes as u64)
            }
            RequestError::LimitsReversed { start, end } => {
                let mut facts = self.code(VMALLOC_E_LIMITS);
                (facts.error.range_start, facts.error.range_end) = (start, end);
                facts
            }
            RequestError::OutsideSpace { asked, space } => {
                self.code(VMALLOC_E_OUTSIDE).range(asked).other(space)
            }
            _ => self.code(VMALLOC_E_VALUE),
        }
    }

    fn alloc(self, error: &AllocError) -> Self {
        match error {
            AllocError::Request(error) => self.request(error),
            AllocError::NoSpace(it) => {
                self.code(VMALLOC_E_NO_SPACE).room(it.size, it.align, it.within, it.largest)
            }
            AllocError::Occupied { asked, by } => self.code(VMALLOC_E_OCCUPIED).range(*asked).other(*by),
            AllocError::BadFrame { frame, .. } => self.code(VMALLOC_E_BAD_FRAME).requested(*frame),
            AllocError::Unbacked(it) => {
                self.room(it.size, it.align, it.within, it.largest).platform(&it.cause)
            }
            _ => self.code(VMALLOC_E_METADATA),
        }
    }

    fn area(self, error: &AreaError) -> Self {
        match error {
            AreaError::Area(error) => self.free(error),
            AreaError::Beyond { asked, area } => self.code(VMALLOC_E_BEYOND).range(*asked).other(*area),
            AreaError::Mapped { addr } => self.code(VMALLOC_E_MAPPED).addr(*addr as u64),
            AreaError::Overlap { first, second } => self.code(VMALLOC_E_OVERLAP).range(*first).other(*second),
            AreaError::NotMapped { addr } => self.code(VMALLOC_E_NOT_MAPPED).addr(*addr as u64),
            AreaError::Alloc(error) => self.alloc(error),
            AreaError::Platform(error) => self.platform(error),
            _ => self.code(VMALLOC_E_SYSTEM),
        }
    }

    fn free(mut self, error: &FreeError) -> Self {
        let (code, addr) = match *error {
            FreeError::NotAnArea { addr } => (VMALLOC_E_NOT_AN_AREA, addr),
            FreeError::Interior { addr, start } => {
                self.error.other_start = start as u64;
                (VMALLOC_E_INTERIOR, addr)
            }
            FreeError::Unaligned { addr } => (VMALLOC_E_UNALIGNED, addr),
            FreeError::AlreadyFreed { addr } => (VMALLOC_E_ALREADY_FREED, addr),
            FreeError::Contended { addr } => (VMALLOC_E_CONTENDED, addr),
            FreeError::NoMemory { addr } => (VMALLOC_E_METADATA, addr),
            FreeError::WrongCount { addr, mapped, given } => {
                (self.error.requested, self.error.limit) = (given, mapped);
                (VMALLOC_E_WRONG_COUNT, addr)
            }
            FreeError::WrongKind { addr } => (VMALLOC_E_WRONG_KIND, addr),
            _ => (VMALLOC_E_NOT_AN_AREA, 0),
        };
        self.code(code).addr(addr as u64)
    }

    fn no_area(mut self, error: &NoArea) -> Self {
        let (code, page) = match *error {
            NoArea::Nothing { page } => (VMALLOC_E_NOT_AN_AREA, page),
            NoArea::Interior { page, start } => {
                self.error.other_start = start;
                (VMALLOC_E_INTERIOR, page)
            }
            NoArea::Retired { page } => (VMALLOC_E_ALREADY_FREED, page),
            NoArea::Busy { page } => (VMALLOC_E_WRONG_KIND, page),
        };
        self.code(code).addr(page)
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
        self.code(code).errno(error.code)
    }

    fn congruent(self, error: &CongruentError) -> Self {
        match error {
            CongruentError::NoAreas => self.code(VMALLOC_E_COUNT),
            CongruentError::LengthsDiffer { offsets, sizes } => {
                self.code(VMALLOC_E_COUNT).requested(*offsets as u64).limit(*sizes as u64)
            }
            CongruentError::OffsetNotPages { index, offset } => {
                self.code(VMALLOC_E_NOT_PAGES).index(*index).requested(*offset)
            }
            CongruentError::ZeroSize { index } => self.code(VMALLOC_E_ZERO_SIZE).index(*index),
            CongruentError::Overflow { index } => self.code(VMALLOC_E_SIZE_OVERFLOW).index(*index),
            CongruentError::Overlap { first, second } => {
                self.code(VMALLOC_E_OVERLAP).index(*first).requested(*second as u64)
            }
            CongruentError::AlignNotPowerOfTwo { align } | CongruentError::AlignNotPages { align } => {
                self.code(VMALLOC_E_ALIGN).align(*align)
            }
            CongruentError::Request(error) => self.request(error),
            CongruentError::NoSpace(it) => {
                self.code(VMALLOC_E_NO_SPACE).room(it.size, it.align, it.within, it.largest)
            }
            _ => self.code(VMALLOC_E_METADATA),
        }
    }

    fn congruent_free(self, error: &CongruentFreeError) -> Self {
        match error {
            CongruentFreeError::Request(error) => self.congruent(error),
            CongruentFreeError::Area { index, cause } => self.free(cause).index(*index),
            CongruentFreeError::Size { index, asked, area } => {
                self.code(VMALLOC_E_WRONG_SIZE).index(*index).range(*asked).other(*area)
            }
            _ => self.code(VMALLOC_E_VALUE),
        }
    }

    fn resize(self, error: &ResizeError) -> Self {
        match error {
            ResizeError::Alloc(error) => self.alloc(&(*error).into()),
            ResizeError::Area(error) => self.no_area(error),
            ResizeError::NotAPart { asked, area } => self.code(VMALLOC_E_BEYOND).range(*asked).other(*area),
            ResizeError::NotInside { at, area } => self.code(VMALLOC_E_BEYOND).addr(*at).other(*area),
            ResizeError::WrongSize { pages, area } => {
                self.code(VMALLOC_E_WRONG_SIZE).requested(*pages).other(*area)
            }
            _ => self.code(VMALLOC_E_VALUE),
        }
    }

    fn space(self, error: &SpaceError) -> Self {
        match error {
            SpaceError::TooManyNodes { nodes } => {
                self.code(VMALLOC_E_NODE).requested(*nodes as u64).limit(vmalloc_linux::MAX_NODES as u64)
            }
            SpaceError::Metadata => self.code(VMALLOC_E_METADATA),
            _ => self.code(VMALLOC_E_OUTSIDE),
        }
    }

    fn reserve(self, error: &ReserveError) -> Self {
        match *error {
            ReserveError::ZeroSize => self.code(VMALLOC_E_ZERO_SIZE),
            ReserveError::NotPageMultiple { bytes, page_bytes } => {
                self.code(VMALLOC_E_NOT_PAGES).requested(bytes as u64).limit(page_bytes as u64)
            }
            ReserveError::TooLarge { bytes } => self.code(VMALLOC_E_SIZE_OVERFLOW).requested(bytes as u64),
            ReserveError::AddressSpaceLimit { bytes, limit, .. } => {
                self.code(VMALLOC_E_ADDRESS_LIMIT).requested(bytes as u64).limit(limit)
            }
            ReserveError::NoRoom { bytes, code } => {
                self.code(VMALLOC_E_ADDRESS_LIMIT).requested(bytes as u64).errno(code)
            }
            ReserveError::Unsupported { code, .. } => self.code(VMALLOC_E_UNSUPPORTED).errno(code),
            ReserveError::System { code, .. } => self.system(code),
            _ => self.code(VMALLOC_E_SYSTEM),
        }
    }

    fn open(self, error: &OpenError) -> Self {
        match error {
            OpenError::Reserve(error) => self.reserve(error),
            OpenError::Space(error) => self.space(error),
            OpenError::Fork(vmalloc_linux::fork::RegisterError::Refused { code }) => self.system(*code),
            _ => self.code(VMALLOC_E_SYSTEM),
        }
    }

    fn subspace(self, error: &SubspaceError) -> Self {
        match error {
            SubspaceError::DuplicateName { range, .. } => self.code(VMALLOC_E_DUPLICATE_NAME).other(*range),
            SubspaceError::Outside { asked, parent } => {
                self.code(VMALLOC_E_OUTSIDE).range(*asked).other(*parent)
            }
            SubspaceError::Overlap { asked, range, .. } => {
                self.code(VMALLOC_E_OCCUPIED).range(*asked).other(*range)
            }
            SubspaceError::Request(error) => self.request(error),
            SubspaceError::NoSpace(it) => {
                self.code(VMALLOC_E_NO_SPACE).room(it.size, it.align, it.within, it.largest)
            }
            SubspaceError::Space(error) => self.space(error),
            _ => self.code(VMALLOC_E_METADATA),
        }
    }

    fn slots(self, error: &SlotsError) -> Self {
        match error {
            SlotsError::ZeroSize => self.code(VMALLOC_E_ZERO_SIZE),
            SlotsError::HeadBeyondSlot { head, slot } => {
                self.code(VMALLOC_E_BEYOND).requested(*head as u64).limit(*slot as u64)
            }
            SlotsError::BadCount { slots } => self.code(VMALLOC_E_COUNT).requested(*slots as u64),
            SlotsError::BeyondSpan { slot, span, .. } => {
                self.code(VMALLOC_E_TOO_LARGE).requested(*slot as u64).limit(*span)
            }
            _ => self.code(VMALLOC_E_METADATA),
        }
    }

    fn slot(self, error: &SlotError) -> Self {
        match error {
            SlotError::Exhausted { slots } => self.code(VMALLOC_E_EXHAUSTED).limit(*slots as u64),
            SlotError::Beyond { asked, slot } => {
                self.code(VMALLOC_E_BEYOND).requested(*asked as u64).limit(*slot as u64)
            }
            SlotError::Area(error) => self.area(error),
            _ => self.code(VMALLOC_E_METADATA),
        }
    }

    fn stack(self, error: &StackError) -> Self {
        match error {
            StackError::TooSmall { bytes, page_bytes } => {
                self.code(VMALLOC_E_TOO_SMALL).requested(*bytes as u64).limit(*page_bytes as u64)
            }
            StackError::TooLarge { bytes, most } => {
                self.code(VMALLOC_E_TOO_LARGE).requested(*bytes as u64).limit(*most as u64)
            }
            StackError::BadAlign { align } => self.code(VMALLOC_E_ALIGN).align(*align as u64),
            StackError::BeyondMost { bytes, most } => {
                self.code(VMALLOC_E_BEYOND).requested(*bytes as u64).limit(*most as u64)
            }
            StackError::Growing => self.code(VMALLOC_E_GROWING),
            StackError::Open(error) => self.open(error),
            StackError::Alloc(error) => self.alloc(error),
            StackError::Commit(error) => self.area(error),
            _ => self.code(VMALLOC_E_SYSTEM),
        }
    }
}
