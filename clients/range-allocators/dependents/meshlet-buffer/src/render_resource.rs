//! Buffers in memory.

use std::cell::RefCell;
use std::ops::{BitOr, RangeFull};
use std::rc::Rc;

pub type BufferAddress = u64;
pub const COPY_BUFFER_ALIGNMENT: BufferAddress = 4;

/// A buffer, of which clones share the bytes.
#[derive(Clone)]
pub struct Buffer(pub(crate) Rc<RefCell<Vec<u8>>>);

impl Buffer {
    pub fn size(&self) -> BufferAddress {
        self.0.borrow().len() as BufferAddress
    }

    pub fn as_entire_binding(&self) -> BindingResource<'_> {
        BindingResource(self, ..)
    }
}

pub struct BindingResource<'a>(pub &'a Buffer, pub RangeFull);

pub struct BufferDescriptor {
    pub label: Option<&'static str>,
    pub size: BufferAddress,
    pub usage: BufferUsages,
    pub mapped_at_creation: bool,
}

pub struct BufferUsages;

impl BufferUsages {
    pub const STORAGE: Self = Self;
    pub const COPY_DST: Self = Self;
    pub const COPY_SRC: Self = Self;
}

impl BitOr for BufferUsages {
    type Output = Self;

    fn bitor(self, _: Self) -> Self {
        self
    }
}

pub struct CommandEncoderDescriptor {
    pub label: Option<&'static str>,
}
