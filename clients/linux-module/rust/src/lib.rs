//! The core of vmalloc behind functions of C: the Rust half of a module of Linux.
//!
//! `kernel/` is the other half. It calls the functions here, and has those that
//! [`linux`] declares. A space *lends* memory, or addresses alone, for a module that maps and
//! unmaps by itself.

#![no_std]

extern crate alloc;

mod linux;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr;
use linux::{Context, Linux};
use vmalloc::{AreaInfo, FreeError, Kind, PageRange, Request, Space, SpaceOptions};
use vmalloc_short::ShortMaps;

/// A space and its short mappings.
pub struct Vm {
    space: Arc<Space<Linux>>,
    shorts: ShortMaps<Arc<Space<Linux>>>,
}

/// Makes a space of `bytes` bytes at `start`. Returns null if there is not the memory for it.
#[unsafe(no_mangle)]
extern "C" fn vm_open(start: usize, bytes: usize, cpus: u32, lends_memory: bool) -> *mut Vm {
    let open = || {
        let span = PageRange::from_len(start as u64 >> 12, bytes as u64 >> 12)?;
        let linux = Linux { span, cpus: cpus as usize, lends_memory };
        // What is freed is never cached: its pages go back with the next flush.
        let space = Arc::new(Space::new(linux, SpaceOptions::default().unmap_on_free()).ok()?);
        let shorts = ShortMaps::of(space.clone()).ok()?;
        Some(Box::into_raw(Box::new(Vm { space, shorts })))
    };
    open().unwrap_or(ptr::null_mut())
}

/// Ends the space. Returns 0, or what was wrong with it: 1 for areas that were never freed, 2 for
/// an invariant that does not hold, which the log tells.
///
/// # Safety
/// `vm_open` made it, and nothing uses it any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn vm_close(vm: *mut Vm) -> u32 {
    // SAFETY: it is the caller's, and was made by `Box::into_raw`.
    let vm = unsafe { Box::from_raw(vm) };
    vm_flush(&vm);
    // Blocks of short mappings are kept for the next ones.
    let is_left = vm.space.areas().any(|area| area.kind != Kind::Tenant);
    let broken = vm.space.verify().map_err(|violation| linux::say(&violation));
    u32::from(is_left) + 2 * u32::from(broken.is_err())
}

/// Unmaps and flushes all that was freed, as `vm_unmap_aliases` does.
#[unsafe(no_mangle)]
extern "C" fn vm_flush(vm: &Vm) {
    // The platform refuses nothing.
    let _ = vm.space.flush();
}

/// Gives all addresses back that are kept for areas of sizes that were freed.
#[unsafe(no_mangle)]
extern "C" fn vm_purge(vm: &Vm) {
    let _ = vm.space.purge();
}

/// Unmaps and flushes what is due: the work that `linux_drain_later` asked for.
#[unsafe(no_mangle)]
extern "C" fn vm_drain(vm: &Vm) {
    let _ = vm.space.drain();
}

/// Returns the address of a new area, whose pages are asked for as the context says; 0 if there is
/// none. A record of 0 is none.
#[unsafe(no_mangle)]
extern "C" fn vm_alloc(vm: &Vm, bytes: usize, align: usize, record: usize, context: Context) -> usize {
    let request = Request::new(bytes).align(align);
    let request = if record == 0 { request } else { request.record(record as u64) };
    let request = if context.may_wait { request } else { request.may_block(false) };
    vm.space.raw().with(context).alloc(&request).unwrap_or(0)
}

/// Frees an area.
///
/// # Safety
/// The area is the caller's, and nothing uses it any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn vm_free(vm: &Vm, addr: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { vm.space.raw().free(addr) }.is_ok()
}

/// Frees an area that has a record, once `unmap` is done with it. Returns the record; 0 if no area
/// starts there.
///
/// # Safety
/// The area is the caller's, and nothing uses it any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn vm_free_with(vm: &Vm, addr: usize, unmap: extern "C" fn(usize)) -> usize {
    let unmap = |area: &AreaInfo| {
        unmap(area.record as usize);
        Ok::<_, FreeError>(area.record as usize)
    };
    // SAFETY: the caller's promise.
    unsafe { vm.space.raw().free_with(addr, unmap) }.unwrap_or(0)
}

/// Returns addresses for frames of the caller's, for a short while; 0 if there are none.
#[unsafe(no_mangle)]
extern "C" fn vm_short(vm: &Vm, pages: u64) -> usize {
    vm.shorts.reserve(pages).unwrap_or(0)
}

/// Returns such addresses.
///
/// # Safety
/// The caller has unmapped them.
#[unsafe(no_mangle)]
unsafe extern "C" fn vm_short_end(vm: &Vm, addr: usize, pages: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { vm.shorts.unreserve(addr, pages) }.is_ok()
}
