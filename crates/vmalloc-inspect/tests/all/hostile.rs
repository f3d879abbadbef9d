//! Core dumps that were made to mislead a reader end in an error or an answer, and soon.

use std::cell::Cell;
use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use vmalloc::Outline;
use vmalloc_inspect::{CoreDump, Explanation, InspectError, KernelMapping, Residency, Source, Target};
use vmalloc_linux::beacon::Beacon;
use zerocopy::{FromZeros, IntoBytes};

/// The first address of the memory. As a number it is the length of a list, too.
const BASE: u64 = 0x1000;
/// Words each of which is [`BASE`]: wherever a list is read there, it is `BASE` elements from there
/// on.
const EQUAL: Range<u64> = BASE..0x1_2000;
const BEACONS: u64 = EQUAL.end;
const SLOT: u64 = BEACONS + 0x2000;
/// Words that are 0.
const ZEROS: u64 = SLOT + 0x1000;
const MAP_END: u64 = ZEROS + 0x100;
const LIST: u64 = ZEROS + 0x200;
const TABLE: u64 = ZEROS + 0x300;
const LEAVES: u64 = ZEROS + 0x800;
const LEAF_BYTES: u64 = 112;
const ENTRY_BYTES: u64 = 64;
const TABLES: u64 = ZEROS + 0x1000;
const MANY: u64 = 1 << 16;

/// The memory of a dump, with one space of one leaf.
struct Image {
    bytes: Vec<u8>,
    beacon: Beacon,
    outline: Outline,
}

impl Image {
    fn new() -> Self {
        let mut image = Self { bytes: Vec::new(), beacon: beacon(), outline: outline() };
        image.put(EQUAL.start, &[BASE; (EQUAL.end - EQUAL.start) as usize / 8]);
        image.put(TABLES, &[]);
        image.put(MAP_END, &[0x200]);
        image.put(LIST, &[0x77, 3, 11]);
        image.leaf(0, 0, 0);
        image
    }

    fn put(&mut self, addr: u64, words: &[u64]) {
        let from = (addr - BASE) as usize;
        self.bytes.resize(self.bytes.len().max(from + 8 * words.len()), 0);
        self.bytes[from..from + 8 * words.len()].copy_from_slice(words.as_bytes());
    }

    /// Puts leaf `nth`, of areas that are in use, at `page`.
    fn leaf(&mut self, nth: u64, page: u64, next: u64) {
        let words = [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, page + 1, next];
        self.put(LEAVES + nth * LEAF_BYTES, &words);
    }

    /// Writes the dump and opens it.
    fn dump(mut self) -> CoreDump {
        let (mut beacon, outline) = (self.beacon, self.outline);
        self.bytes.resize(self.bytes.len().next_multiple_of(4096), 0);
        let mut place = |addr: u64, bytes: &[u8]| {
            self.bytes[(addr - BASE) as usize..][..bytes.len()].copy_from_slice(bytes);
        };
        for own in [BEACONS, BEACONS + 0x1000] {
            beacon.own = own;
            place(own, beacon.as_bytes());
        }
        place(SLOT, &2_u64.to_le_bytes());
        place(SLOT + 8, outline.as_bytes());
        let len = self.bytes.len() as u64;
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        let halves = |halves: &[u16]| halves.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<_>>();
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        // A core dump with one program header behind this one.
        file.extend(halves(&[4, 62, 1, 0]));
        file.extend(words(&[0, 64, 0]));
        file.extend(halves(&[0, 0, 64, 56, 1, 64, 0, 0]));
        // A segment to be loaded, which may be read.
        file.extend(words(&[4 << 32 | 1, 4096, BASE, 0, len, len, 4096]));
        file.resize(4096, 0);
        file.extend(&self.bytes);
        static FILES: AtomicU64 = AtomicU64::new(0);
        let nth = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vmalloc-hostile-{}-{nth}", std::process::id()));
        fs::write(&path, file).expect("it is written");
        let dump = CoreDump::open(&path).expect("a dump");
        fs::remove_file(&path).expect("it is removed");
        dump
    }

    fn explain(self) -> Result<Explanation, InspectError> {
        let dump = self.dump();
        Target::find(&dump)?.explain(0x10_0000)
    }

    /// Explains an address, and panics where that takes a minute.
    fn explain_soon(self) -> Result<Explanation, InspectError> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || drop(sender.send(self.explain())));
        receiver.recv_timeout(Duration::from_secs(60)).expect("the look ends")
    }
}

