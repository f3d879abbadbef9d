//! Operations on a space, as plain data.

use super::null_platform::Call;
use super::wish::Wish;

/// One step of a program on a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceOp {
    /// A mapped area.
    Alloc(Wish),
    /// Addresses only.
    Reserve(Wish),
    /// Free it as a mapped area.
    Vfree(Target),
    /// Free it as reserved addresses.
    Unreserve(Target),
    /// Look it up.
    Find(Target),
    /// Walk all areas.
    Walk,
    /// Purge.
    Purge,
    /// Go on on this CPU.
    Move(usize),
    /// Let the `nth` platform call of this kind from now on fail.
    Fail(Call, u64),
}

/// An address, named by what is there when the operation runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The start of the `nth` live area, modulo their number.
    Live(u32),
    /// This many bytes into it, modulo its length.
    Inside(u32, usize),
    /// The start of the `nth` of the areas freed latest.
    Freed(u32),
    /// This address.
    Address(usize),
}
