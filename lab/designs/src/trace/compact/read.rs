//! Reading, a block at a time.

use super::code::Before;
use super::varint::take;
use super::{MAGIC, MOST_BYTES};
use crate::trace::account::{Damage, Place, Reason};
use crate::trace::event::Event;
use std::io::{ErrorKind, Read};

/// The events of a file. Damage ends it.
pub(in crate::trace) struct Blocks<R> {
    source: R,
    before: Before,
    payload: Vec<u8>,
    /// Where in the payload the next event is.
    at: usize,
    /// Events of the block that are still to come.
    left: u64,
    /// Where the block began.
    block: u64,
    /// Bytes read, and events given.
    offset: u64,
    events: u64,
    ended: bool,
}

impl<R: Read> Blocks<R> {
    /// Behind the magic, which must be there.
    pub(in crate::trace) fn new(source: R) -> Self {
        Self {
            source,
            before: Before::default(),
            payload: Vec::new(),
            at: 0,
            left: 0,
            block: 0,
            offset: 0,
            events: 0,
            ended: false,
        }
    }

    /// The next event.
    pub(in crate::trace) fn next(&mut self) -> Option<Result<Event, Damage>> {
        if self.ended {
            return None;
        }
        let event = self.advance();
        self.ended = !matches!(event, Ok(Some(_)));
        let at = Place::Byte { offset: self.block, events: self.events };
        self.events += u64::from(!self.ended);
        event.map_err(|reason| Damage { at, reason }).transpose()
    }

    fn advance(&mut self) -> Result<Option<Event>, Reason> {
        if self.offset == 0 {
            self.begin()?;
        }
        if self.left == 0 && !self.next_block()? {
            return Ok(None);
        }
        let mut rest = &self.payload[self.at..];
        let event = self.before.take(&mut rest).map_err(Reason::Block)?;
        (self.at, self.left) = (self.payload.len() - rest.len(), self.left - 1);
        Ok(Some(event))
    }

    fn begin(&mut self) -> Result<(), Reason> {
        let mut magic = [0; MAGIC.len()];
        self.read(&mut magic)?;
        if &magic == MAGIC { Ok(()) } else { Err(Reason::Block("beginning")) }
    }

    /// Reads a block; whether there was one.
    fn next_block(&mut self) -> Result<bool, Reason> {
        if self.at != self.payload.len() {
            return Err(Reason::Block("number of events"));
        }
        self.block = self.offset;
        let mut checksum = crc32fast::Hasher::new();
        let events = self.number(&mut checksum)?;
        let bytes = self.number(&mut checksum)?;
        let last = events == 0;
        if !last && (bytes > MOST_BYTES || events > bytes) {
            return Err(Reason::Block("length"));
        }
        self.read_payload(if last { 0 } else { bytes })?;
        checksum.update(&self.payload);
        let mut stored = [0; 4];
        self.read(&mut stored)?;
        if checksum.finalize() != u32::from_le_bytes(stored) {
            return Err(Reason::Checksum);
        }
        if last {
            self.end(bytes)?;
        }
        self.left = events;
        Ok(!last)
    }

    fn end(&mut self, events: u64) -> Result<(), Reason> {
        if events != self.events {
            return Err(Reason::Block("number of events"));
        }
        match self.read(&mut [0]) {
            Err(Reason::CutShort) => Ok(()),
            Ok(()) => Err(Reason::BehindTheEnd),
            Err(error) => Err(error),
        }
    }

    fn number(&mut self, checksum: &mut crc32fast::Hasher) -> Result<u64, Reason> {
        let mut digits = Vec::new();
        loop {
            let mut byte = [0];
            self.read(&mut byte)?;
            checksum.update(&byte);
            digits.extend(byte);
            if byte[0] < 0x80 {
                return take(&mut digits.as_slice()).ok_or(Reason::Block("number"));
            }
            if digits.len() >= 10 {
                return Err(Reason::Block("number"));
            }
        }
    }

    fn read_payload(&mut self, bytes: u64) -> Result<(), Reason> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(bytes as usize, 0);
        self.at = 0;
        let read = self.read(&mut payload);
        self.payload = payload;
        read
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), Reason> {
        self.source.read_exact(into).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Reason::CutShort,
            _ => Reason::Unreadable(error.to_string()),
        })?;
        self.offset += into.len() as u64;
        Ok(())
    }
}
