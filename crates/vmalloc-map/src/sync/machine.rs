//! The build for a machine in virtual time. The compiler tells it of loads and stores; here it is
//! told of operations that do both at once.

unsafe extern "C" {
    safe fn __machine_change(addr: usize);
}

/// A load or a store of a word comes next: the compiler has told of it.
#[inline(always)]
pub(super) fn look<T>(_word: &T) {}

/// An operation that reads and writes a word at once comes next.
#[inline(always)]
pub(super) fn change<T>(word: &T) {
    __machine_change(core::ptr::from_ref(word).addr());
}
