//! Pages gathered where the kernel refuses to move some of them, or all.

use crate::common::sandbox::{Answer, Call, refused, supervised};
use crate::common::{PAGE, in_own_process, not_run};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vmalloc::{Buffer, Request, Space, SpaceOptions, Zeroed};
use vmalloc_linux::gather::{GatherArea, GatherError, Gathered};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

const UFFDIO_MOVE: u32 = 0xc028_aa05;
const PAGES: usize = 5;

fn space() -> Arc<Space<Linux>> {
    let options =
        LinuxOptions::new().max_bytes(1 << 30).guard_means(GuardMeans::Mprotect).drain_thread(false);
    open(options, SpaceOptions::default()).unwrap()
}

/// Gathers pages, none of which follows the one before; `None` where the kernel moves none. Then
/// checks that they are in one place or the other.
fn gather_once(space: &Arc<Space<Linux>>) -> Option<Result<Gathered, GatherError>> {
    let mut area = GatherArea::new(space.clone(), PAGES).unwrap();
    let mut memory = Buffer::<_, Zeroed>::new(space.clone(), &Request::new(PAGES * PAGE)).unwrap();
    memory.chunks_exact_mut(PAGE).zip(1..).for_each(|(page, number)| page[9] = number);
    let from: Vec<_> = (0..PAGES).rev().map(|page| memory.addr() + page * PAGE).collect();
    // SAFETY: the pages are the buffer's, which is not used meanwhile.
    let gathered = unsafe { area.gather(0, &from) };
    let bytes = if gathered.is_ok() { area.get(0, PAGES).unwrap() } else { &memory[..] };
    let mut numbers: Vec<_> = bytes.chunks_exact(PAGE).map(|page| page[9]).collect();
    if gathered.is_ok() {
        numbers.reverse();
        assert!(memory.iter().all(|byte| *byte == 0), "nothing is left behind");
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    area.is_moving().then_some(gathered)
}

/// Returns true for a call that moves a page. To musl its number is negative.
fn is_move(call: &Call) -> bool {
    call.args[1] as u32 == UFFDIO_MOVE
}

/// Every call in turn fails, with each error that the kernel may give.
#[test]
fn a_move_that_fails_is_copied_or_changes_nothing() {
    in_own_process(|| {
        let space = space();
        for error in [libc::ENOMEM, libc::EBUSY, libc::EAGAIN, libc::EFAULT, libc::EIO] {
            for nth in 0..PAGES {
                let calls = AtomicUsize::new(0);
                let answer = |call: &Call| {
                    let is_move = is_move(call);
                    // Busy addresses are tried again and again.
                    let is_due = match calls.load(Ordering::SeqCst) {
                        count if error == libc::EAGAIN => (nth..nth + 64).contains(&count),
                        count => count == nth,
                    };
                    calls.fetch_add(usize::from(is_move), Ordering::SeqCst);
                    if is_move && is_due { Answer::Fail(error) } else { Answer::Go }
                };
                let done = supervised(&[libc::SYS_ioctl], answer, || gather_once(&space));
                let Some(done) = done else {
                    let why = "userfaultfd is refused, or Linux is before 6.8";
                    return not_run("a_move_that_fails_is_copied_or_changes_nothing", why);
                };
                match error {
                    libc::EBUSY | libc::EAGAIN => {
                        assert_eq!(done, Ok(Gathered { moved: PAGES - 1, copied: 1 }), "{error}");
                    }
                    libc::ENOMEM => assert!(matches!(done, Err(GatherError::Platform(_))), "{done:?}"),
                    _ => {
                        let told = matches!(done, Err(GatherError::NotMovable { code, .. }) if code == error);
                        assert!(told, "{done:?}");
                    }
                }
            }
        }
        space.purge().unwrap();
        space.verify().unwrap();
    });
}

#[test]
fn without_userfaultfd_pages_are_copied() {
    in_own_process(|| {
        let space = space();
        for error in [libc::EPERM, libc::ENOSYS, libc::EMFILE] {
            refused(&[libc::SYS_userfaultfd], error, |_| true, |_| assert_eq!(gather_once(&space), None));
        }
    });
}

/// Daemons close all descriptors.
#[test]
fn a_closed_descriptor_makes_no_difference_but_time() {
    in_own_process(|| {
        let space = space();
        refused(&[libc::SYS_ioctl], libc::EBADF, is_move, |_| assert_eq!(gather_once(&space), None));
    });
}
