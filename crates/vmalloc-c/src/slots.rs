//! Slots: reservations of one size with a small head of memory.

use crate::answer::{self, Argument, Refusal, given, given_mut};
use crate::error::vmalloc_error;
use crate::input::{self, Versioned, told};
use crate::space::{Of, Part, Whole, make_on, on, vmalloc_space};
use ::vmalloc_slots::{BeyondHead, Dirty, Slot, Slots, SlotsOptions, SlotsStats};
use libc::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

/// A pool of slots. Any thread may use it.
pub struct vmalloc_slots(Of<Pool<Whole>, Pool<Part>>);

/// A pool, which its slots keep.
type Pool<S> = Arc<Slots<S>>;

/// A slot: fixed addresses, of which the first are memory.
pub struct vmalloc_slot(Of<Slot<Pool<Whole>>, Slot<Pool<Part>>>);

/// Memory beyond the head stays committed when a slot is freed.
pub const VMALLOC_SLOTS_COMMIT_BEYOND_HEAD: u32 = 1;
/// Commit no head.
pub const VMALLOC_SLOTS_NO_HEAD: u32 = 2;
/// Have no guards in front of slots and behind them.
pub const VMALLOC_SLOTS_NO_GUARDS: u32 = 4;
/// Keep no memory of a slot that was freed.
pub const VMALLOC_SLOTS_KEEP_NOTHING: u32 = 8;

/// The options of a pool of slots. Zero is the default of each but `slot_bytes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_slots_options {
    /// `sizeof(vmalloc_slots_options)`: `VMALLOC_SLOTS_OPTIONS_INIT` sets it.
    pub size: usize,
    /// Bytes of a slot: how far it can grow. Not 0.
    pub slot_bytes: usize,
    /// Bytes that are memory when a slot is handed out: 64 KiB by default.
    pub head_bytes: usize,
    /// Bytes in front of a slot that trap: a page by default.
    pub guard_before_bytes: usize,
    /// Bytes behind a slot that trap: a page by default.
    pub guard_after_bytes: usize,
    /// The most slots at once: 65,536 by default.
    pub max_slots: usize,
    /// Memory that one free slot may keep: 1 MiB by default.
    pub keep_bytes: usize,
    /// Memory that all free slots may keep: 64 MiB by default. As much again may wait to be reset.
    pub resident_bytes: usize,
    /// Any of `VMALLOC_SLOTS_...`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, numbers, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_slots_options {
    const FIRST: usize = 72;
}

const _: () = assert!(size_of::<vmalloc_slots_options>() == 8 * 8 + 2 * 4);

impl vmalloc_slots_options {
    fn options(&self) -> Result<SlotsOptions, Refusal> {
        let flags = input::flags(self.flags, 15)?;
        if self.reserved != 0 {
            return Err(Argument::Value(self.reserved).into());
        }
        let is_set = |flag| flags & flag != 0;
        let new = SlotsOptions::new(self.slot_bytes);
        // A value, zero by a flag, or the default.
        let choose = |value: usize, none: u32, default: usize| match (value, is_set(none)) {
            (0, true) => Ok(0),
            (0, false) => Ok(default),
            (value, false) => Ok(value),
            (_, true) => Err(Refusal::from(Argument::Flags(flags))),
        };
        Ok(new
            .head_bytes(choose(self.head_bytes, VMALLOC_SLOTS_NO_HEAD, new.head_bytes)?)
            .guard_before_bytes(choose(
                self.guard_before_bytes,
                VMALLOC_SLOTS_NO_GUARDS,
                new.guard_before_bytes,
            )?)
            .guard_after_bytes(choose(
                self.guard_after_bytes,
                VMALLOC_SLOTS_NO_GUARDS,
                new.guard_after_bytes,
            )?)
            .max_slots(choose(self.max_slots, 0, new.max_slots)?)
            .keep_bytes(choose(self.keep_bytes, VMALLOC_SLOTS_KEEP_NOTHING, new.keep_bytes)?)
            .resident_bytes(choose(self.resident_bytes, 0, new.resident_bytes)?)
            .beyond_head(match is_set(VMALLOC_SLOTS_COMMIT_BEYOND_HEAD) {
                true => BeyondHead::Commit,
                false => BeyondHead::Decommit,
            }))
    }
}

/// Counts of a pool of slots.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_slots_stats {
    /// `sizeof(vmalloc_slots_stats)`: `VMALLOC_SLOTS_STATS_INIT` sets it.
    pub size: usize,
    /// Slots that have addresses: in use, free or waiting.
    pub reserved: u64,
    /// Slots that are zero and free.
    pub free: u64,
    /// Slots that wait to be reset.
    pub waiting: u64,
    /// Bytes of memory that free slots keep.
    pub kept_bytes: u64,
    /// Bytes of memory that waiting slots have.
    pub waiting_bytes: u64,
    /// Batches so far.
    pub batches: u64,
    /// Slots that were reset in batches so far.
    pub reset_in_batches: u64,
}

// SAFETY: `repr(C)`, numbers of eight bytes, the size first.
unsafe impl Versioned for vmalloc_slots_stats {
    const FIRST: usize = 64;
}

told! {
    SlotsStats => vmalloc_slots_stats, stats;
    reserved, free, waiting, kept_bytes, waiting_bytes, batches, reset_in_batches;
}

/// Makes a pool of slots on a space, which it keeps.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slots_new(
    space: *mut vmalloc_space,
    options: *const vmalloc_slots_options,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_slots {
    call!(handle, detail; space, options = input::read(options)?.options() => {
        Ok(vmalloc_slots(make_on!(&space.0, it => Arc::new(Slots::new(Arc::clone(it), options)?))))
    })
}

