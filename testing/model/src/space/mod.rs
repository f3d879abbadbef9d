//! A platform for spaces that watches the contract, and has nothing behind its addresses.

mod null_platform;
mod range_set;

pub use null_platform::{Call, FrameCounts, NullPlatform};