fn beacon() -> Beacon {
    let mut beacon = Beacon::new_zeroed();
    (beacon.magic, beacon.version) = (Beacon::MAGIC, Beacon::VERSION);
    beacon.slots = [SLOT, 1, 8 + size_of::<Outline>() as u64, 8];
    (beacon.records.ring, beacon.records.written) = ([ZEROS, 1, 64], ZEROS);
    beacon
}

fn outline() -> Outline {
    let mut outline = Outline::new_zeroed();
    (outline.version, outline.page_shift) = (Outline::VERSION, 12);
    outline.bitmaps = [MAP_END, ZEROS, ZEROS, ZEROS, LEAVES, 4];
    outline.rows = [0, 8, 128, 16, 16, 8 * 17];
    outline.leaf = [0, 32, 64, 96, 104, LEAF_BYTES];
    outline.range = [0, 8, 16];
    outline.nodes = [ZEROS, 1, 64, 0];
    outline.tables = [ZEROS, 0, 64, 0];
    outline.stacks = [0, 8, 0, 8];
    outline.sizes = BASE;
    outline.large = [ZEROS, 0, 16];
    outline.purge = [ZEROS, 16, 0, 0, ZEROS];
    outline.deferred = ZEROS;
    outline.counts = [ZEROS; 4];
    outline.list = [LIST, 0x77, 3, 11];
    outline.entry = [ENTRY_BYTES, 0, 8, 9, 16, 10, 24, 25, 56];
    (outline.notes, outline.note_rows) = (ZEROS, outline.rows);
    outline
}

/// Returns whether all states and tags could be read.
fn is_whole(explained: Result<Explanation, InspectError>) -> bool {
    explained.expect("an answer").place.expect("it is in the space").is_whole
}

#[test]
fn a_made_dump_is_read() {
    let image = Image::new();
    assert!(is_whole(image.explain_soon()));
}

#[test]
fn a_beacon_or_an_outline_of_another_version_is_told() {
    let changes: [fn(&mut Image); 2] =
        [|image| image.beacon.version = 77, |image| image.outline.version = 77];
    for (change, known) in changes.into_iter().zip([Beacon::VERSION, Outline::VERSION]) {
        let mut image = Image::new();
        change(&mut image);
        let told = image.explain_soon().map(drop);
        assert_eq!(told, Err(InspectError::OtherVersion { found: 77, known }));
    }
}

/// 4,096 nodes of 4,096 stacks of 4,096 areas, all of them the same few words.
#[test]
fn lists_that_lie_one_upon_another_end_soon() {
    let mut image = Image::new();
    image.outline.nodes = [BASE, BASE, 8, 0];
    assert!(!is_whole(image.explain_soon()), "not all of them were read");
}

/// 65,536 tables with one entry that leads to itself.
#[test]
fn tables_whose_entries_lead_in_circles_end_soon() {
    let mut image = Image::new();
    for nth in 0..MANY {
        image.put(TABLES + 16 * nth, &[TABLE]);
    }
    image.put(TABLE + 56, &[TABLE; 4]);
    image.outline.tables = [TABLES, MANY, 16, 0];
    assert!(!is_whole(image.explain_soon()), "not all of them were read");
}

#[test]
fn records_of_no_size_are_refused() {
    let changes: [fn(&mut Image); 8] = [
        |image| image.beacon.slots = [SLOT, 4096, 0, 0],
        |image| image.beacon.slots[2] = 8,
        |image| image.beacon.records.ring[2] = 0,
        |image| image.outline.nodes = [BASE, MANY, 0, 0],
        |image| image.outline.tables = [ZEROS, MANY, 0, 0],
        |image| image.outline.stacks[3] = 0,
        |image| image.outline.large[2] = 0,
        |image| image.outline.purge[1] = 0,
    ];
    for (nth, change) in changes.into_iter().enumerate() {
        let mut image = Image::new();
        change(&mut image);
        let found = image.explain_soon();
        assert!(matches!(found, Err(InspectError::Damaged { .. })), "change {nth}: {found:?}");
    }
}

/// Each of two copies of the library says that it wrote as many records as a word can count.
#[test]
fn counts_of_frees_that_overflow_are_told() {
    let mut image = Image::new();
    image.put(ZEROS + 0x80, &[u64::MAX]);
    image.beacon.records.written = ZEROS + 0x80;
    let dump = image.dump();
    assert_eq!(Target::find(&dump).expect("a target").recorded_frees(), Ok(Some(u64::MAX)));
}

