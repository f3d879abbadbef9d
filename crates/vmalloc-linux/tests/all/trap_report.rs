//! The report on a trap, read from a child that dies of it.

use crate::common::*;
use std::sync::Arc;
use vmalloc::{Request, Space, SpaceOptions, Tag};
use vmalloc_harness::env::addresses;
use vmalloc_harness::{OwnProcess, status_of_child, test_name};
use vmalloc_linux::trap_report::{self, Place};
use vmalloc_linux::{Linux, LinuxOptions, open};

const SPAN: usize = addresses(1 << 30);

fn space() -> Arc<Space<Linux>> {
    open(LinuxOptions::new().max_bytes(SPAN), SpaceOptions::default().trap_on_free(true)).unwrap()
}

/// Runs the test that calls this in a child in which it dies, and returns what it has said.
fn said_by_child<F: FnOnce()>(body: F) -> Option<String> {
    let Some(child) = OwnProcess::of(&test_name::<F>()) else {
        enlarge_signal_stack();
        body();
        return None;
    };
    let output = child.output();
    assert!(!output.status.success(), "the child did not trap");
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the report of a trap in a child: see [`said_by_child`].
fn report_of_child<F: FnOnce()>(body: F) -> Option<(String, String)> {
    let said = said_by_child(body)?;
    let report = said.lines().find(|line| line.starts_with("vmalloc: trap at ")).expect(&said).to_owned();
    Some((said, report))
}

/// Gives the thread, which dies, more room for handlers than the 8 KiB of Rust: those of a
/// sanitizer take part of it.
fn enlarge_signal_stack() {
    let stack = vec![0_u8; 64 << 10].leak();
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
    // SAFETY: the memory is never freed.
    assert_eq!(unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) }, 0);
}

fn load(addr: usize) {
    // SAFETY: the test dies of it.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr).read_volatile() };
}

#[test]
fn a_use_after_free_names_the_area_and_its_thread() {
    let told = report_of_child(|| {
        trap_report::install().unwrap();
        let space = space();
        let _watch = trap_report::watch(&space);
        let addr = space.raw().alloc(&Request::new(5 * page_bytes()).tag("rows")).unwrap();
        let freeing = Arc::clone(&space);
        std::thread::spawn(move || {
            eprintln!("freed {addr:#x} by {}", rustix::thread::gettid().as_raw_nonzero());
            free(&freeing, addr);
        })
        .join()
        .unwrap();
        load(addr + page_bytes() + 16);
    });
    let Some((said, report)) = told else { return };
    let freed = said.lines().find_map(|line| line.strip_prefix("freed ")).unwrap();
    let (addr, thread) = freed.split_once(" by ").unwrap();
    let area = format!("byte {} of an area that thread {thread} freed ", page_bytes() + 16);
    assert!(report.contains(&area), "{report}");
    assert!(report.contains(&format!(" ms ago: {addr}, {} bytes, \"rows\"", 5 * page_bytes())), "{report}");
    assert_eq!(cfg!(feature = "trap-backtrace"), report.contains("; freed at 0x"), "{report}");
}

#[test]
fn an_overrun_names_the_area_in_front() {
    let told = report_of_child(|| {
        trap_report::install().unwrap();
        let space = space();
        let _watch = trap_report::watch(&space);
        let addr = space.raw().alloc(&Request::new(3 * page_bytes()).tag("columns")).unwrap();
        load(addr + 3 * page_bytes() + 8);
    });
    let Some((_, report)) = told else { return };
    assert!(report.contains("8 bytes behind the end of the area in use at "), "{report}");
    assert!(report.ends_with(&format!("{} bytes, \"columns\"", 3 * page_bytes())), "{report}");
}

extern "C" fn exit_with_7(_: libc::c_int) {
    // SAFETY: no conditions.
    unsafe { libc::_exit(7) };
}

#[test]
fn the_handler_that_was_there_before_is_called() {
    in_own_process(|| {
        let handler = exit_with_7 as *const () as libc::sighandler_t;
        // SAFETY: the handler does what a handler may.
        let _ = [libc::SIGSEGV, libc::SIGBUS].map(|signal| unsafe { libc::signal(signal, handler) });
        trap_report::install().unwrap();
        trap_report::install().unwrap();
        let space = space();
        let addr = space.raw().alloc(&Request::new(page_bytes())).unwrap();
        free(&space, addr);
        let status = status_of_child(|| {
            enlarge_signal_stack();
            load(addr);
            true
        });
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
    });
}

#[test]
fn look_up_tells_every_place() {
    in_own_process(|| {
        trap_report::install().unwrap();
        let space = space();
        let nothing = 0x1000;
        assert!(trap_report::look_up(nothing).is_none());
        let first = space.raw().alloc(&Request::new(page_bytes())).unwrap();
        let request = Request::new(2 * page_bytes()).tag("a tag").align(256 * page_bytes());
        let addr = space.raw().alloc(&request).unwrap();
        assert!(trap_report::look_up(addr).is_none(), "not watched yet");
        let watch = trap_report::watch(&space);
        let place = |addr| trap_report::look_up(addr).unwrap().place;
        assert!(matches!(place(addr + 5), Place::Inside(area) if area.addr == addr));
        assert!(matches!(place(addr + 2 * page_bytes()), Place::Behind(area) if area.addr == addr));
        assert!(matches!(place(addr - 1), Place::Before(area) if area.tag == Some(Tag::new("a tag"))));
        assert!(matches!(place(addr - 2 * page_bytes()), Place::Nowhere));
        free(&space, addr);
        let Place::Freed(freed) = place(addr + 1) else { panic!("not freed") };
        assert_eq!((freed.addr, freed.bytes, freed.tag), (addr, 2 * page_bytes(), Some(Tag::new("a tag"))));
        let again = space.raw().alloc(&Request::new(2 * page_bytes()).align(256 * page_bytes())).unwrap();
        assert_eq!(again, addr, "the address is in use again");
        assert!(matches!(place(addr + 1), Place::Inside(_)));
        [first, again].iter().for_each(|addr| free(&space, *addr));
        drop(watch);
        let held = Arc::downgrade(&space);
        drop(space);
        assert!(held.upgrade().is_none(), "a watch that has ended holds nothing");
    });
}

