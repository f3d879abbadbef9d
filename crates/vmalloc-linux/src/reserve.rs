//! Reserving the span, and finding out what this kernel can do with it.
//!
//! A reservation costs one mapping and no memory: it is inaccessible, and not counted by any overcommit mode.
//! What may stand in its way is the width of addresses (47 bits on x86-64, 39 on small machines) and
//! `RLIMIT_AS`, so smaller sizes are tried in turn. The means are probed on the first page of the span
//! itself: what works there works on the rest.

use crate::advise::{Advice, Sender};
use crate::cpu::{self, CpuHint};
use crate::drainer::DrainThread;
use crate::error::ReserveError;
use crate::fork;
use crate::huge::HugePages;
use crate::islands::Islands;
use crate::limits;
use crate::markers::Markers;
use crate::memory::{Access, Mapping, Memory};
use crate::options::{Guards, Options, Sizes, Vectors};
use crate::platform::{Guarding, Linux};
use crate::supply::Supply;
use crate::table::Table;
use rustix::io::Errno;
use vmalloc::{PageRange, PlatformError};

impl Linux {
    /// Reserves a span of addresses, and chooses how to guard and purge it. A few system calls, however large the span;
    /// no memory.
    ///
    /// # Errors
    /// When the sizes make no sense, when not even the minimum can be had, or when the kernel refuses the
    /// means asked for.
    pub fn reserve(options: Options) -> Result<Self, ReserveError> {
        let page_bytes = rustix::param::page_size();
        let sizes = options.sizes(page_bytes)?;
        fork::install().map_err(|errno| system("pthread_atfork", errno))?;
        let mapping = reserve_largest(sizes, page_bytes)?;
        let (bytes, sender) = (mapping.bytes(), Sender::new(Vectors::Loop));
        let mut memory = Memory::new(mapping, page_bytes, sender).ok_or(ReserveError::TooLarge { bytes })?;
        // A program may lock all its memory in advance (mlockall(2)): addresses are not meant by that. If they can't be
        // unlocked, the probes tell.
        let _ = memory.advise(memory.span(), Advice::DontNeed);
        let guarding = choose_guards(&memory, options.guards)?;
        let sender = choose_vectors(&memory, options.vectors)?;
        memory.set_sender(sender);
        let table = Table::new(memory.span()).map_err(|errno| system("mmap", errno))?;
        let supply = options.frame_sizes(page_bytes)?.and_then(|sizes| reserve_supply(sizes, page_bytes));
        let (cpu, cpus) = (CpuHint::detect(), cpu::cpus());
        Ok(Self {
            memory,
            guarding,
            table,
            supply,
            huge: HugePages::default(),
            cpu,
            cpus,
            drain_thread: DrainThread::default(),
        })
    }
}

/// The first of `sizes` that can be had.
fn reserve_largest(sizes: Sizes, page_bytes: usize) -> Result<Mapping, ReserveError> {
    let mut refused = ReserveError::ZeroSize;
    for bytes in sizes.capped(half_of_what_is_left(page_bytes)) {
        match Mapping::new(bytes, Access::None) {
            Ok(mapping) => return Ok(mapping),
            Err(errno) => refused = refusal(bytes, page_bytes, errno),
        }
    }
    Err(refused)
}

/// The first of `sizes` that can be had for frames. Half of what is left again: a quarter of it all at most.
fn reserve_supply(sizes: Sizes, page_bytes: usize) -> Option<Supply> {
    let cap = half_of_what_is_left(page_bytes);
    sizes.filter(|&bytes| bytes <= cap).find_map(|bytes| Supply::new(bytes, page_bytes).ok())
}

/// Taking all that the limit on addresses allows would leave nothing for the rest of the program.
fn half_of_what_is_left(page_bytes: usize) -> usize {
    let half = limits::address_space_bytes()
        .map_or(u64::MAX, |limit| limit.saturating_sub(limits::used_bytes(page_bytes)) / 2);
    usize::try_from(half).unwrap_or(usize::MAX)
}

/// Why `bytes` could not be reserved: the limit, if they would pass it.
fn refusal(bytes: usize, page_bytes: usize, errno: Errno) -> ReserveError {
    let used = limits::used_bytes(page_bytes);
    match limits::address_space_bytes() {
        Some(limit) if errno == Errno::NOMEM && used.saturating_add(bytes as u64) > limit => {
            ReserveError::AddressSpaceLimit { bytes, used, limit }
        }
        _ => ReserveError::NoRoom { bytes, code: errno.raw_os_error() },
    }
}

fn choose_guards(memory: &Memory, wanted: Option<Guards>) -> Result<Guarding, ReserveError> {
    match wanted {
        Some(guards) => probe_guards(memory, guards),
        // The last needs the least: its refusal is the one to report.
        None => probe_guards(memory, Guards::Markers).or_else(|_| probe_guards(memory, Guards::Islands)),
    }
}

fn probe_guards(memory: &Memory, guards: Guards) -> Result<Guarding, ReserveError> {
    let page = first_page(memory);
    let advices: &[_] = match guards {
        Guards::Markers => &[Advice::DontNeed, Advice::GuardInstall, Advice::GuardRemove],
        Guards::Islands => &[Advice::DontNeed],
    };
    advices.iter().try_for_each(|advice| memory.advise(page, *advice)).map_err(unsupported)?;
    Ok(match guards {
        Guards::Markers => {
            Guarding::Markers(Markers::new(memory.span()).map_err(|errno| system("mmap", errno))?)
        }
        Guards::Islands => Guarding::Islands(Islands),
    })
}

fn choose_vectors(memory: &Memory, wanted: Option<Vectors>) -> Result<Sender, ReserveError> {
    match wanted {
        Some(vectors) => probe_vectors(memory, vectors),
        None => probe_vectors(memory, Vectors::PidfdSelf)
            .or_else(|_| probe_vectors(memory, Vectors::Pidfd))
            .or_else(|_| probe_vectors(memory, Vectors::Loop)),
    }
}

fn probe_vectors(memory: &Memory, vectors: Vectors) -> Result<Sender, ReserveError> {
    let sender = Sender::new(vectors);
    if vectors == Vectors::Loop {
        return Ok(sender);
    }
    let run = memory.run(first_page(memory));
    // SAFETY: a page of our own mapping, which nobody uses yet.
    match unsafe { sender.advise_some(&[run], Advice::DontNeed) } {
        Ok(bytes) if bytes == run.iov_len => Ok(sender),
        Ok(_) => Err(ReserveError::Unsupported { means: "process_madvise on its caller", code: 0 }),
        Err(errno) => {
            let code = errno.raw_os_error();
            Err(ReserveError::Unsupported { means: "process_madvise on its caller", code })
        }
    }
}

fn first_page(memory: &Memory) -> PageRange {
    let span = memory.span();
    PageRange::from_len(span.start(), 1).unwrap_or(span)
}

fn system(call: &'static str, errno: Errno) -> ReserveError {
    ReserveError::System { call, code: errno.raw_os_error() }
}

fn unsupported(error: PlatformError) -> ReserveError {
    ReserveError::Unsupported { means: error.call, code: error.code }
}
