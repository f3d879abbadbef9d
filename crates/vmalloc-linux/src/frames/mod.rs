//! Frames: pages that can be mapped at several addresses at once.
//!
//! ```text
//!  mappings.rs  maps frames in the span ──┬─► supply.rs  which frames are free ──► bitmap.rs  sets of frames
//!                                         └─► table.rs   what stands behind which page
//! ```

pub(crate) mod bitmap;
pub(crate) mod mappings;
pub(crate) mod supply;
pub(crate) mod table;
