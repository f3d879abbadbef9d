//! The same for the space.
