//! Reserving the span, and finding the means that this kernel has.
//!
//! A reservation costs one mapping and no memory: it is inaccessible, and not counted by any
//! overcommit mode. Its size may be limited by the width of addresses (47 bits on x86-64, 39 on
//! small machines) and by `RLIMIT_AS`, so smaller sizes are tried in turn. The means are probed on
//! the first page of the span itself: means that work there work on the rest.

use crate::beacon::Entry;
use crate::drain::DrainThread;
use crate::error::ReserveError;
use crate::events;
use crate::fork::hooks;
use crate::frames::supply::Supply;
use crate::frames::table::Table;
use crate::guard::Guarding;
use crate::guard::dumps::Dumps;
use crate::guard::mprotect::Mprotect;
use crate::guard::pte::PteMarkers;
use crate::guard::userfault::Userfault;
use crate::means::GuardMeans;
use crate::options::{Left, LinuxOptions, Sizes};
use crate::os::batch::BatchRoom;
use crate::os::cpu::{self, CpuHint};
use crate::os::huge_pages::HugePages;
use crate::os::limits;
use crate::os::madvise::{Advice, advise_some};
use crate::os::pagemap::Pagemap;
use crate::os::reservation::{Access, Mapping, Reservation};
use crate::page_size::page_bytes;
use crate::platform::Linux;
use crate::populate::Population;
use crate::window::{Window, anywhere};
use rustix::io::Errno;
use std::sync::{Arc, OnceLock};
use vmalloc::{PageRange, PlatformError, SpaceOptions};

/// The memory that is kept of freed areas where frees trap at once, by default.
const STASH_BYTES: usize = 64 << 20;

impl Linux {
    /// Reserves a span of addresses, and chooses how to guard and purge it, as suits a space of
    /// these options. A few system calls, however large the span; no memory.
    ///
    /// Where frees [trap at once](SpaceOptions::trap_on_free), [`GuardMeans::Userfault`] costs least
    /// and is probed first. It keeps up to [`SpaceOptions::cache_bytes`], by default 64 MiB, of
    /// memory of areas that were filled and freed, for new ones, whose content is any then. With 0
    /// it keeps none. Where there are no addresses for it, it keeps up to a half, a quarter … of
    /// that. The memory decays with the drain of the space, and goes where memory is short. A free
    /// traps at once with guards by any means.
    ///
    /// # Errors
    /// When the sizes make no sense, when too few addresses can be had, or when the kernel refuses
    /// the means asked for.
    pub fn reserve(options: LinuxOptions, space: &SpaceOptions) -> Result<Self, ReserveError> {
        let machine = page_bytes();
        let page_bytes = options.page_bytes.unwrap_or(machine);
        let sizes = options.sizes(page_bytes, left(machine))?;
        hooks::install().map_err(|errno| system("pthread_atfork", errno))?;
        let asked = options.asked_bytes(sizes);
        let mapping = reserve_largest(sizes, &options.window(page_bytes)?, machine)?;
        events::reservation(asked, mapping.bytes());
        let bytes = mapping.bytes();
        let room = BatchRoom::new().map_err(|errno| system("mmap", errno))?;
        let memory = Reservation::new(mapping, page_bytes, room);
        let mut memory = memory.ok_or(ReserveError::TooLarge { bytes })?;
        unlock(&memory);
        let (cpu, cpus) = (CpuHint::detect(), cpu::cpus());
        let wanted = Wanted { options: &options, space, cpus };
        let guarding = choose_guards(&memory, &wanted)?;
        if let Some(name) = options.name {
            memory.set_name(name);
        }
        if !options.huge_pages {
            // A kernel without huge pages has no such advice either.
            let _ = memory.advise(memory.span(), Advice::NoHugePage);
        }
        memory.advise(memory.span(), Advice::DontDump).map_err(unsupported)?;
        let dumps = (options.dump && guarding.kind() != GuardMeans::PteMarkers)
            .then(|| Dumps::new(memory.span()).map_err(|errno| system("mmap", errno)));
        if takes_batches(&memory) {
            memory.set_batches();
        }
        let table = Table::new(memory.span()).map_err(|errno| system("mmap", errno))?;
        let supply = options
            .frame_sizes(page_bytes, left(machine))?
            .and_then(|sizes| reserve_supply(sizes, page_bytes, machine));
        if let Guarding::Userfault(userfault) = &guarding {
            hooks::add(Arc::downgrade(userfault.shared()));
        }
        let populates = options.populate && guarding.kind() != GuardMeans::Userfault;
        let population = populates.then(Box::<Population>::default);
        Ok(Self {
            guarding,
            dumps: dumps.transpose()?,
            memory,
            asked,
            table,
            supply,
            huge: HugePages::default(),
            population,
            pagemap: Pagemap::default(),
            cpu,
            cpus,
            drain_thread: DrainThread::default(),
            beacon: Entry::default(),
            records: OnceLock::new(),
        })
    }
}

