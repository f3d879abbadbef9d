//! The conditions of every call, which the header has at its top.
//!
//! - A handle is one that the library returned, and that was not ended since.
//! - A pointer to a struct leads to one of its type, whose `size` is at most what lies there, and
//!   which no other thread changes meanwhile.
//! - An array has as many elements as the call is told. A string ends with a zero byte.
//! - `detail` is `NULL`, or leads to a `vmalloc_error` that may be written, set up or not.
//! - A callback may call everything but what ends the handle that it was called for. It returns: an
//!   exception or a `longjmp` out of it is no way out. An exception ends the program.
//!
//! A function says behind `# Safety` what it needs besides.
