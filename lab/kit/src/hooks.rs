//! What a machine of virtual CPUs is told (`--cfg machine`, the crate `vmalloc-machine`). In every
//! other build none of it leaves an instruction.

#[cfg(machine)]
unsafe extern "C" {
    safe fn __machine_flush();
    safe fn __machine_use(start: u64, pages: u64);
    safe fn __machine_off();
    safe fn __machine_on();
}

/// Tells that all CPUs forget translations.
#[inline]
pub fn flush() {
    #[cfg(machine)]
    __machine_flush();
}

/// Tells that an area of so many pages is used, which starts there.
#[inline]
pub fn used(_start: u64, _pages: u64) {
    #[cfg(machine)]
    __machine_use(_start, _pages);
}

/// Runs something that is no part of what is measured: it takes no time, and no other thread runs
/// meanwhile.
#[inline]
pub fn quietly<T>(run: impl FnOnce() -> T) -> T {
    #[cfg(machine)]
    __machine_off();
    let done = run();
    #[cfg(machine)]
    __machine_on();
    done
}
