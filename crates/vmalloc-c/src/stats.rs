//! Counts of a space and of its nodes.

use crate::answer::{self, Argument, Refusal, given};
use crate::error::vmalloc_error;
use crate::input::{Versioned, told};
use crate::space::{on, vmalloc_space};
use libc::c_int;
use vmalloc_linux::{NodeStats, Stats};

/// Counts of a space: pages unless the name says otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_stats {
    /// `sizeof(vmalloc_stats)`: `VMALLOC_STATS_INIT` sets it.
    pub size: usize,
    /// Pages of all addresses: the sum of free, busy, lazy, cached and pooled ones.
    pub span_pages: u64,
    /// Areas handed out.
    pub busy_areas: u64,
    /// Pages handed out, guards included.
    pub busy_pages: u64,
    /// Areas freed and not yet purged.
    pub lazy_areas: u64,
    /// Pages freed and not yet purged.
    pub lazy_pages: u64,
    /// Areas among the lazy ones that the system has refused to unmap.
    pub refused_areas: u64,
    /// Pages of these.
    pub refused_pages: u64,
    /// Blocks of short mappings that the system has refused to unmap something of.
    pub refused_blocks: u64,
    /// Parts of areas in use that the system has refused to unmap.
    pub pending_ranges: u64,
    /// Frees so far that were to trap at once, and became lazy.
    pub late_frees: u64,
    /// Areas freed that keep their memory.
    pub cached_areas: u64,
    /// Pages of these.
    pub cached_pages: u64,
    /// Areas among the cached ones that wait in no node: large ones.
    pub large_areas: u64,
    /// Pages of these.
    pub large_pages: u64,
    /// Areas flushed whose addresses wait in a node for reuse.
    pub pooled_areas: u64,
    /// Pages of these.
    pub pooled_pages: u64,
    /// Free pages.
    pub free_pages: u64,
    /// Pages of the largest free range.
    pub largest_free_pages: u64,
    /// Sets purged so far.
    pub purges: u64,
    /// Areas purged so far.
    pub purged_areas: u64,
    /// The most areas that a purge handled under one hold of a lock.
    pub longest_hold_areas: u64,
    /// Blocks of short mappings.
    pub blocks: u64,
    /// Blocks made so far.
    pub blocks_made: u64,
    /// Blocks given up so far.
    pub blocks_freed: u64,
    /// Bytes of metadata.
    pub metadata_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

// SAFETY: `repr(C)`, numbers of eight bytes, the size first.
unsafe impl Versioned for vmalloc_stats {
    const FIRST: usize = 27 * 8;
}

const _: () = assert!(size_of::<vmalloc_stats>() == 27 * 8);

told! {
    Stats => vmalloc_stats, stats;
    span_pages, busy_areas, busy_pages, lazy_areas, lazy_pages, refused_areas, refused_pages, pending_ranges,
    late_frees, cached_areas, cached_pages, large_areas, large_pages, pooled_areas, pooled_pages, free_pages,
    largest_free_pages, purges, purged_areas, longest_hold_areas, metadata_bytes;
    refused_blocks: stats.refused_parts, blocks: stats.tenant_areas, blocks_made: stats.tenant_areas_made,
    blocks_freed: stats.tenant_areas_freed, page_bytes: answer::page_bytes() as u64,
}

/// Counts of one node: pages unless the name says otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_node_stats {
    /// `sizeof(vmalloc_node_stats)`: `VMALLOC_NODE_STATS_INIT` sets it.
    pub size: usize,
    /// Areas freed on it and not purged yet.
    pub lazy_areas: u64,
    /// Areas freed on it that keep their memory.
    pub cached_areas: u64,
    /// Pages of these.
    pub cached_pages: u64,
    /// Areas whose addresses wait in it.
    pub pooled_areas: u64,
    /// Pages of these.
    pub pooled_pages: u64,
}

// SAFETY: `repr(C)`, numbers of eight bytes, the size first.
unsafe impl Versioned for vmalloc_node_stats {
    const FIRST: usize = 6 * 8;
}

told! {
    NodeStats => vmalloc_node_stats, stats; lazy_areas, cached_areas, cached_pages, pooled_areas, pooled_pages;
}

/// Tells the counts of a space. Each is right for some moment during the call.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_get_stats(
    space: *const vmalloc_space,
    stats: *mut vmalloc_stats,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code > stats, detail; space => on!(&space.0, it => it.stats()))
}

/// Returns how many nodes a space has, and 0 for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_node_count(space: *const vmalloc_space) -> usize {
    // SAFETY: the conditions of every call.
    unsafe { given(space) }.map_or(0, |space| on!(&space.0, it => it.node_stats().len()))
}

/// Tells the counts of the node `node`, counted from 0.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_get_node_stats(
    space: *const vmalloc_space,
    node: usize,
    stats: *mut vmalloc_node_stats,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code > stats, detail; space => {
        let (found, nodes) = on!(&space.0, it => {
            let mut all = it.node_stats();
            let nodes = all.len();
            (all.nth(node), nodes)
        });
        let refused = || Refusal::from(vmalloc_linux::RequestError::NoSuchNode { node, nodes });
        found.ok_or_else(refused)?
    })
}

/// Writes a number where the caller wants it.
///
/// # Safety
/// `to` is null, or may be written.
pub(crate) unsafe fn tell<T>(to: *mut T, value: T) -> Result<(), Refusal> {
    if to.is_null() {
        return Err(Argument::Null.into());
    }
    // SAFETY: the caller's condition.
    unsafe { to.write(value) };
    Ok(())
}

/// Tells a value, unless the caller does not ask for it.
///
/// # Safety
/// `to` is null, or may be written.
pub(crate) unsafe fn tell_if_asked<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's condition.
        unsafe { to.write(value) };
    }
}
