//! The records of frees that a process with reports on traps has.

use crate::error::InspectError;
use crate::memory::{Memory, byte, word};
use serde::Serialize;
use vmalloc_linux::beacon::RecordPlaces;

/// An area that was freed, as the process has recorded it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RecordedFree {
    /// Its first address.
    pub addr: u64,
    /// Its bytes, without the guard page.
    pub bytes: u64,
    /// Its tag.
    pub tag: Option<String>,
    /// The number of the thread that freed it.
    pub thread: u32,
    /// Milliseconds of the machine's clock (`CLOCK_MONOTONIC`) when it did.
    pub at_milliseconds: u64,
    /// Milliseconds since then; `None` of a core dump, which does not say when it was made.
    pub milliseconds_ago: Option<u64>,
    /// Return addresses of the calls that led to the free, innermost first, if they were recorded.
    pub frames: Vec<u64>,
}

/// The most records, and the bytes of one: a bound, and no page size.
const MOST: [u64; 2] = [1 << 20, 1 << 12];

/// Returns the newest record of an area with `addr` in it.
pub(crate) fn find(
    memory: &Memory<'_>,
    records: &RecordPlaces,
    addr: u64,
    clock: Option<u64>,
) -> Result<Option<RecordedFree>, InspectError> {
    let ([ring, count, size], [version, start, bytes, ..]) = (records.ring, records.places);
    if count == 0 || count > MOST[0] || size == 0 || size > MOST[1] {
        return Err(InspectError::damaged("the records of frees"));
    }
    let written = memory.word(records.written)?;
    if written == 0 {
        return Ok(None);
    }
    let all = memory.bytes(ring, count * size)?;
    let record = |nth: u64| all.get((nth % count * size) as usize..);
    let is_it = |record: &&[u8]| {
        let is_whole = word(record, version) != 0 && word(record, version) % 2 == 0;
        is_whole && addr.wrapping_sub(word(record, start)) < word(record, bytes)
    };
    let newest_first = (written.saturating_sub(count)..written).rev();
    let found = newest_first.filter_map(record).find(is_it);
    Ok(found.map(|record| freed(record, records, clock)))
}

fn freed(record: &[u8], records: &RecordPlaces, clock: Option<u64>) -> RecordedFree {
    let [_, addr, bytes, thread, time, tag, frames] = records.places;
    let at_milliseconds = word(record, time);
    let frames = (0..records.words[1].min(64)).map(|nth| word(record, frames.saturating_add(8 * nth)));
    RecordedFree {
        addr: word(record, addr),
        bytes: word(record, bytes),
        tag: tag_at(record, tag),
        thread: word(record, thread) as u32,
        at_milliseconds,
        milliseconds_ago: clock.map(|now| now.saturating_sub(at_milliseconds)),
        frames: frames.take_while(|frame| *frame != 0).collect(),
    }
}

/// Returns the tag of a record: one more than its length, and its bytes.
fn tag_at(record: &[u8], place: u64) -> Option<String> {
    let len = usize::from(byte(record, place)).checked_sub(1)?;
    let from = usize::try_from(place).ok()?.checked_add(1)?;
    let text = record.get(from..)?.get(..len)?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}
