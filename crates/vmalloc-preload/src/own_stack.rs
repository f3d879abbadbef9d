//! A stack for the start of the heap, which takes more of one than a thread may have.
//!
//! The start needs 42 KiB, and without optimization 80. A thread of a program may have 16 KiB in
//! all (`PTHREAD_STACK_MIN`), which is enough for every later call: see
//! [docs/malloc.md](../../../docs/malloc.md).
//!
//! ```text
//!   │ guard │ ◄── stack grows down ── │ contexts │
//! ```

use libc::{c_int, c_void, ucontext_t};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::mem::MaybeUninit;
use std::ptr;
use vmalloc_linux::page_bytes;

/// The stack, with its contexts. Only what is touched costs memory, and that only for a moment.
const BYTES: usize = 256 << 10;

/// The contexts, on the new stack as well: they are 2 KiB.
struct Contexts {
    caller: MaybeUninit<ucontext_t>,
    own: MaybeUninit<ucontext_t>,
}

/// Calls `body` on a stack of its own, with all signals blocked: a handler that finds itself on a
/// third stack would be one too many for handlers with a stack of theirs (sigaltstack(2)). Returns
/// false, and calls nothing, where the system refuses the stack. A panic of `body` aborts.
pub(crate) fn run(body: extern "C" fn()) -> bool {
    let _signals = BlockedSignals::new();
    Stack::new().is_some_and(|stack| stack.run(body))
}

/// A mapping of a guard page and a stack.
struct Stack(*mut c_void);

impl Stack {
    fn new() -> Option<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let kind = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let stack = unsafe { mmap_anonymous(ptr::null_mut(), page_bytes() + BYTES, access, kind) };
        let stack = stack.ok().map(Self)?;
        // SAFETY: the first page of the mapping, which nothing uses yet.
        let guarded = unsafe { mprotect(stack.0, page_bytes(), MprotectFlags::empty()) };
        guarded.is_ok().then_some(stack)
    }

    fn run(&self, body: extern "C" fn()) -> bool {
        let low = self.0.wrapping_byte_add(page_bytes());
        let room = (BYTES - size_of::<Contexts>()) / 64 * 64;
        let contexts = low.wrapping_byte_add(room).cast::<Contexts>();
        // SAFETY: the contexts lie in the mapping, aligned, above the stack, and are not moved.
        // `getcontext` fills one in, of which `makecontext` uses the stack and the link: to the
        // context that `swapcontext` fills in before it goes to `body`, which takes no arguments.
        // There this thread goes on when `body` has returned. The mapping outlives all of it.
        unsafe {
            let own = (&raw mut (*contexts).own).cast::<ucontext_t>();
            let caller = (&raw mut (*contexts).caller).cast::<ucontext_t>();
            if libc::getcontext(own) != 0 {
                return false;
            }
            (*own).uc_stack.ss_sp = low;
            (*own).uc_stack.ss_size = room;
            (*own).uc_link = caller;
            libc::makecontext(own, body, 0);
            libc::swapcontext(caller, own) == 0
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: a mapping of our own, which no code runs on any more.
        let _ = unsafe { munmap(self.0, page_bytes() + BYTES) };
    }
}

/// Signals that code raises itself, such as the refusal of a system call by a filter
/// (seccomp(2)). The kernel ends a process that blocks one of them then.
const RAISED_BY_CODE: [libc::c_int; 6] =
    [libc::SIGSYS, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

/// All other signals of this thread are blocked, until this is dropped.
struct BlockedSignals(MaybeUninit<libc::sigset_t>);

impl BlockedSignals {
    fn new() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: room for a set each; the first is filled before it is read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in RAISED_BY_CODE {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            set_mask(all.as_ptr(), before.as_mut_ptr());
        }
        Self(before)
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: `new` has filled the set.
        unsafe { set_mask(self.0.as_ptr(), ptr::null_mut()) };
    }
}

/// Sets the mask of this thread. The call can't fail with these arguments.
///
/// # Safety
/// `new` is a set, and `old` is null or has room for one.
unsafe fn set_mask(new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, new, old) }
}
