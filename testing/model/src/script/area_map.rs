//! The area map against the reference.

use crate::{Bytes, Checks, Generator, MetadataLimit, Profile, Session, Source};
use vmalloc_map::{AreaMap, PageRange};

/// Spans in which the reference for congruent areas is quick enough: it tries every base.
const CONGRUENT_PAGES: u64 = 2000;

/// The first byte picks the load, the second where the records live, the rest is the program:
/// requests of every policy, and congruent areas where the span is small.
pub fn area_map(input: &[u8]) {
    let [load, storage, program @ ..] = input else { return };
    let profile = Profile::ALL[usize::from(*load) % Profile::ALL.len()];
    if *storage < 128 {
        let map = AreaMap::new(profile.span()).expect("the heap has room");
        compare(map, profile, program, MetadataLimit::None);
        return;
    }
    let mut buffer = vec![0; (usize::from(*storage) - 127) << 10];
    if let Ok(map) = AreaMap::in_buffer(profile.span(), &mut buffer) {
        compare(map, profile, program, MetadataLimit::MayRunOut);
    }
}

fn compare(map: AreaMap<'_>, profile: Profile, program: &[u8], metadata: MetadataLimit) {
    let mut session = Session::new(map, Checks { metadata, ..Checks::default() });
    // Congruent groups are drawn from the same bytes, back to front, so that operations are what
    // they were without.
    let mirrored: Vec<u8> = program.iter().rev().copied().collect();
    let mut groups = Bytes::new(&mirrored);
    let mut generator = Generator::new(profile, Bytes::new(program));
    while let Some(op) = generator.next(session.live()) {
        session.step(&op).unwrap_or_else(|mismatch| panic!("{}: {op:?}: {mismatch}", profile.name));
        if profile.span().len() <= CONGRUENT_PAGES && groups.chance(40) {
            let group = Group::draw(&mut groups, profile.span());
            let agreed = session.congruent(&group.offsets, &group.sizes, group.align, group.within);
            agreed.unwrap_or_else(|mismatch| panic!("{}: {group:?}: {mismatch}", profile.name));
        }
    }
    session.finish().unwrap_or_else(|mismatch| panic!("{}: {mismatch}", profile.name));
}

/// A request for congruent areas.
#[derive(Debug)]
struct Group {
    offsets: Vec<u64>,
    sizes: Vec<u64>,
    align: u64,
    within: Option<PageRange>,
}

impl Group {
    /// Returns up to four areas with gaps between them, last one first every other time.
    fn draw(source: &mut Bytes<'_>, span: PageRange) -> Self {
        let count = source.between(1, 4) as usize;
        let (mut offsets, mut sizes, mut end) = (Vec::new(), Vec::new(), 0);
        for _ in 0..count {
            let (gap, pages) = (source.below(32), source.between(1, 8));
            offsets.push(end + gap);
            sizes.push(pages);
            end += gap + pages;
        }
        if source.chance(128) {
            offsets.reverse();
            sizes.reverse();
        }
        let within = source.chance(64).then(|| {
            let (a, b) = (source.below(span.len()), source.below(span.len()));
            PageRange::new(span.start() + a.min(b), span.start() + a.max(b))
        });
        Self { offsets, sizes, align: 1 << source.below(5), within: within.flatten() }
    }
}
