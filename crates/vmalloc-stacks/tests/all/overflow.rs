//! Reports of overflows: which are reported, by which name, and what happens then.

use crate::common::*;
use std::sync::atomic::{AtomicU32, Ordering};
use vmalloc_harness::output_of_child;
use vmalloc_stacks::{AltStack, Overflow, Stacks, report_overflows, report_overflows_to};

/// Returns what is reported in a child that `body` ends by a fault.
fn reported(body: impl FnOnce()) -> String {
    let (text, status) = output_of_child(|| {
        report_overflows().unwrap();
        body();
    });
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
    text
}

/// Runs `touch(addr)` with the stack pointer near the top of a stack.
fn touch_from(top: usize, addr: usize) {
    // SAFETY: the stack is the caller's. The code writes one word, and comes back to its own stack.
    unsafe {
        std::arch::asm!(
            "mov {old}, rsp",
            "mov rsp, {top}",
            "mov qword ptr [{addr}], 1",
            "mov rsp, {old}",
            old = out(reg) _, top = in(reg) top, addr = in(reg) addr,
        );
    }
}

/// Pushes words until the stack is used up.
fn overflow(top: usize) {
    // SAFETY: the stack is the caller's, and what is below it traps: the program ends.
    unsafe { std::arch::asm!("mov rsp, {top}", "2: push 1", "jmp 2b", top = in(reg) top, options(noreturn)) }
}

fn pool() -> Stacks {
    Stacks::open(&settings(4, 2).name("coroutines")).unwrap()
}

#[test]
fn a_named_stack_is_reported_by_its_name() {
    in_own_process(|| {
        let stacks = pool();
        let (below, stack) = (
            stacks.stack().unwrap(),
            stacks.request().name("parser 7").bytes(5 * page_bytes()).stack().unwrap(),
        );
        let text = reported(|| overflow(stack.top()));
        let ends = format!("{:#x}..{:#x}, 20 KiB", stack.bottom(), stack.top());
        let expected = format!(
            "stack overflow at {:#x}: stack `parser 7` of pool `coroutines`, {ends}\n",
            stack.bottom() - 8
        );
        assert_eq!(text, expected);
        drop(below);
    });
}

#[test]
fn a_stack_without_a_name_is_reported_by_its_pool() {
    in_own_process(|| {
        let stacks = pool();
        // The first of the span, and one that was used before.
        let (first, other) = (stacks.stack().unwrap(), stacks.stack().unwrap());
        drop(other);
        for stack in [first, stacks.stack().unwrap()] {
            let text = reported(|| overflow(stack.top()));
            assert!(text.contains("a stack of pool `coroutines`"), "{text:?}");
            assert!(text.contains(&format!("{:#x}..{:#x}", stack.bottom(), stack.top())), "{text:?}");
        }
    });
}

#[test]
fn a_growable_stack_is_reported_below_what_is_committed_and_below_its_reservation() {
    in_own_process(|| {
        let stacks = pool();
        let stack =
            stacks.request().name("growing").bytes(2 * page_bytes()).growable(8 * page_bytes()).unwrap();
        for pages in [2, 8] {
            stack.grow(pages * page_bytes()).unwrap();
            let text = reported(|| overflow(stack.top()));
            let addr = stack.bottom() - 8;
            assert!(text.contains(&format!("at {addr:#x}: stack `growing`")), "{text:?}");
        }
    });
}

#[test]
fn an_overrun_from_elsewhere_is_no_overflow() {
    in_own_process(|| {
        let stacks = pool();
        let mut both = [stacks.stack().unwrap(), stacks.stack().unwrap()];
        both.sort_by_key(vmalloc_stacks::Stack::bottom);
        let [low, high] = both;
        assert_eq!(low.top() + page_bytes(), high.bottom());
        for (top, addr) in [(low.top(), low.top() + 8), (high.top() - 64, low.bottom() - 8)] {
            assert_eq!(reported(|| touch_from(top, addr)), "");
        }
        let text = reported(|| touch_from(high.top() - 64, high.bottom() - 8));
        assert!(text.contains("stack overflow"), "by code that runs on the stack: {text:?}");
    });
}

static CALLS: AtomicU32 = AtomicU32::new(0);

extern "C" fn before(_: i32) {
    // SAFETY: the words are the line's; then the program ends.
    unsafe {
        let text = format_args!("before\n").as_str().unwrap_or("");
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::_exit(40 + CALLS.load(Ordering::Relaxed) as i32);
    }
}

fn count(overflow: &Overflow) {
    CALLS.fetch_add(u32::from(overflow.addr < overflow.bottom), Ordering::Relaxed);
}

#[test]
fn the_handler_that_was_there_before_is_called_afterwards() {
    in_own_process(|| {
        let stacks = pool();
        let stack = stacks.stack().unwrap();
        let (text, status) = output_of_child(|| {
            // SAFETY: a handler for the life of the program.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = before as *const () as usize;
                action.sa_flags = libc::SA_ONSTACK;
                assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
                report_overflows_to(count).unwrap();
                // The second call changes the report alone.
                report_overflows_to(count).unwrap();
            }
            overflow(stack.top());
        });
        assert_eq!(text, "before\n");
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 41, "{status:#x}");
    });
}

#[test]
fn faults_elsewhere_go_to_the_handler_before() {
    in_own_process(|| {
        let top = vec![0_u8; 1 << 16].leak().as_ptr().addr() + (1 << 15);
        assert_eq!(reported(|| touch_from(top, 8)), "");
    });
}

/// Has the C library make a thread, which gets no alternate stack from Rust.
fn on_a_plain_thread(body: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void) {
    let mut thread = std::mem::MaybeUninit::uninit();
    let none = std::ptr::null_mut();
    // SAFETY: the function lives as long as the program, and looks at no argument.
    unsafe {
        assert_eq!(libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), body, none), 0);
        libc::pthread_join(thread.assume_init(), std::ptr::null_mut());
    }
}

extern "C" fn overflow_with_an_alternate_stack(_: *mut libc::c_void) -> *mut libc::c_void {
    let stacks = pool();
    let alternate = AltStack::install(&stacks).unwrap();
    // The thread has one now.
    drop(AltStack::install(&stacks).unwrap());
    let stack = stacks.stack().unwrap();
    overflow(stack.top());
    drop(alternate);
    std::ptr::null_mut()
}

#[test]
fn a_thread_without_an_alternate_stack_gets_one() {
    in_own_process(|| {
        let text = reported(|| on_a_plain_thread(overflow_with_an_alternate_stack));
        assert!(text.contains("a stack of pool `coroutines`"), "{text:?}");
    });
}

extern "C" fn install_and_drop(_: *mut libc::c_void) -> *mut libc::c_void {
    let stacks = pool();
    for _ in 0..3 {
        drop(AltStack::install(&stacks).unwrap());
        let mut current: libc::stack_t =
            libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: room for the answer.
        assert_eq!(unsafe { libc::sigaltstack(std::ptr::null(), &mut current) }, 0);
        assert_ne!(current.ss_flags & libc::SS_DISABLE, 0, "it was taken down");
    }
    std::ptr::null_mut()
}

#[test]
fn an_alternate_stack_is_taken_down_before_it_is_dropped() {
    in_own_process(|| {
        in_child(|| on_a_plain_thread(install_and_drop));
    });
}
