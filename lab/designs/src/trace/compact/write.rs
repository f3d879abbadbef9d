//! Writing.

use super::code::Before;
use super::varint::put;
use super::{BLOCK_BYTES, MAGIC};
use crate::trace::event::Event;
use std::io::{self, Write};

/// Writes events. Without [`finish`](Self::finish) the file has no end, and readers say so.
#[derive(Debug)]
pub struct Writer<W> {
    into: W,
    before: Before,
    payload: Vec<u8>,
    in_block: u64,
    all: u64,
}

impl<W: Write> Writer<W> {
    /// Begins.
    ///
    /// # Errors
    /// Those of `into`.
    pub fn new(mut into: W) -> io::Result<Self> {
        into.write_all(MAGIC)?;
        Ok(Self { into, before: Before::default(), payload: Vec::new(), in_block: 0, all: 0 })
    }

    /// Writes an event.
    ///
    /// # Errors
    /// Those of what is written to.
    pub fn push(&mut self, event: &Event) -> io::Result<()> {
        self.before.put(event, &mut self.payload);
        self.in_block += 1;
        if self.payload.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Ends the file; what it was written to, and how many events it has.
    ///
    /// # Errors
    /// Those of what is written to.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        if self.in_block != 0 {
            self.end_block()?;
        }
        let all = self.all;
        self.block(0, all)?;
        self.into.flush()?;
        Ok((self.into, self.all))
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.all += self.in_block;
        self.block(self.in_block, self.payload.len() as u64)?;
        self.payload.clear();
        self.in_block = 0;
        Ok(())
    }

    fn block(&mut self, events: u64, bytes: u64) -> io::Result<()> {
        let mut head = Vec::new();
        put(&mut head, events);
        put(&mut head, bytes);
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&head);
        checksum.update(&self.payload);
        self.into.write_all(&head)?;
        self.into.write_all(&self.payload)?;
        self.into.write_all(&checksum.finalize().to_le_bytes())
    }
}
