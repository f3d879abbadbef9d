//! What is done to a space, as plain data.

use super::null_platform::Call;

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

/// A request in bytes, right or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// How many bytes.
    pub bytes: usize,
    /// In bytes; 0 = none was asked for.
    pub align: usize,
    /// Where, in bytes; whole pages.
    pub within: Option<(usize, usize)>,
    /// Memory that reads as zero.
    pub content: Content,
    /// What stands behind the area.
    pub behind: Behind,
    /// The caller's name for it.
    pub tag: Option<&'static str>,
}

/// What a new area holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Anything.
    Any,
    /// Zeros.
    Zeros,
}

/// What stands behind an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// What the configuration says.
    Default,
    /// No guard page.
    Nothing,
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
