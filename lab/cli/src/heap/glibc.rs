//! glibc: a heap for every few threads, each of which keeps what is free at its end for itself.

/// Where large blocks begin, in bytes: glibc's own first choice, which it raises when such a block
/// is freed unless told so.
const LARGE_BLOCK: i32 = 128 << 10;

/// From here on large blocks go back to the kernel when they are freed. Without it 64 workers,
/// which meet other heaps in each round, seem to lose 30 MiB within a minute.
pub(crate) fn return_large_blocks() {
    // SAFETY: no conditions. A refusal leaves everything as it was.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK) };
}

/// Gives free pages between small blocks back to the kernel.
pub(crate) fn trim() {
    // SAFETY: no conditions; takes the heaps' own locks.
    unsafe { libc::malloc_trim(0) };
}