/// Reserves the first of `sizes` that can be had.
fn reserve_largest(sizes: Sizes, window: &Window, page_bytes: usize) -> Result<Mapping, ReserveError> {
    let mut refused = (0, Errno::NOMEM);
    for bytes in sizes.capped(half_of_the_rest(page_bytes)) {
        match window.reserve(bytes) {
            Ok(mapping) => return Ok(mapping),
            Err(errno) => refused = (bytes, errno),
        }
    }
    let (bytes, errno) = refused;
    Err(if errno == Errno::EXIST { window.refusal(bytes) } else { refusal(bytes, page_bytes, errno) })
}

/// Reserves the first of `sizes` that can be had for frames. Half of the rest again: a quarter of
/// it all at most.
fn reserve_supply(sizes: Sizes, page_bytes: usize, machine: usize) -> Option<Supply> {
    let cap = half_of_the_rest(machine);
    sizes.filter(|&bytes| bytes <= cap).find_map(|bytes| Supply::new(bytes, page_bytes).ok())
}

/// Returns half of the addresses that the limit still allows. Taking all would leave nothing for
/// the rest of the program.
fn half_of_the_rest(page_bytes: usize) -> usize {
    usize::try_from(left(page_bytes).limit / 2).unwrap_or(usize::MAX)
}

/// Returns the addresses that the program has left.
fn left(page_bytes: usize) -> Left {
    let used = limits::used_bytes(page_bytes);
    Left {
        machine: limits::machine_bytes().saturating_sub(used),
        limit: limits::address_space_bytes().map_or(u64::MAX, |limit| limit.saturating_sub(used)),
    }
}

/// Returns the error for `bytes` that could not be reserved: the limit, if they would pass it.
fn refusal(bytes: usize, page_bytes: usize, errno: Errno) -> ReserveError {
    let used = limits::used_bytes(page_bytes);
    match limits::address_space_bytes() {
        Some(limit) if errno == Errno::NOMEM && used.saturating_add(bytes as u64) > limit => {
            ReserveError::AddressSpaceLimit { bytes, used, limit }
        }
        _ => ReserveError::NoRoom { bytes, largest: anywhere().largest(), code: errno.raw_os_error() },
    }
}

/// Unlocks the span. A program may lock all its memory in advance (mlockall(2)), which is not meant
/// for bare addresses. If they can't be unlocked, the probes tell.
fn unlock(memory: &Reservation) {
    let _ = memory.advise(memory.span(), Advice::DontNeed);
}

/// The options that the guards have to suit.
struct Wanted<'a> {
    options: &'a LinuxOptions,
    space: &'a SpaceOptions,
    cpus: usize,
}

