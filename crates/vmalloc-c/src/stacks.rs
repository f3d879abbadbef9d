//! Guarded stacks for coroutines, fibers and threads.

use crate::answer::{self, Argument, Refusal, given, given_mut};
use crate::error::vmalloc_error;
use crate::input::{self, Versioned};
use crate::options::built;
use crate::stats::vmalloc_stats;
use ::vmalloc_stacks::{AltStack, LinuxOptions, Stack, Stacks, StacksOptions};
use libc::{c_char, c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};

/// A pool of guarded stacks, with addresses of its own. Any thread may use it.
pub struct vmalloc_stacks(pub(crate) Stacks);

/// An alternate stack for signal handlers.
pub struct vmalloc_alt_stack(
    /// Owned to end it.
    #[allow(dead_code)]
    AltStack,
);

/// Have no thread that gives the memory of unused stacks back.
pub const VMALLOC_STACKS_NO_THREADS: u32 = 1;
/// Keep no memory of a stack that was dropped.
pub const VMALLOC_STACKS_KEEP_NOTHING: u32 = 2;

/// The options of a pool of stacks. Zero is the default of each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_stacks_options {
    /// `sizeof(vmalloc_stacks_options)`: `VMALLOC_STACKS_OPTIONS_INIT` sets it.
    pub size: usize,
    /// Bytes of a stack: 1 MiB by default.
    pub stack_bytes: usize,
    /// Memory that a dropped stack keeps, from its top on: 16 KiB by default.
    pub keep_bytes: usize,
    /// Memory that all dropped stacks may keep: 64 MiB by default.
    pub warm_bytes: usize,
    /// Addresses that the pool reserves: 16 TiB by default.
    pub span_bytes: usize,
    /// The alignment of the bottom of each stack, a power of two.
    pub align: usize,
    /// Any of `VMALLOC_STACKS_...`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// The name of the pool in reports, or `NULL`. The first 31 bytes count.
    pub name: *const c_char,
}

// SAFETY: `repr(C)`, numbers and a pointer, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_stacks_options {
    const FIRST: usize = 64;
}

const _: () = assert!(size_of::<vmalloc_stacks_options>() == 6 * 8 + 2 * 4 + 8);

/// A stack. The struct is the program's, which neither copies it nor changes a field.
#[repr(C)]
#[derive(Debug)]
pub struct vmalloc_stack {
    /// The lowest byte. A guard page is below it, which an overflow hits.
    pub bottom: *mut c_void,
    /// The address behind the highest byte, where an empty stack begins. A guard page is there too.
    pub top: *mut c_void,
    /// Bytes from bottom to top.
    pub bytes: usize,
    /// The library's own.
    pub own: [usize; 5],
}

const _: () =
    assert!(size_of::<Stack>() <= size_of::<[usize; 5]>() && align_of::<Stack>() <= align_of::<usize>());

impl vmalloc_stacks_options {
    /// Returns the options of the reservation and those of the pool.
    ///
    /// # Safety
    /// The name is null, or ends with a zero byte.
    unsafe fn split(&self) -> Result<(LinuxOptions, StacksOptions), Refusal> {
        let known = VMALLOC_STACKS_NO_THREADS | VMALLOC_STACKS_KEEP_NOTHING;
        let flags = input::flags(self.flags, known)?;
        if self.reserved != 0 {
            return Err(Argument::Value(self.reserved).into());
        }
        let page_bytes = answer::page_bytes();
        let linux = match self.span_bytes {
            0 => Stacks::usual_addresses(),
            bytes => LinuxOptions::new().max_bytes(bytes / page_bytes * page_bytes),
        };
        let linux = linux.drain_thread(flags & VMALLOC_STACKS_NO_THREADS == 0);
        let mut options = StacksOptions::new();
        built!(options; stack_bytes(self.stack_bytes) if self.stack_bytes != 0,
            warm_bytes(self.warm_bytes) if self.warm_bytes != 0, align(self.align) if self.align != 0);
        options = match (self.keep_bytes, flags & VMALLOC_STACKS_KEEP_NOTHING != 0) {
            (0, false) => options,
            (0, true) => options.keep_bytes(0),
            (bytes, false) => options.keep_bytes(bytes),
            (_, true) => return Err(Argument::Flags(flags).into()),
        };
        // SAFETY: the caller's condition.
        let name = unsafe { input::name(self.name) }?;
        Ok((linux, name.map_or(options, |name| options.name(name))))
    }
}

/// Reserves addresses and opens a pool of stacks on them. `options` may be `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stacks_open(
    options: *const vmalloc_stacks_options,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_stacks {
    call!(handle, detail; given = input::read_or_default(options)?.split() => {
        let (linux, options) = given;
        Ok(vmalloc_stacks(Stacks::open_with(linux, &options)?))
    })
}

