//! A program whose large blocks come from a space. With musl it is one file without any library:
//!
//! ```sh
//! cargo run --target x86_64-unknown-linux-musl -p vmalloc-malloc --example static_program
//! ```

use vmalloc_malloc::LargeAlloc;

#[global_allocator]
static HEAP: LargeAlloc = LargeAlloc::system();

fn main() {
    let is_large = |block: &[u8]| HEAP.heap().is_some_and(|heap| heap.contains(block.as_ptr().addr()));
    let (small, mut large) = (vec![1_u8; 100], vec![2_u8; 1 << 20]);
    assert!(!is_large(&small) && is_large(&large));
    large.resize(64 << 20, 3);
    assert!(is_large(&large) && large[..1 << 20].iter().all(|byte| *byte == 2));
    let threads: Vec<_> = (0..4_u8).map(|nth| std::thread::spawn(move || vec![nth; 4 << 20])).collect();
    for (nth, thread) in threads.into_iter().enumerate() {
        let block = thread.join().expect("it only fills a block");
        assert!(is_large(&block) && block.iter().all(|byte| usize::from(*byte) == nth));
    }
    println!("{} bytes at {:p}, of a space", large.len(), large.as_ptr());
}