#[test]
fn many_spaces_are_watched_at_once() {
    in_own_process(|| {
        let spaces: Vec<_> = (0..addresses(100)).map(|_| space()).collect();
        let watches: Vec<_> = spaces.iter().map(trap_report::watch).collect();
        let addr_in = |space: &Arc<Space<Linux>>| space.geometry().span.start() as usize * page_bytes();
        assert!(spaces.iter().all(|space| trap_report::look_up(addr_in(space)).is_some()));
        drop(watches);
        assert!(spaces.iter().all(|space| trap_report::look_up(addr_in(space)).is_none()));
    });
}

#[test]
fn a_watch_ends_in_the_child_of_a_fork_while_another_thread_looks_up() {
    in_own_process(|| {
        let space = space();
        let addr = space.raw().alloc(&Request::new(page_bytes())).unwrap();
        let look_up = || _ = std::hint::black_box(trap_report::look_up(addr));
        for _ in 0..200 {
            let watch = trap_report::watch(&space);
            forks_amid(1, &[&look_up], || {
                // SAFETY: no conditions. It ends a child that waits for ever.
                unsafe { libc::alarm(10) };
                // SAFETY: the copy in the child has one owner.
                drop(unsafe { std::ptr::read(&raw const watch) });
                true
            });
        }
    });
}

extern "C" fn say_called(_: libc::c_int) {
    // SAFETY: the bytes are there.
    unsafe { libc::write(libc::STDERR_FILENO, c"called\n".as_ptr().cast(), 7) };
}

#[test]
fn a_handler_that_was_to_be_called_once_is_called_once() {
    let said = said_by_child(|| {
        // A child that goes on for ever must not hang the test.
        // SAFETY: no conditions.
        unsafe { libc::alarm(10) };
        let flags = libc::SA_RESETHAND | libc::SA_RESTART;
        [libc::SIGSEGV, libc::SIGBUS].iter().for_each(|signal| process::handle(*signal, say_called, flags));
        trap_report::install().unwrap();
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: room for the answer.
            let flags = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                assert_eq!(libc::sigaction(signal, std::ptr::null(), &mut action), 0);
                action.sa_flags
            };
            assert_ne!(flags & libc::SA_RESTART, 0);
        }
        let space = space();
        let addr = space.raw().alloc(&Request::new(page_bytes())).unwrap();
        free(&space, addr);
        load(addr);
    });
    let Some(said) = said else { return };
    assert_eq!(said.matches("called\n").count(), 1, "{:.2000}", said);
}

#[test]
fn a_sent_signal_that_was_ignored_still_is() {
    in_own_process(|| {
        // SAFETY: to ignore is no handler.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_IGN) };
        trap_report::install().unwrap();
        // In a child, whose only thread gets it before the call returns. Sent to more threads it
        // may come in the fork below, where a sanitizer takes none.
        in_forked_child(|| {
            // SAFETY: no conditions.
            (0..2).all(|_| unsafe { libc::kill(libc::getpid(), libc::SIGBUS) } == 0)
        });
        // A trap ends the program all the same.
        let space = space();
        let addr = space.raw().alloc(&Request::new(page_bytes())).unwrap();
        let status = status_of_child(|| {
            load(addr + page_bytes());
            true
        });
        assert!(libc::WIFSIGNALED(status), "{status:#x}");
    });
}

#[test]
fn a_sent_signal_ends_the_program_or_is_handled_as_before() {
    in_own_process(|| {
        // SAFETY: no conditions, the signals are there, and the value is not looked at.
        let sent_by: [fn(libc::c_int) -> libc::c_int; 3] = unsafe {
            [
                |signal| libc::kill(libc::getpid(), signal),
                |signal| libc::raise(signal),
                |signal| libc::sigqueue(libc::getpid(), signal, std::mem::zeroed()),
            ]
        };
        let status = |signal, send: fn(libc::c_int) -> libc::c_int| {
            status_of_child(|| {
                enlarge_signal_stack();
                trap_report::install().unwrap();
                assert_eq!(send(signal), 0);
                true
            })
        };
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            for send in sent_by {
                // In the child, whatever a test's program does about traps of its stacks.
                // SAFETY: the default action is no handler.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
                let ended = status(signal, send);
                assert!(libc::WIFSIGNALED(ended) && libc::WTERMSIG(ended) == signal, "{ended:#x}");
                // SAFETY: the handler does what a handler may.
                unsafe { libc::signal(signal, exit_with_7 as *const () as libc::sighandler_t) };
                let handled = status(signal, send);
                assert!(libc::WIFEXITED(handled) && libc::WEXITSTATUS(handled) == 7, "{handled:#x}");
            }
        }
    });
}

/// Another thread notes its frees at each fork, with the feature `trap-backtrace` by unwinding.
#[test]
fn a_child_notes_frees_whatever_its_parent_was_doing() {
    in_own_process(|| {
        trap_report::install().unwrap();
        let space = space();
        let alloc_and_free = || free(&space, alloc(&space, 1));
        forks_amid(300, &[&alloc_and_free], || {
            alloc_and_free();
            true
        });
    });
}
