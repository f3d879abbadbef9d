//! Tests of a space on machines of the tests' own. Others are in `testing/`.

#[cfg(not(miri))]
mod context;
#[cfg(not(miri))]
mod porting;
mod two_threads;