/// Gives the handle of a pool up. Its stacks live on, and the pool ends with the last of them.
/// `NULL` is allowed.
///
/// # Safety
/// The program uses the handle no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stacks_close(stacks: *mut vmalloc_stacks) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(stacks) };
}

/// Makes a stack of `bytes` bytes, or of the pool's size for 0, and fills `*stack`. One of the
/// pool's size takes no system call when a dropped one waits. A `name` for reports, which may be
/// `NULL`, takes a microsecond. A failed call leaves `*stack` as it was.
///
/// # Safety
/// `*stack` is not a stack that was made and not dropped: that would be lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stack_make(
    stacks: *mut vmalloc_stacks,
    bytes: usize,
    name: *const c_char,
    stack: *mut vmalloc_stack,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; stacks, name = input::name(name) => {
        let pool = &stacks.0;
        if stack.is_null() {
            return Err(Argument::Null.into());
        }
        let made = match (name, bytes) {
            (None, 0) => pool.stack(),
            (None, bytes) => pool.request().bytes(bytes).stack(),
            (Some(name), 0) => pool.request().name(name).stack(),
            (Some(name), bytes) => pool.request().name(name).bytes(bytes).stack(),
        };
        let made = made?;
        // SAFETY: the conditions of every call.
        unsafe { stack.write(handed_out(made)) };
        Ok(())
    })
}

/// Returns the struct that owns a stack.
fn handed_out(stack: Stack) -> vmalloc_stack {
    let pointer = std::ptr::with_exposed_provenance_mut;
    let (bottom, top, bytes) = (pointer(stack.bottom()), pointer(stack.top()), stack.len());
    let mut own = [0; 5];
    let stack = ManuallyDrop::new(stack);
    let from = std::ptr::from_ref(&stack).cast::<MaybeUninit<u8>>();
    // SAFETY: there is room for it, as was asserted, and it is not dropped here.
    unsafe { (&raw mut own).cast::<MaybeUninit<u8>>().copy_from_nonoverlapping(from, size_of::<Stack>()) };
    vmalloc_stack { bottom, top, bytes, own }
}

/// Drops a stack, on any thread: it waits for its next user. `*stack` is cleared, so a second drop
/// of the struct answers `-EALREADY`, as one of a zeroed struct does.
///
/// # Safety
/// `*stack` was filled by `vmalloc_stack_make` or is zero, and is no copy. Nothing runs on the
/// stack or needs what it holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stack_drop(stack: *mut vmalloc_stack, detail: *mut vmalloc_error) -> c_int {
    call!(code, detail; stack = given_mut(stack) => {
        if stack.bytes == 0 {
            return Err(vmalloc_linux::FreeError::AlreadyFreed { addr: 0 }.into());
        }
        stack.bytes = 0;
        (stack.bottom, stack.top) = (std::ptr::null_mut(), std::ptr::null_mut());
        let own = std::mem::take(&mut stack.own);
        // SAFETY: `handed_out` put it there, and it is taken out once: the size was not 0.
        drop(unsafe { (&raw const own).cast::<Stack>().read() });
        Ok(())
    })
}

/// Gives the memory of unused stacks back, but for the part that each keeps.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stacks_trim(
    stacks: *mut vmalloc_stacks,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; stacks => {
        stacks.0.trim();
        Ok(())
    })
}

/// Gives all memory of unused stacks back, and their addresses.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stacks_clear(
    stacks: *mut vmalloc_stacks,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; stacks => {
        stacks.0.clear();
        Ok(())
    })
}

/// Returns the bytes of a stack of the pool's size, and 0 for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stacks_stack_bytes(stacks: *const vmalloc_stacks) -> usize {
    // SAFETY: the conditions of every call.
    unsafe { given(stacks) }.map_or(0, |stacks| stacks.0.stack_bytes())
}

/// Tells the counts of the space that the stacks lie in. Unused stacks that wait on the CPUs count
/// as busy areas there.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stacks_get_stats(
    stacks: *const vmalloc_stacks,
    stats: *mut vmalloc_stats,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code > stats, detail; stacks => stacks.0.stats())
}

/// Has a line written to the standard error for each overflow of a stack of any pool, before the
/// program ends of it. Handlers of `SIGSEGV` and `SIGBUS` that were there before run afterwards. A
/// thread needs an alternate stack for that: see `vmalloc_alt_stack_install`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_stacks_report_overflows(detail: *mut vmalloc_error) -> c_int {
    call!(code, detail => Ok(::vmalloc_stacks::report_overflows()?))
}

/// Gives the calling thread an alternate stack of the pool, if it has none.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alt_stack_install(
    stacks: *mut vmalloc_stacks,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_alt_stack {
    call!(handle, detail; stacks => Ok(vmalloc_alt_stack(AltStack::install(&stacks.0)?)))
}

/// Takes the alternate stack down. `NULL` is allowed.
///
/// # Safety
/// The thread that installed it calls this, once, and not in a handler that runs on it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alt_stack_free(stack: *mut vmalloc_alt_stack) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(stack) };
}
