//! The oracle for spaces: addresses and bytes, lazy freeing, and a platform that watches the
//! contract.
//!
//! Where an area is placed is the space's own business: it may reuse what it cached, and what was
//! freed may not be back yet. So placement is not predicted. A [`SpaceSession`] checks
//! instead that each answer is legal, and that everything is there again at the end. A refusal must
//! be true: nothing freed may still be in the way of the request.

mod generator;
mod live;
mod mismatch;
mod null_platform;
mod op;
mod range_set;
mod session;
mod wish;
mod witness;

pub use generator::SpaceGenerator;
pub use mismatch::{SpaceFailure, SpaceMismatch};
pub use null_platform::{Call, FrameCounts, NullPlatform};
pub use op::{SpaceOp, Target};
pub use session::SpaceSession;
pub use wish::{Behind, Content, Wish};
pub use witness::{NoWitness, NullWitness, Witness};
