//! A device that makes buffers in memory, and a queue that copies at once.

use std::num::NonZero;
use std::ops::{Deref, DerefMut};

use crate::render_resource::{Buffer, BufferAddress, BufferDescriptor, CommandEncoderDescriptor};

pub struct RenderDevice;

impl RenderDevice {
    pub fn create_buffer(&self, descriptor: &BufferDescriptor) -> Buffer {
        Buffer(std::rc::Rc::new(vec![0; descriptor.size as usize].into()))
    }

    pub fn create_command_encoder(&self, _: &CommandEncoderDescriptor) -> CommandEncoder {
        CommandEncoder(Vec::new())
    }
}

/// A copy between buffers: from where, to where, and how many bytes.
type Copy = ((Buffer, usize), (Buffer, usize), usize);

pub struct CommandEncoder(Vec<Copy>);

impl CommandEncoder {
    pub fn copy_buffer_to_buffer(
        &mut self,
        from: &Buffer,
        from_start: BufferAddress,
        to: &Buffer,
        to_start: BufferAddress,
        size: BufferAddress,
    ) {
        let end = |buffer: &Buffer, start| (buffer.clone(), start as usize);
        self.0.push((end(from, from_start), end(to, to_start), size as usize));
    }

    pub fn finish(self) -> Self {
        self
    }
}

pub struct RenderQueue;

impl RenderQueue {
    pub fn submit(&self, encoders: impl IntoIterator<Item = CommandEncoder>) {
        for ((from, from_start), (to, to_start), size) in encoders.into_iter().flat_map(|it| it.0) {
            let from = from.0.borrow()[from_start..from_start + size].to_vec();
            to.0.borrow_mut()[to_start..to_start + size].copy_from_slice(&from);
        }
    }

    pub fn write_buffer_with(&self, buffer: &Buffer, start: BufferAddress, size: NonZero<u64>) -> Option<View> {
        let bytes = vec![0; size.get() as usize];
        (start + size.get() <= buffer.size()).then(|| View { buffer: buffer.clone(), start: start as usize, bytes })
    }
}

/// Bytes that are written to a buffer when they are dropped.
pub struct View {
    buffer: Buffer,
    start: usize,
    bytes: Vec<u8>,
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for View {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.buffer.0.borrow_mut()[self.start..self.start + self.bytes.len()].copy_from_slice(&self.bytes);
    }
}
