//! Codes of errors, by family, and the `errno` of each.

use libc::{
    E2BIG, EAGAIN, EALREADY, EBUSY, EDQUOT, EEXIST, EFAULT, EINVAL, EIO, EMFILE, ENOENT, ENOMEM, ENOSPC,
    ENOTRECOVERABLE, ENXIO, EOPNOTSUPP, EOVERFLOW, EPERM, ERANGE,
};

/// The call itself is wrong: a null pointer, a struct of another version, an unknown flag.
pub const VMALLOC_FAMILY_ARGUMENT: i32 = 1;
/// The request can never be met, whatever is free.
pub const VMALLOC_FAMILY_REQUEST: i32 = 2;
/// Addresses ran out, or those asked for are taken.
pub const VMALLOC_FAMILY_ROOM: i32 = 3;
/// Memory ran out, or a limit on it was met.
pub const VMALLOC_FAMILY_MEMORY: i32 = 4;
/// The address is not that of an area which the call is for.
pub const VMALLOC_FAMILY_AREA: i32 = 5;
/// The system refused.
pub const VMALLOC_FAMILY_SYSTEM: i32 = 6;
/// Something else is going on at this moment, or the state is damaged.
pub const VMALLOC_FAMILY_STATE: i32 = 7;

/// `EINVAL`: a pointer that must not be `NULL` is.
pub const VMALLOC_E_NULL: i32 = 101;
/// `EINVAL`: the `size` of a struct is smaller than that of any version.
pub const VMALLOC_E_STRUCT_SIZE: i32 = 102;
/// `E2BIG`: a struct sets bytes that this version of the library does not know.
pub const VMALLOC_E_UNKNOWN_BYTES: i32 = 103;
/// `EINVAL`: unknown flags, or flags that exclude each other.
pub const VMALLOC_E_FLAGS: i32 = 104;
/// `EINVAL`: a name is not UTF-8, or is missing.
pub const VMALLOC_E_NAME: i32 = 105;
/// `EINVAL`: an enumerator that this version of the library does not know.
pub const VMALLOC_E_VALUE: i32 = 106;

/// `EINVAL`: the size is zero.
pub const VMALLOC_E_ZERO_SIZE: i32 = 201;
/// `EOVERFLOW`: no object can be as large.
pub const VMALLOC_E_SIZE_OVERFLOW: i32 = 202;
/// `EINVAL`: the alignment is not a power of two, or not one that the call allows.
pub const VMALLOC_E_ALIGN: i32 = 203;
/// `EINVAL`: there is no such node.
pub const VMALLOC_E_NODE: i32 = 206;
/// `EINVAL`: limits are empty or reversed.
pub const VMALLOC_E_LIMITS: i32 = 207;
/// `ERANGE`: limits or a range leave the space.
pub const VMALLOC_E_OUTSIDE: i32 = 208;
/// `EINVAL`: a size or an address is not a multiple of the page size.
pub const VMALLOC_E_NOT_PAGES: i32 = 209;
/// `ERANGE`: a range leaves its area, slot or stack.
pub const VMALLOC_E_BEYOND: i32 = 210;
/// `EINVAL`: two ranges overlap.
pub const VMALLOC_E_OVERLAP: i32 = 211;
/// `EINVAL`: a count is zero, too large, or differs from another.
pub const VMALLOC_E_COUNT: i32 = 212;
/// `EINVAL`: a size is below the least, or a minimum above the most.
pub const VMALLOC_E_TOO_SMALL: i32 = 213;
/// `ERANGE`: a size is above the most.
pub const VMALLOC_E_TOO_LARGE: i32 = 214;
/// `EEXIST`: another sub-space has that name.
pub const VMALLOC_E_DUPLICATE_NAME: i32 = 215;
/// `EINVAL`: an area has another size than the call names.
pub const VMALLOC_E_WRONG_SIZE: i32 = 216;

/// `ENOSPC`: no free range can hold the request. The detail has the largest.
pub const VMALLOC_E_NO_SPACE: i32 = 301;
/// `EEXIST`: the addresses asked for are not all free. The detail has the area in the way.
pub const VMALLOC_E_OCCUPIED: i32 = 302;
/// `ENOSPC`: every slot of the pool is in use.
pub const VMALLOC_E_EXHAUSTED: i32 = 303;

