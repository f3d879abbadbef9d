//! The allocator as that of a whole program: sizes on both sides of the threshold, threads, forks.

use crate::{HEAP, THRESHOLD};
use std::alloc::Layout;
use std::os::unix::process::CommandExt;
use vmalloc_harness::{in_forked_child, in_own_process, test_name};

/// Returns true if the block is the space's.
fn is_large<T>(block: &[T]) -> bool {
    HEAP.heap().is_some_and(|heap| heap.contains(block.as_ptr().addr()))
}

fn use_the_heap(seed: usize) {
    let mut held: Vec<Vec<u8>> = Vec::new();
    for round in 0..1500 {
        let bytes = 1 + (round * 7919 + seed * 104_729) % 60_000;
        let mut block = vec![0; bytes];
        assert!(block.iter().all(|&byte| byte == 0), "zeros are zeros");
        block.fill(seed as u8);
        if round % 5 == 0 {
            block.resize(bytes * 3, seed as u8);
        } else if round % 7 == 0 {
            block.truncate(bytes / 9);
            block.shrink_to_fit();
        }
        held.push(block);
        if held.len() > 20 {
            let old = held.swap_remove(round % 20);
            assert!(old.iter().all(|&byte| byte == seed as u8), "another owner wrote here");
        }
    }
}

#[test]
fn blocks_are_on_their_side_of_the_threshold_and_move_with_their_content() {
    let mut block = vec![7_u8; 100];
    assert!(!is_large(&block));
    block.resize(THRESHOLD, 7);
    assert!(is_large(&block), "it grew beyond the threshold");
    block.resize(10 << 20, 7);
    assert!(is_large(&block) && block.iter().all(|&byte| byte == 7));
    block.truncate(50);
    block.shrink_to_fit();
    assert!(!is_large(&block) && block == [7; 50], "it shrank below the threshold");
    let aligned = Layout::from_size_align(100_000, 1 << 16).unwrap();
    // SAFETY: the size is not zero, and the block is freed once with its layout.
    unsafe {
        let memory = std::alloc::alloc(aligned);
        assert!(memory.addr().is_multiple_of(1 << 16));
        let memory = std::alloc::realloc(memory, aligned, 300_000);
        assert!(memory.addr().is_multiple_of(1 << 16), "the alignment stays");
        std::alloc::dealloc(memory, Layout::from_size_align(300_000, 1 << 16).unwrap());
    }
    let half = Layout::from_size_align(isize::MAX as usize - (1 << 20), 1).unwrap();
    // SAFETY: the size is not zero.
    let both = [(); 2].map(|()| std::hint::black_box(unsafe { std::alloc::alloc(half) }));
    assert!(both[1].is_null(), "no machine has all addresses");
    if !both[0].is_null() {
        // SAFETY: it was allocated with this layout.
        unsafe { std::alloc::dealloc(both[0], half) };
    }
}

/// The child has 1 GiB of addresses, of which a half or less is the space's.
#[test]
fn a_block_outgrows_a_full_space() {
    with_few_addresses(|| {
        drop(vec![0_u8; THRESHOLD]);
        let heap = HEAP.heap().unwrap();
        let bytes = heap.reservation().1 / 8;
        let mut first = vec![7_u8; bytes];
        let second = vec![8_u8; bytes];
        assert!(is_large(&first) && is_large(&second), "both fit");
        first.reserve_exact(heap.reservation().1 - first.len());
        assert!(!is_large(&first), "all of the space does not");
        assert!(first.iter().all(|&byte| byte == 7) && second.iter().all(|&byte| byte == 8));
        assert!(
            heap.space().stats().busy_pages as usize * vmalloc_linux::page_bytes() < 2 * bytes,
            "the block of the space was freed"
        );
    });
}

/// Runs a test in a process of its own, which has the limit from its start on: its first large
/// block opens the space.
fn with_few_addresses<F: FnOnce()>(body: F) {
    const CHILD: &str = "VMALLOC_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let test = test_name::<F>();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([&test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    // SAFETY: setrlimit(2) may be called between fork and exec.
    unsafe { command.pre_exec(limit_addresses) };
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{test}: {said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Leaves 1 GiB of addresses to the process.
fn limit_addresses() -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
    // SAFETY: a limit to read.
    match unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn threads_and_children_of_forks_use_it() {
    in_own_process(|| {
        std::thread::scope(|scope| {
            for seed in 1..4 {
                scope.spawn(move || use_the_heap(seed));
            }
            for round in 0..20 {
                in_forked_child(|| {
                    use_the_heap(100 + round);
                    true
                });
            }
        });
        HEAP.heap().expect("it was opened").space().verify().unwrap();
    });
}