/// Two areas, each of which is larger than all addresses.
#[test]
fn areas_whose_bytes_overflow_are_summed_up() {
    let mut image = Image::new();
    image.outline.page_shift = 21;
    for (nth, next) in [(0, 2), (1, 3), (2, 0)] {
        image.leaf(nth, nth << 43, next);
    }
    image.put(MAP_END, &[3 << 43]);
    let dump = image.dump();
    let target = Target::find(&dump).expect("a target");
    let tally = target.spaces().expect("a space")[0].snapshot().expect("a snapshot").tally();
    assert_eq!(
        tally.tags.iter().map(|tagged| (tagged.areas, tagged.bytes)).collect::<Vec<_>>(),
        [(3, u64::MAX)]
    );
}

/// A dense leaf is found in each of the three levels of its array, and behind them is none.
#[test]
fn leaves_of_all_three_levels_are_found() {
    const ARRAY: u64 = TABLES;
    /// Chunks in a far table.
    const FAR: u64 = 32;
    let [near, far, end] = [16, FAR, FAR * FAR].map(|chunks| 128 * chunks);
    // A table of chunks, and a list of tables; each has its last entry.
    let (table, list) = (ARRAY + 0x100, ARRAY + 0x200);
    let chunk = LEAVES + LEAF_BYTES - 127 * LEAF_BYTES;
    for (index, is_found) in [(near - 1, true), (far - 1, true), (end - 1, true), (end, false)] {
        let mut image = Image::new();
        image.put(ARRAY, &[table]);
        image.put(ARRAY + 8 + 8 * 15, &[chunk, list]);
        image.put(table + 8 * (FAR - 1), &[chunk]);
        image.put(list + 8 * (FAR - 1), &[table]);
        image.outline.rows[4] = FAR;
        image.outline.bitmaps[3] = ARRAY;
        // Leaf 1 is the last of its chunk.
        image.leaf(0, 0, index + 1);
        image.leaf(1, 0x100, 0);
        let explained = image.explain_soon();
        match is_found {
            true => assert_eq!(explained.expect("an answer").place.expect("a place").segment.addr, 0x10_0000),
            false => assert!(matches!(explained, Err(InspectError::Damaged { .. })), "{explained:?}"),
        }
    }
}

/// 65,000 mappings that may be read, of 16 MiB each: a process may map one page often.
struct Endless {
    mapping: KernelMapping,
    reads: Cell<u64>,
}

impl Source for Endless {
    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<usize, InspectError> {
        self.reads.set(self.reads.get() + 1);
        Ok(buffer.len())
    }

    fn mappings(&self) -> Result<Vec<KernelMapping>, InspectError> {
        let nth = |nth: u64| {
            let mut mapping = self.mapping.clone();
            (mapping.start, mapping.end) = (nth << 24, (nth + 1) << 24);
            mapping
        };
        Ok((1..65_000).map(nth).collect())
    }

    fn residency(&self, _: Range<u64>, _: u64) -> Option<Residency> {
        None
    }

    fn clock(&self) -> Option<u64> {
        None
    }
}

#[test]
fn so_many_read_only_pages_are_looked_at_and_no_more() {
    let mapping = Image::new().dump().mappings().expect("it has one").remove(0);
    let source = Endless { mapping, reads: Cell::new(0) };
    let found = Target::find(&source).map(drop);
    assert_eq!(found, Err(InspectError::TooManyPages { limit: 1 << 20 }));
    assert!(source.reads.get() <= 1 << 20);
}

/// Leaves of 112 bytes, each with 256 segments: 33 million of them, and more.
#[test]
fn a_map_of_more_segments_than_are_read_is_refused() {
    const COUNT: u64 = (1 << 17) + 1;
    let mut image = Image::new();
    let all: Vec<u64> = (0..COUNT)
        .flat_map(|nth| {
            let next = if nth + 1 < COUNT { nth + 2 } else { 0 };
            let [starts, rest] = [u64::MAX, 0];
            [
                starts,
                starts,
                starts,
                starts,
                rest,
                rest,
                rest,
                rest,
                rest,
                rest,
                rest,
                rest,
                256 * nth + 1,
                next,
            ]
        })
        .collect();
    image.put(TABLES, &all);
    (image.outline.bitmaps[4], image.outline.bitmaps[5]) = (TABLES, COUNT);
    image.put(MAP_END, &[256 * COUNT]);
    let found = image.explain_soon().map(drop);
    assert!(matches!(found, Err(InspectError::TooLarge { .. })), "{found:?}");
}
