//! What the module asks of `bevy_render`, with buffers in memory, and the module itself.

// The module names this crate `bevy_render`.
extern crate self as bevy_render;

pub mod persistent_buffer;
pub mod render_resource;
pub mod renderer;