/// `ENOMEM`: the system has no memory for it.
pub const VMALLOC_E_NO_MEMORY: i32 = 401;
/// `ENOMEM`: no memory for the metadata of the library.
pub const VMALLOC_E_METADATA: i32 = 402;
/// `EDQUOT`: the sub-space would have more mapped than its limit allows.
pub const VMALLOC_E_LIMIT: i32 = 403;
/// `EMFILE`: the limit on mappings of a program is met (`vm.max_map_count`).
pub const VMALLOC_E_MAP_LIMIT: i32 = 404;
/// `ENOMEM`: the limit on addresses is in the way (`RLIMIT_AS`), or the machine has no such room.
pub const VMALLOC_E_ADDRESS_LIMIT: i32 = 405;

/// `EFAULT`: no area holds the address. So is a free of foreign memory, or of memory that was
/// freed and purged.
pub const VMALLOC_E_NOT_AN_AREA: i32 = 501;
/// `EALREADY`: the area was freed before. A free that comes after the addresses were handed out
/// again is not caught.
pub const VMALLOC_E_ALREADY_FREED: i32 = 502;
/// `EINVAL`: the address is inside an area, not at its start.
pub const VMALLOC_E_INTERIOR: i32 = 503;
/// `EINVAL`: the address is not at the start of a page.
pub const VMALLOC_E_UNALIGNED: i32 = 504;
/// `EPERM`: the area is of another kind than the call is for.
pub const VMALLOC_E_WRONG_KIND: i32 = 505;
/// `EINVAL`: another number of pages is mapped there.
pub const VMALLOC_E_WRONG_COUNT: i32 = 506;
/// `ENOENT`: nothing is mapped or committed there.
pub const VMALLOC_E_NOT_MAPPED: i32 = 507;
/// `EEXIST`: something is mapped or committed there already.
pub const VMALLOC_E_MAPPED: i32 = 508;
/// `ENXIO`: a frame is not taken from the supply.
pub const VMALLOC_E_BAD_FRAME: i32 = 509;

/// `EOPNOTSUPP`: the kernel does not have it.
pub const VMALLOC_E_UNSUPPORTED: i32 = 601;
/// `EBUSY`: pages are locked, and may not be unlocked.
pub const VMALLOC_E_LOCKED: i32 = 602;
/// The `errno` of the call that failed, or `EIO`.
pub const VMALLOC_E_SYSTEM: i32 = 603;

/// `EAGAIN`: a call that never waits would have to wait for a lock.
pub const VMALLOC_E_CONTENDED: i32 = 701;
/// `EBUSY`: another thread grows the stack at this moment.
pub const VMALLOC_E_GROWING: i32 = 702;
/// `ENOTRECOVERABLE`: an invariant does not hold. The program should stop.
pub const VMALLOC_E_DAMAGED: i32 = 703;

/// Returns the `errno` of a code. `system` is that of the call that failed.
pub(crate) fn errno_of(code: i32, system: i32) -> i32 {
    match code {
        VMALLOC_E_UNKNOWN_BYTES => E2BIG,
        VMALLOC_E_SIZE_OVERFLOW => EOVERFLOW,
        VMALLOC_E_OUTSIDE | VMALLOC_E_BEYOND | VMALLOC_E_TOO_LARGE => ERANGE,
        VMALLOC_E_DUPLICATE_NAME | VMALLOC_E_OCCUPIED | VMALLOC_E_MAPPED => EEXIST,
        VMALLOC_E_NO_SPACE | VMALLOC_E_EXHAUSTED => ENOSPC,
        VMALLOC_E_NO_MEMORY | VMALLOC_E_METADATA | VMALLOC_E_ADDRESS_LIMIT => ENOMEM,
        VMALLOC_E_LIMIT => EDQUOT,
        VMALLOC_E_MAP_LIMIT => EMFILE,
        VMALLOC_E_NOT_AN_AREA => EFAULT,
        VMALLOC_E_ALREADY_FREED => EALREADY,
        VMALLOC_E_WRONG_KIND => EPERM,
        VMALLOC_E_NOT_MAPPED => ENOENT,
        VMALLOC_E_BAD_FRAME => ENXIO,
        VMALLOC_E_UNSUPPORTED => EOPNOTSUPP,
        VMALLOC_E_LOCKED | VMALLOC_E_GROWING => EBUSY,
        VMALLOC_E_SYSTEM if system > 0 => system,
        VMALLOC_E_SYSTEM => EIO,
        VMALLOC_E_CONTENDED => EAGAIN,
        VMALLOC_E_DAMAGED => ENOTRECOVERABLE,
        _ => EINVAL,
    }
}