/// Gives the handle of a pool up. The pool ends with its last slot. `NULL` is allowed.
///
/// # Safety
/// The program uses the handle no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slots_free(slots: *mut vmalloc_slots) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(slots) };
}

/// Allocates a slot. Its head reads as zero, and what is not committed traps.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slot_alloc(
    slots: *mut vmalloc_slots,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_slot {
    call!(handle, detail; slots => Ok(vmalloc_slot(make_on!(&slots.0, it => Slot::new(Arc::clone(it))?))))
}

/// Allocates a slot for a user, by a number of the program's: preferably one that this user freed
/// lately.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slot_alloc_for(
    slots: *mut vmalloc_slots,
    user: u64,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_slot {
    call!(handle, detail; slots => {
        Ok(vmalloc_slot(make_on!(&slots.0, it => Slot::new_for(Arc::clone(it), user)?)))
    })
}

/// Returns the address of the first byte of a slot, which never changes. `NULL` for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slot_addr(slot: *const vmalloc_slot) -> *mut c_void {
    // SAFETY: the conditions of every call.
    let addr = unsafe { given(slot) }.map_or(0, |slot| on!(&slot.0, it => it.addr()));
    std::ptr::with_exposed_provenance_mut(addr)
}

/// Returns how far a slot can grow, in bytes, and 0 for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slot_size(slot: *const vmalloc_slot) -> usize {
    // SAFETY: the conditions of every call.
    unsafe { given(slot) }.map_or(0, |slot| on!(&slot.0, it => it.len()))
}

/// Returns how many bytes from the start of a slot are memory, and 0 for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slot_committed(slot: *const vmalloc_slot) -> usize {
    // SAFETY: the conditions of every call.
    unsafe { given(slot) }.map_or(0, |slot| on!(&slot.0, it => it.committed_bytes()))
}

/// Commits all pages of a slot up to byte `bytes`, which read as zero.
///
/// # Safety
/// No other thread uses the handle meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slot_grow(
    slot: *mut vmalloc_slot,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; slot = given_mut(slot) => on!(&mut slot.0, it => Ok(it.grow(bytes)?)))
}

/// Bytes of a slot, counted from its start.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_slot_bytes {
    /// The first byte.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
}

/// The caller's word on what was written: null with a count of 0 is anything.
struct Written {
    ranges: Option<Vec<Range<usize>>>,
}

impl Written {
    /// # Safety
    /// That of [`input::array`].
    unsafe fn read(dirty: *const vmalloc_slot_bytes, count: usize) -> Result<Self, Refusal> {
        if dirty.is_null() && count == 0 {
            return Ok(Self { ranges: None });
        }
        // SAFETY: the caller's condition.
        let given = unsafe { input::array(dirty, count) }?;
        let mut ranges = Vec::new();
        ranges.try_reserve_exact(given.len()).map_err(|_| Refusal::Metadata)?;
        ranges.extend(given.iter().map(|it| it.start..it.end));
        Ok(Self { ranges: Some(ranges) })
    }

    fn dirty(&self) -> Dirty<'_> {
        self.ranges.as_deref().map_or(Dirty::Unknown, Dirty::Ranges)
    }
}

/// Makes all of a slot that is committed read as zero, at once. It stays as large as it has grown.
/// `dirty` has the bytes that may not be zero: `NULL` and 0 are all, and an array of none is
/// nothing.
///
/// # Safety
/// No thread uses the slot meanwhile, and all bytes of it that are not zero are in `dirty`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slot_reset(
    slot: *mut vmalloc_slot,
    dirty: *const vmalloc_slot_bytes,
    count: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; slot = given_mut(slot), written = Written::read(dirty, count) => {
        // SAFETY: the caller's condition.
        on!(&mut slot.0, it => Ok(unsafe { it.reset(written.dirty()) }?))
    })
}

/// Frees a slot, on any thread. `dirty` is as for `vmalloc_slot_reset`. A `NULL` slot is allowed.
/// If the call fails, the slot is the caller's still.
///
/// # Safety
/// The program uses the handle and the slot no more, and all bytes of it that are not zero are in
/// `dirty`: the next owner is promised zeros. The handle has been freed before by no call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slot_free(
    slot: *mut vmalloc_slot,
    dirty: *const vmalloc_slot_bytes,
    count: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; written = Written::read(dirty, count) => {
        if slot.is_null() {
            return Ok(());
        }
        // SAFETY: the library returned it, and the caller uses it no more.
        let slot = unsafe { Box::from_raw(slot) };
        // SAFETY: the caller's condition.
        on!(slot.0, it => unsafe { it.free(written.dirty()) });
        Ok(())
    })
}

/// Resets all slots that wait for a batch.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slots_flush(slots: *mut vmalloc_slots, detail: *mut vmalloc_error) -> c_int {
    call!(code, detail; slots => on!(&slots.0, it => Ok(it.flush()?)))
}

/// Gives the free slots beyond `keep` back to the space.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slots_trim(
    slots: *mut vmalloc_slots,
    keep: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; slots => on!(&slots.0, it => Ok(it.trim(keep)?)))
}

/// Tells the counts of a pool of slots.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_slots_get_stats(
    slots: *const vmalloc_slots,
    stats: *mut vmalloc_slots_stats,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code > stats, detail; slots => on!(&slots.0, it => it.stats()))
}
