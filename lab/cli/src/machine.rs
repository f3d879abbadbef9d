//! The space that the commands run on, and facts of the machine below it.

use crate::borrowed_frames::Lender;
use crate::cases;
use crate::error::Failure;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::sync::Arc;
use vmalloc::MAX_NODES;
use vmalloc::{Platform, SpaceOptions, Stats};
use vmalloc_linux::{Error, GuardMeans, LinuxOptions, SharedSpace, open};
use vmalloc_short::ShortMaps;

/// The treatment of freed areas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Strategy {
    /// Keep their pages for reuse, within a budget: fast
    #[default]
    Retain,
    /// Unmap them at the next purge: a use after free traps
    Unmap,
}

/// How guard pages are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum GuardChoice {
    /// By marks in the page tables (Linux 6.13 or later)
    Markers,
    /// By inaccessible mappings (any Linux), of which there may be vm.max_map_count
    Mprotect,
}

/// Options of the space.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct MachineOptions {
    /// How freed areas are treated
    #[arg(long, value_enum, default_value_t)]
    pub(crate) strategy: Strategy,
    /// How guard pages are made [default: the best that the kernel has]
    #[arg(long, value_enum)]
    pub(crate) guards: Option<GuardChoice>,
    /// Nodes of the space: CPUs that share none never wait for each other [default: one for each
    /// CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_NODES as u64))]
    pub(crate) nodes: Option<u64>,
}

/// Mappings that an area takes where guard pages are mappings: its own and its guard page's.
const MAPPINGS_EACH: u64 = 2;

/// A space of Linux memory, with what the cases need to know of it.
pub(crate) struct Machine {
    /// The space.
    pub(crate) space: SharedSpace,
    /// Its short mappings.
    pub(crate) short: ShortMaps<SharedSpace>,
    /// Its frames on loan.
    pub(crate) lender: Lender,
    /// Bytes of a page.
    pub(crate) page_bytes: usize,
    /// Lazy pages that start a drain.
    pub(crate) lazy_max_pages: u64,
}

impl Machine {
    /// Reserves the default span, and opens a space on it that a thread of its own drains.
    pub(crate) fn new(options: MachineOptions) -> Result<Self, Failure> {
        let reservation = match options.guards {
            None => LinuxOptions::new(),
            Some(GuardChoice::Markers) => LinuxOptions::new().guard_means(GuardMeans::PteMarkers),
            Some(GuardChoice::Mprotect) => LinuxOptions::new().guard_means(GuardMeans::Mprotect),
        };
        let space_options = SpaceOptions::default().nodes(options.nodes.unwrap_or(0) as usize);
        let space_options = match options.strategy {
            Strategy::Retain => space_options,
            Strategy::Unmap => space_options.unmap_on_free(),
        };
        let space = open(reservation, space_options).map_err(|error| refused(&error))?;
        let page_bytes = 1usize << space.geometry().page_shift;
        let lazy_max_pages = lazy_max_pages(space.geometry().cpus, page_bytes);
        let short = ShortMaps::of(Arc::clone(&space)).map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self { space, short, lender: Lender::default(), page_bytes, lazy_max_pages })
    }

    /// The most areas that a case may hold in each of `workers`, when some case wants to hold more.
    /// Half of the mappings and of the addresses is left to other areas: those of the loops, and
    /// those that were freed and not yet purged.
    pub(crate) fn most_held(&self, workers: u64) -> Option<u64> {
        let share = |all: u64, each: u64| (all / 2 / each / workers.max(1)).max(1);
        let addresses = share(self.space.geometry().span.len(), cases::PAGES_HELD_EACH);
        let mappings = match self.space.platform().guard_means() {
            GuardMeans::PteMarkers => None,
            _ => max_map_count().map(|limit| share(limit, MAPPINGS_EACH)),
        };
        let most = addresses.min(mappings.unwrap_or(u64::MAX));
        (most < cases::most_wanted(self.lazy_max_pages)).then_some(most)
    }

    /// Returns facts about the machine and the platform's choices.
    pub(crate) fn facts(&self) -> Facts {
        let linux = self.space.platform();
        Facts {
            arch: std::env::consts::ARCH,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| "unknown".into(), |release| release.trim().into()),
            cpus: linux.geometry().cpus,
            nodes: self.space.node_stats().len(),
            page_bytes: self.page_bytes,
            reserved_bytes: linux.reserved_bytes(),
            frame_bytes: linux
                .geometry()
                .linear_map
                .map_or(0, |frames| frames.len() as usize * self.page_bytes),
            guards: format!("{:?}", linux.guard_means()).to_lowercase(),
            batches: linux.purges_in_batches(),
            cache_bytes: self.space.options().cache_bytes.unwrap_or(0),
            lazy_max_pages: self.lazy_max_pages,
        }
    }

    /// The counts of the space.
    pub(crate) fn counts(&self) -> Stats {
        self.space.stats()
    }

    /// Gives everything freed back and checks that nothing is missing. What was found wrong, if
    /// anything.
    pub(crate) fn check_whole(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if let Err(violation) = self.space.verify() {
            complaints.push(format!("the space is damaged: {violation}"));
        }
        if let Err(error) = self.space.purge() {
            complaints.push(format!("the purge failed: {error}"));
        }
        if let Err(violation) = self.space.verify() {
            complaints.push(format!("the space is damaged after the purge: {violation}"));
        }
        let stats = self.space.stats();
        if stats.free_pages != stats.span_pages {
            let (lost, areas) = (stats.span_pages - stats.free_pages, stats.busy_areas);
            complaints.push(format!("{lost} pages did not come back; {areas} areas are still busy"));
        }
        match self.lender.missing(self.space.platform()) {
            0 => {}
            frames => complaints.push(format!("{frames} frames did not come back")),
        }
        complaints
    }
}

fn refused(error: &Error) -> Failure {
    match error {
        Error::Reserve(error) => Failure::new(format!("can't reserve address space: {error}")),
        error => Failure::new(format!("can't make a space: {error}")),
    }
}

/// The library's own default, restated to be known here: Linux's 32 MiB for each bit of the number
/// of CPUs.
fn lazy_max_pages(cpus: usize, page_bytes: usize) -> u64 {
    ((32 << 20) / page_bytes) as u64 * u64::from(usize::BITS - cpus.leading_zeros())
}

/// How many mappings this program has; 0 where the kernel does not tell.
pub(crate) fn map_count() -> u64 {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count() as u64)
}

/// How many mappings a program may have, where the kernel tells.
pub(crate) fn max_map_count() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}

/// Facts to read the results of a run with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    /// The architecture.
    pub(crate) arch: &'static str,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// CPUs that the platform knows.
    pub(crate) cpus: usize,
    /// Nodes of the space.
    pub(crate) nodes: usize,
    /// Bytes of a page.
    pub(crate) page_bytes: usize,
    /// Bytes of addresses reserved.
    pub(crate) reserved_bytes: usize,
    /// Bytes of addresses for frames.
    pub(crate) frame_bytes: usize,
    /// How guard pages are made.
    pub(crate) guards: String,
    /// True if one call of the kernel purges many ranges.
    pub(crate) batches: bool,
    /// Bytes of freed areas that may keep their pages.
    pub(crate) cache_bytes: usize,
    /// Lazy pages that start a drain.
    pub(crate) lazy_max_pages: u64,
}