fn choose_guards(memory: &Reservation, wanted: &Wanted<'_>) -> Result<Guarding, ReserveError> {
    let probe = |guards| probe_guards(memory, guards, wanted);
    if let Some(guards) = wanted.options.guard_means {
        return probe(guards);
    }
    let trapping = wanted.space.trap_on_free.then_some(GuardMeans::Userfault);
    // The last needs the least: its refusal is the one to report.
    let mut refused = ReserveError::ZeroSize;
    for guards in trapping.into_iter().chain([GuardMeans::PteMarkers, GuardMeans::Mprotect]) {
        match probe(guards) {
            Err(error @ ReserveError::Unsupported { .. }) if !is_for_the_moment(&error) => refused = error,
            chosen => return chosen,
        }
    }
    Err(refused)
}

/// Returns true for a refusal that says nothing of what the kernel has: memory is short.
fn is_for_the_moment(refusal: &ReserveError) -> bool {
    let short = [Errno::NOMEM, Errno::AGAIN].map(Errno::raw_os_error);
    matches!(refusal, ReserveError::Unsupported { code, .. } if short.contains(code))
}

/// Tries these guards. A probe that is refused leaves nothing: the span is mapped again.
fn probe_guards(
    memory: &Reservation,
    guards: GuardMeans,
    wanted: &Wanted<'_>,
) -> Result<Guarding, ReserveError> {
    try_guards(memory, guards, wanted).or_else(|refused| {
        let renewed = memory.replace(memory.span(), Access::None);
        renewed.map_err(|errno| system("mmap of the span", errno))?;
        unlock(memory);
        Err(refused)
    })
}

fn try_guards(
    memory: &Reservation,
    guards: GuardMeans,
    wanted: &Wanted<'_>,
) -> Result<Guarding, ReserveError> {
    let page = first_page(memory);
    let advices: &[_] = match guards {
        GuardMeans::PteMarkers => &[Advice::DontNeed, Advice::GuardInstall, Advice::GuardRemove],
        GuardMeans::Mprotect | GuardMeans::Userfault => &[Advice::DontNeed],
    };
    advices.iter().try_for_each(|advice| memory.advise(page, *advice)).map_err(unsupported)?;
    if guards != GuardMeans::PteMarkers {
        // Marks see to it themselves: they are written to the mapping that has them.
        memory.join_mappings().map_err(|errno| system("mprotect of the span", errno))?;
    }
    Ok(match guards {
        GuardMeans::PteMarkers => {
            let markers = PteMarkers::new(memory.span(), wanted.options.dump);
            Guarding::PteMarkers(markers.map_err(|errno| system("mmap", errno))?)
        }
        GuardMeans::Mprotect => Guarding::Mprotect(Mprotect),
        GuardMeans::Userfault => {
            let space = wanted.space;
            let stash_bytes = if space.trap_on_free { space.cache_bytes.unwrap_or(STASH_BYTES) } else { 0 };
            Userfault::new(memory, stash_bytes, wanted.cpus)
                .map(Guarding::Userfault)
                .map_err(|(means, errno)| ReserveError::Unsupported { means, code: errno.raw_os_error() })?
        }
    })
}

/// Returns whether one call advises about many runs. Older kernels, and sandboxes, refuse
/// that.
fn takes_batches(memory: &Reservation) -> bool {
    let run = memory.run(first_page(memory));
    // SAFETY: `advise_some` asks that the run is mapped and its content may go: it is a page of our
    // own mapping, which is not in use yet.
    let advised = unsafe { advise_some(&[run], Advice::DontNeed) };
    advised == Ok(run.iov_len)
}

fn first_page(memory: &Reservation) -> PageRange {
    let span = memory.span();
    PageRange::from_len(span.start(), 1).unwrap_or(span)
}

fn system(call: &'static str, errno: Errno) -> ReserveError {
    ReserveError::System { call, code: errno.raw_os_error() }
}

fn unsupported(error: PlatformError) -> ReserveError {
    ReserveError::Unsupported { means: error.call, code: error.code }
}
