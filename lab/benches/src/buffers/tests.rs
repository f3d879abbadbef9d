//! Every allocator hands out page-aligned memory that keeps what is written to it.

use super::{Buffers, PAGE_BYTES, Visitor, each};

struct Check;

impl Visitor for Check {
    fn visit<B: Buffers + 'static>(&mut self) {
        assert!(B::version().contains(|c: char| c.is_ascii_digit()), "{}: {}", B::NAME, B::version());
        let mut buffers = B::build();
        let sizes = [1, 3, 16, 100, 256].map(|pages| pages * PAGE_BYTES);
        let live = sizes.map(|bytes| buffers.allocate(bytes));
        for (index, (buffer, bytes)) in live.iter().zip(sizes).enumerate() {
            assert_eq!(buffer.addr().get() % PAGE_BYTES, 0, "{}", B::NAME);
            // SAFETY: these are the bytes of a live buffer.
            unsafe { buffer.write_bytes(index as u8, bytes) };
        }
        for (index, (buffer, bytes)) in live.iter().zip(sizes).enumerate() {
            // SAFETY: the buffer is live and was written above; it is freed once, after its last
            // use.
            unsafe {
                let all = std::slice::from_raw_parts(buffer.as_ptr(), bytes);
                assert!(all.iter().all(|&byte| byte == index as u8), "{}", B::NAME);
                buffers.free(*buffer, bytes);
            }
        }
    }
}

#[test]
fn buffers_are_aligned_and_disjoint() {
    each(&mut Check);
}
