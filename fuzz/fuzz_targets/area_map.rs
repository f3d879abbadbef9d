//! The area map against the reference. The first byte picks the load, the second where the records live, the
//! rest is the program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vmalloc::AreaMap;
use vmalloc_model::{Bytes, Checks, Generator, Map, MetadataLimit, Profile, Session};

fuzz_target!(|input: &[u8]| {
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
});

fn compare(map: impl Map, profile: Profile, program: &[u8], metadata: MetadataLimit) {
    let mut session = Session::new(map, Checks { metadata, ..Checks::default() });
    let mut generator = Generator::new(profile, Bytes::new(program));
    while let Some(op) = generator.next(session.live()) {
        session.step(&op).unwrap_or_else(|mismatch| panic!("{}: {op:?}: {mismatch}", profile.name));
    }
    session.finish().unwrap_or_else(|mismatch| panic!("{}: {mismatch}", profile.name));
}
