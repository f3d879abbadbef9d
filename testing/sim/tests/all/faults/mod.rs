//! Failures in what is no act of a program, and what only a scene of its own brings about. Each
//! step of each act fails in [`walks`](crate::walks).

mod free;
mod new;
mod notifiers;
mod owned;
mod scene;
mod subspaces;
