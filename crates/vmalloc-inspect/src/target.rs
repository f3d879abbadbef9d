//! The beacon of a process, and the outlines of its spaces.

use crate::error::InspectError;
use crate::memory::{KernelMapping, Memory, Source, at, nth};
use crate::snapshot::Snapshot;
use vmalloc::Outline;
use vmalloc_linux::beacon::{Beacon, RecordPlaces};
use zerocopy::FromBytes;

/// A process or a core dump, and the spaces that were found in it.
pub struct Target<'s> {
    pub(crate) source: &'s dyn Source,
    spaces: Vec<SpaceView<'s>>,
    /// Of each copy of the library in the process.
    pub(crate) records: Vec<RecordPlaces>,
    /// The reason why a space could not be told, where there was one.
    pub(crate) trouble: Option<InspectError>,
}

/// A space that was found.
pub struct SpaceView<'s> {
    pub(crate) source: &'s dyn Source,
    pub(crate) outline: Outline,
}

/// Pages of one mapping that are looked at for a beacon, and pages of all: numbers, and no page
/// sizes.
const MOST_PAGES: [u64; 2] = [4096, 1 << 20];
/// The most copies of the library in one process.
const MOST_COPIES: usize = 64;
/// Bytes from one look to the next: the smallest pages that there are. It is no page size of this
/// machine, for a core dump may be of another.
const STEP: u64 = 4096;
/// The most slots of a beacon: a number, and no page size.
const MOST_SLOTS: u64 = 4096;
/// The largest record that is no list, and the largest place in one.
const MOST_PLACE: u64 = 1 << 16;

impl<'s> Target<'s> {
    /// Finds the spaces of a process or a core dump: none where there are none.
    ///
    /// # Errors
    /// When the process can't be read, or has ended.
    pub fn find(source: &'s dyn Source) -> Result<Self, InspectError> {
        let (mut spaces, mut all, mut trouble) = (Vec::new(), Vec::new(), None);
        for beacon in beacons(source)? {
            if beacon.version == Beacon::VERSION {
                all.push(beacon.records);
            }
            let mut enter = |outline| match outline {
                Ok(outline) => spaces.push(SpaceView { source, outline }),
                Err(error) => trouble = Some(error),
            };
            match outlines(source, &beacon) {
                Ok(found) => found.into_iter().map(checked).for_each(enter),
                Err(error) => enter(Err(error)),
            }
        }
        spaces.sort_by_key(SpaceView::start);
        // No two spaces share addresses.
        spaces.dedup_by_key(|space| space.start());
        Ok(Self { source, spaces, records: all, trouble })
    }

    /// Returns the spaces, by address. One at least.
    ///
    /// # Errors
    /// [`InspectError::NoSpace`], or why what was found can't be read.
    pub fn spaces(&self) -> Result<&[SpaceView<'s>], InspectError> {
        match &self.trouble {
            _ if !self.spaces.is_empty() => Ok(&self.spaces),
            trouble => Err(self.source.cut().or(trouble.clone()).unwrap_or(InspectError::NoSpace)),
        }
    }

    /// Returns how many frees the process has recorded so far, those of which the record was
    /// overwritten too; `None` if it has recorded none. It records those of areas that trap as soon
    /// as they are freed, once it has asked for reports on traps.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn recorded_frees(&self) -> Result<Option<u64>, InspectError> {
        let memory = Memory::new(self.source);
        let written = self.records.iter().map(|records| memory.word_now(records.written));
        // Of damaged records, any words.
        let sum = written.reduce(|sum, written| Ok(sum?.saturating_add(written?))).transpose()?;
        Ok(sum.filter(|sum| *sum != 0))
    }

    /// Returns the mapping that holds `addr`.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn mapping(&self, addr: u64) -> Result<Option<KernelMapping>, InspectError> {
        let mappings = self.source.mappings()?;
        Ok(mappings.into_iter().find(|mapping| mapping.start <= addr && addr < mapping.end))
    }
}

impl<'s> SpaceView<'s> {
    /// Returns the first address of the span.
    pub(crate) fn start(&self) -> u64 {
        self.outline.first_pages[0].saturating_mul(1 << self.outline.page_shift)
    }

    /// Reads the space.
    ///
    /// # Errors
    /// When the process has ended, or no state of a space is found there.
    pub fn snapshot(&self) -> Result<Snapshot<'s>, InspectError> {
        Snapshot::take(self).map_err(|error| self.source.cut().unwrap_or(error))
    }
}

