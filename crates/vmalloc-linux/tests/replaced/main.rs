//! Tests for which a part of the whole program is replaced: its global allocator, which watches the
//! heap and may stand on a space, and `pthread_atfork`. A program has one of each, so these tests
//! are not among the others.

#[path = "../all/common/mod.rs"]
mod common;

// It needs the name by which glibc alone has what `pthread_atfork` does. The thread sanitizer calls
// that function before any code of the program can run under it.
#[cfg(all(target_env = "gnu", not(miri), not(thread_sanitizer)))]
mod atfork_twice;
mod atomic;
mod global;
mod heap;
mod platform_heap;
