//! Protocols broken on purpose, for explored schedules: no ordinary build has any.

/// Returns true if the child of a fork must leave all sub-spaces as other threads had them.
#[cfg(shuttle)]
pub(crate) fn leaves_changing() -> bool {
    vmalloc::sync::is(vmalloc::sync::Mutant::ForkAsItIs)
}

/// Returns false: the child of a fork repairs what other threads were doing.
#[cfg(not(shuttle))]
pub(crate) const fn leaves_changing() -> bool {
    false
}
