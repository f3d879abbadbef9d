//! Messages, made of the figures.

use super::vmalloc_error;
use crate::code::*;
use std::fmt::Write as _;

/// Returns the message of an error, without a newline.
pub(super) fn of(error: &vmalloc_error) -> String {
    let mut text = match error.family {
        VMALLOC_FAMILY_ARGUMENT => of_argument(error),
        VMALLOC_FAMILY_REQUEST => of_request(error),
        VMALLOC_FAMILY_ROOM => of_room(error),
        VMALLOC_FAMILY_MEMORY => of_memory(error),
        VMALLOC_FAMILY_AREA => of_area(error),
        VMALLOC_FAMILY_SYSTEM => of_system(error),
        VMALLOC_FAMILY_STATE => of_state(error),
        _ if error.code == 0 => "no error".to_owned(),
        _ => format!("error {}", error.code),
    };
    if error.system_errno != 0 {
        let call = call(error);
        let call = if call.is_empty() { "a system call" } else { &call };
        let _ = write!(text, " ({call}: errno {})", error.system_errno);
    }
    text
}

fn call(error: &vmalloc_error) -> String {
    let bytes = error.call.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

fn range(error: &vmalloc_error) -> String {
    format!("{:#x}..{:#x}", error.range_start, error.range_end)
}

fn other(error: &vmalloc_error) -> String {
    format!("{:#x}..{:#x}", error.other_start, error.other_end)
}

fn of_argument(error: &vmalloc_error) -> String {
    let number = error.requested;
    match error.code {
        VMALLOC_E_NULL => "a pointer is NULL".to_owned(),
        VMALLOC_E_STRUCT_SIZE => format!("a struct of {number} bytes is of no version"),
        VMALLOC_E_UNKNOWN_BYTES => {
            format!("byte {number} of a struct is set, and this version does not know it")
        }
        VMALLOC_E_FLAGS => format!("flags {number:#x} are unknown, or exclude each other"),
        VMALLOC_E_NAME => "a name is missing, or is not UTF-8".to_owned(),
        _ => format!("{number} is no value that this version knows"),
    }
}

fn of_request(error: &vmalloc_error) -> String {
    let (asked, limit, align) = (error.requested, error.limit, error.alignment);
    match error.code {
        VMALLOC_E_ZERO_SIZE => "the size is zero".to_owned(),
        VMALLOC_E_SIZE_OVERFLOW => format!("a size of {asked} bytes is not representable"),
        VMALLOC_E_ALIGN if align.is_power_of_two() => {
            format!("an alignment of {align} is not one that this call allows")
        }
        VMALLOC_E_ALIGN => format!("an alignment of {align} is not a power of two"),
        VMALLOC_E_PHASE => format!("a phase of {asked} is not below the alignment of {align}"),
        VMALLOC_E_BOUNDARY => format!("a boundary of {limit} is not a power of two of at least {asked}"),
        VMALLOC_E_NODE => format!("there is no node {asked}: there are {limit}"),
        VMALLOC_E_LIMITS => format!("the limits {} hold no page", range(error)),
        VMALLOC_E_OUTSIDE => format!("{} is not inside {}", range(error), other(error)),
        VMALLOC_E_NOT_PAGES => format!("{asked} or {} is not in whole pages", range(error)),
        VMALLOC_E_BEYOND if error.other_end > 0 => {
            format!("{} is not inside the area {}", range(error), other(error))
        }
        VMALLOC_E_BEYOND => format!("{asked} bytes are more than the {limit} that it can have"),
        VMALLOC_E_OVERLAP => format!("ranges overlap: {} and {}", range(error), other(error)),
        VMALLOC_E_COUNT => format!("a count of {asked} is not allowed here"),
        VMALLOC_E_TOO_SMALL => format!("{asked} bytes are below the least, {limit}"),
        VMALLOC_E_TOO_LARGE => format!("{asked} is above the most, {limit}"),
        VMALLOC_E_DUPLICATE_NAME => format!("another sub-space has that name, at {}", other(error)),
        _ => format!("the area {} has another size than {asked}", other(error)),
    }
}

fn of_room(error: &vmalloc_error) -> String {
    match error.code {
        VMALLOC_E_NO_SPACE => format!(
            "no {} bytes free, aligned to {}, within {}; the largest free range anywhere has {}: free some, \
             or widen the limits",
            error.requested,
            error.alignment,
            range(error),
            error.largest_free
        ),
        VMALLOC_E_OCCUPIED => format!("{} is not all free: {} is taken", range(error), other(error)),
        _ => format!("all {} slots are in use", error.limit),
    }
}

fn of_memory(error: &vmalloc_error) -> String {
    let asked = error.requested;
    match error.code {
        VMALLOC_E_NO_MEMORY => format!("no memory behind {asked} bytes"),
        VMALLOC_E_METADATA => "no memory for metadata".to_owned(),
        VMALLOC_E_LIMIT => format!("{asked} bytes more would pass the limit of the sub-space"),
        VMALLOC_E_MAP_LIMIT => "the program has as many mappings as it may (vm.max_map_count)".to_owned(),
        _ if error.limit > 0 => format!("{asked} bytes of addresses would pass RLIMIT_AS, {}", error.limit),
        _ => format!("no room for {asked} bytes of addresses"),
    }
}

fn of_area(error: &vmalloc_error) -> String {
    let addr = error.addr;
    match error.code {
        VMALLOC_E_NOT_AN_AREA => format!("{addr:#x} is in no area"),
        VMALLOC_E_ALREADY_FREED => format!("{addr:#x} was freed already"),
        VMALLOC_E_INTERIOR => format!("{addr:#x} is inside the area that starts at {:#x}", error.other_start),
        VMALLOC_E_UNALIGNED => format!("{addr:#x} is not at the start of a page"),
        VMALLOC_E_WRONG_KIND => format!("the area at {addr:#x} is of another kind than this call is for"),
        VMALLOC_E_WRONG_COUNT => {
            format!("{} pages are mapped at {addr:#x}, not {}", error.limit, error.requested)
        }
        VMALLOC_E_NOT_MAPPED => format!("nothing that this call is for is mapped at {addr:#x}"),
        VMALLOC_E_MAPPED => format!("something is mapped at {addr:#x} already"),
        _ => format!("frame {:#x} is not taken from the supply", error.requested),
    }
}

fn of_system(error: &vmalloc_error) -> String {
    match error.code {
        VMALLOC_E_UNSUPPORTED => "this kernel does not have it".to_owned(),
        VMALLOC_E_LOCKED => "pages are locked in memory, and may not be unlocked".to_owned(),
        _ => "the system refused".to_owned(),
    }
}

fn of_state(error: &vmalloc_error) -> String {
    match error.code {
        VMALLOC_E_CONTENDED => "it can't be told without waiting for a lock that is held".to_owned(),
        VMALLOC_E_GROWING => "another thread grows the stack at this moment".to_owned(),
        _ => format!("invariant {} does not hold at {:#x}", call(error), error.addr),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Facts;
    use super::*;
    use crate::answer::{self, Refusal};
    use vmalloc_linux::{
        AllocError, AreaError, FreeError, NoSpace, PageRange, PlatformError, PlatformFault, RequestError,
        Unbacked,
    };

    #[test]
    fn messages_have_the_figures() {
        let error = vmalloc_error {
            code: VMALLOC_E_NO_SPACE,
            family: VMALLOC_FAMILY_ROOM,
            requested: 8192,
            alignment: 4096,
            range_start: 0x1000,
            range_end: 0x2000,
            largest_free: 4096,
            ..vmalloc_error::NONE
        };
        let wanted = "no 8192 bytes free, aligned to 4096, within 0x1000..0x2000; the largest free range anywhere has \
             4096: free some, or widen the limits";
        assert_eq!(of(&error), wanted);
        assert_eq!(of(&vmalloc_error::NONE), "no error");
    }

    #[test]
    fn rust_says_the_same() {
        let page = answer::page_bytes();
        let range = |start: u64, end: u64| PageRange::new(start << 12, end << 12).expect("not empty");
        let (asked, by, unit) = (range(4, 9), range(6, 7), "bytes");
        let no_space = NoSpace { size: 8192, align: 1 << 14, within: asked, largest: 4096, unit };
        let cause = PlatformError { call: "mmap", fault: PlatformFault::OutOfMemory, code: 0 };
        let (addr, start) = (7 * page, 5 * page);
        let errors: [AreaError; 20] = [
            RequestError::ZeroSize.into(),
            RequestError::SizeOverflow { bytes: usize::MAX }.into(),
            RequestError::AlignNotPowerOfTwo { align: 3 }.into(),
            RequestError::PhaseTooLarge { phase: 5, align: 4 }.into(),
            RequestError::BadBoundary { boundary: 12, pages: 9 }.into(),
            RequestError::NoSuchNode { node: 4, nodes: 4 }.into(),
            RequestError::LimitsReversed { start: 0x3000, end: 0x1000 }.into(),
            RequestError::OutsideSpace { asked, space: by }.into(),
            FreeError::NotAnArea { addr }.into(),
            FreeError::Interior { addr, start }.into(),
            FreeError::Unaligned { addr: addr + 1 }.into(),
            FreeError::AlreadyFreed { addr }.into(),
            FreeError::WrongCount { addr, mapped: 3, given: 2 }.into(),
            FreeError::WrongKind { addr }.into(),
            AllocError::from(no_space).into(),
            AllocError::Occupied { asked, by }.into(),
            AreaError::Beyond { asked, area: by },
            AreaError::Overlap { first: asked, second: by },
            AreaError::Mapped { addr },
            AreaError::NotMapped { addr },
        ];
        for error in errors {
            let text = of(&Facts::of(&Refusal::from(error)).finish());
            assert_eq!(text, error.to_string());
        }
        let unbacked = Unbacked { size: 8192, align: 4096, within: asked, largest: 4096, cause };
        let text = of(&Facts::of(&Refusal::from(AllocError::from(unbacked))).finish());
        assert!(unbacked.to_string().starts_with(&format!("{text}: ")), "{text}");
    }

    #[test]
    fn every_code_has_a_message_of_its_own() {
        let families = [101..=106, 201..=216, 301..=303, 401..=405, 501..=509, 601..=603, 701..=703];
        let codes = families.into_iter().flatten();
        let texts: Vec<_> = codes
            .map(|code| of(&vmalloc_error { code, family: code / 100, ..vmalloc_error::NONE }))
            .collect();
        let distinct: std::collections::BTreeSet<_> = texts.iter().collect();
        assert_eq!(distinct.len(), texts.len(), "{texts:#?}");
    }
}