/// Returns the beacons of all copies of the library in the process.
fn beacons(source: &dyn Source) -> Result<Vec<Beacon>, InspectError> {
    let [of_one, of_all] = MOST_PAGES;
    let mappings = source.mappings()?;
    let candidates = mappings.iter().filter(|mapping| is_candidate(mapping));
    let pages = candidates
        .flat_map(|mapping| (mapping.start..mapping.end).step_by(STEP as usize).take(of_one as usize));
    let mut found = Vec::new();
    for (nth, page) in (0..).zip(pages) {
        if nth == of_all && found.is_empty() {
            return Err(InspectError::TooManyPages { limit: of_all });
        }
        if nth == of_all || found.len() == MOST_COPIES {
            break;
        }
        let mut bytes = [0; size_of::<Beacon>()];
        let is_whole = source.read_at(page, &mut bytes)? == bytes.len();
        let beacon = Beacon::read_from_bytes(&bytes).ok();
        let is_own = |beacon: &Beacon| beacon.magic == Beacon::MAGIC && beacon.own == page;
        found.extend(beacon.filter(|beacon| is_whole && is_own(beacon)));
    }
    Ok(found)
}

/// Returns true for what a beacon lies in: read-only memory of no file.
fn is_candidate(mapping: &KernelMapping) -> bool {
    let is_named = mapping.name.as_deref().is_some_and(|name| !name.starts_with("[anon"));
    mapping.rights.starts_with("r--") && !mapping.rights.ends_with('s') && !mapping.is_file && !is_named
}

/// Returns the outlines that a beacon leads to.
fn outlines(source: &dyn Source, beacon: &Beacon) -> Result<Vec<Outline>, InspectError> {
    let known = Beacon::VERSION;
    if beacon.version != known {
        return Err(InspectError::OtherVersion { found: beacon.version, known });
    }
    let [first, count, size, place] = beacon.slots;
    let end = place.saturating_add(size_of::<Outline>() as u64);
    if count > MOST_SLOTS || size > MOST_PLACE || end > size {
        return Err(InspectError::damaged("the slots of its beacon"));
    }
    let mut outlines = Vec::new();
    for slot in 0..count {
        let slot = nth(first, slot, size)?;
        outlines.extend(read_slot(source, slot, at(slot, place)?)?);
    }
    Ok(outlines)
}

/// Returns the outline of a slot; `None` if it is empty, or changes all the time.
fn read_slot(source: &dyn Source, slot: u64, outline: u64) -> Result<Option<Outline>, InspectError> {
    for _ in 0..ATTEMPTS {
        let memory = Memory::new(source);
        let state = memory.word_now(slot)?;
        if state == 0 {
            return Ok(None);
        }
        let bytes = memory.bytes(outline, size_of::<Outline>() as u64)?;
        if state > 1 && memory.word_now(slot)? == state {
            return Ok(Outline::read_from_bytes(&bytes).ok());
        }
    }
    Ok(None)
}

/// How often something is read again that was being written.
pub(crate) const ATTEMPTS: usize = 32;

/// Checks that an outline is of this version and makes sense, so that no count or place in it leads
/// far.
fn checked(outline: Outline) -> Result<Outline, InspectError> {
    let (found, known) = (outline.version, Outline::VERSION);
    if found != known {
        return Err(InspectError::OtherVersion { found, known });
    }
    let Outline { leaf, range, node, stacks, entry, .. } = &outline;
    let places = [
        &leaf[..],
        range,
        node,
        stacks,
        entry,
        &outline.rows,
        &outline.note_rows,
        &outline.large[1..],
        &outline.purge[1..4],
    ];
    let are_small = places.iter().all(|places| places.iter().all(|place| *place <= MOST_PLACE));
    let is_page = (12..=21).contains(&outline.page_shift) && outline.guard_pages <= 1;
    let counts = [outline.nodes[1], outline.tables[1], outline.sizes];
    let are_few = counts.iter().all(|count| *count <= MOST_PLACE);
    let rows = [outline.nodes, outline.tables];
    let are_rows = rows.iter().all(|row| row[2] <= MOST_PLACE && row[3] < row[2]);
    // Else there is no end of entries in a few bytes.
    let have_sizes = outline.stacks[3] >= 8 && outline.large[2] >= 8 && outline.purge[1] >= 8;
    // Chunks are divided by.
    let counts = outline.rows[2..5].iter().chain(&outline.note_rows[2..5]);
    let has_chunks = counts.into_iter().all(|count| *count != 0);
    let has_sizes = outline.leaf[5] >= 32 && outline.range[2] >= 16;
    let are_sizes = has_sizes && have_sizes && outline.entry[0] >= 48 && outline.root <= MOST_PLACE;
    match are_small && is_page && are_few && are_rows && has_chunks && are_sizes {
        true => Ok(outline),
        false => Err(InspectError::damaged("its outline")),
    }
}
