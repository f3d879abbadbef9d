//! Owned types on real memory: what they own ends with them, wherever they are dropped.

use crate::common::{assert_whole, page_bytes};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vmalloc_harness::resident;
use vmalloc_linux::{
    Area, Buffer, CodeBuffer, Frames, Linux, LinuxOptions, Mapping, PagedArea, ReadOnlyMapping, Request,
    Reservation, Space, SpaceOptions, Tag, Zeroed, open,
};
use vmalloc_short::{ShortMapping, ShortMaps};

fn space() -> Arc<Space<Linux>> {
    open(LinuxOptions::new().frame_bytes(64 * page_bytes()), SpaceOptions::default().cache_bytes(1 << 20))
        .unwrap()
}

/// Nothing is busy, and all frames are in the supply again after a purge.
fn assert_nothing_left(space: &Space<Linux>) {
    assert_whole(space);
    drop(space.frames(64).expect("all frames are in the supply"));
}

#[test]
fn frames_go_back_when_they_and_all_their_mappings_are_gone_and_flushed() {
    let space = space();
    let refused = [Frames::consecutive(&*space, 8, 3), Frames::consecutive(&*space, 0, 1), space.frames(0)];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    let row = Frames::consecutive(&*space, 8, 4).unwrap();
    assert!(row[0].0.is_multiple_of(4) && row.windows(2).all(|pair| pair[1] == pair[0].plus(1)));
    drop(row);
    let mut frames = Frames::new(space.clone(), 64).unwrap();
    frames.swap(0, 63);
    assert!(space.frames(1).is_err(), "the supply is empty");
    let short = ShortMaps::of(space.clone()).unwrap();
    let one = Mapping::new(&frames).unwrap();
    let (two, three) = (ShortMapping::new(&short, &frames).unwrap(), ReadOnlyMapping::new(&frames).unwrap());
    drop(frames);
    one.atomics()[5 * page_bytes() + 3].store(77, Relaxed);
    let mut read = [0; 2];
    assert_eq!(
        (two.atomics()[5 * page_bytes() + 3].load(Relaxed), three.read(5 * page_bytes() + 3, &mut read)),
        (77, 2)
    );
    assert_eq!(read, [77, 0]);
    assert!(space.frames(1).is_err(), "mappings keep the frames");
    drop((one, two));
    assert!(space.frames(1).is_err(), "one is left");
    drop(three);
    // The supply is short, so the space purges first, and the frames go back after its flush.
    drop(space.frames(64).unwrap());
    assert_nothing_left(&space);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn sealed_code_is_called_by_its_entry() {
    let space = space();
    let mut buffer = CodeBuffer::new(&*space, &Request::new(page_bytes())).unwrap();
    buffer[7..11].copy_from_slice(&[0x8d, 0x47, 0x01, 0xc3]); // lea eax, [rdi + 1]; ret
    let code = buffer.seal().unwrap();
    // SAFETY: that function begins there, and the code outlives its calls.
    let next = unsafe { code.entry::<extern "sysv64" fn(i32) -> i32>(7) }.unwrap();
    assert_eq!(next(41), 42);
    // SAFETY: nothing is called.
    assert!(unsafe { code.entry::<extern "C" fn()>(page_bytes()) }.is_none(), "behind the end");
}

#[test]
fn mappings_are_read_written_and_copied_in_bulk() {
    let space = space();
    let frames = space.frames(2).unwrap();
    let (one, other) = (Mapping::new(&frames).unwrap(), ReadOnlyMapping::new(&frames).unwrap());
    let end = 2 * page_bytes();
    assert_eq!((one.write(page_bytes() - 4, b"across a page"), one.write(end - 3, b"12345")), (13, 3));
    assert_eq!((one.write(end, b"1"), one.write(usize::MAX, b"1")), (0, 0));
    let mut text = [0; 13];
    assert_eq!((other.read(page_bytes() - 4, &mut text), &text), (13, b"across a page"));
    assert_eq!((one.read(end - 3, &mut text), &text[..3]), (3, &b"123"[..]));

    let shown = |at: usize, count: usize| {
        let mut bytes = vec![0; count];
        assert_eq!(one.read(at, &mut bytes), count);
        String::from_utf8(bytes).unwrap()
    };
    one.write(0, b"abcdef..........");
    assert_eq!((one.copy_within(0..6, 2), shown(0, 8)), (6, "ababcdef".into()), "upwards");
    assert_eq!((one.copy_within(2..8, 0), shown(0, 8)), (6, "abcdefef".into()), "downwards");
    assert_eq!((one.copy_within(0..6, end - 2), shown(end - 2, 2)), (2, "ab".into()), "at the end");
    assert_eq!((one.copy_within(end - 2..usize::MAX, 8), shown(8, 3)), (2, "ab.".into()));
    #[allow(clippy::reversed_empty_ranges)]
    let none =
        [one.copy_within(5..4, 0), one.copy_within(end..end + 9, 0), one.copy_within(0..4, usize::MAX)];
    assert_eq!(none, [0; 3]);
}

/// New pages of a zeroed buffer are zeros already, and take no memory before they are used.
#[test]
fn a_zeroed_buffer_that_grows_in_place_touches_no_new_page() {
    let space = space();
    let mut buffer: Buffer<_, Zeroed> = Buffer::new(&*space, &Request::new(3 * page_bytes() - 100)).unwrap();
    buffer[0] = 1;
    buffer.grow_in_place(5000 * page_bytes() + 1).unwrap();
    let touched = resident(buffer.addr()..buffer.addr() + buffer.len());
    assert!(touched <= 3, "{touched} pages");
    assert!(buffer.len() == 5000 * page_bytes() + 1 && buffer[1..].iter().all(|&byte| byte == 0));
}

#[test]
fn all_that_is_owned_tells_its_length_in_bytes_and_one_address() {
    let space = space();
    let mut area = Area::new(&*space, &Request::new(page_bytes() + 1)).unwrap();
    assert_eq!(
        (area.len(), area.capacity(), area.as_ptr().addr()),
        (page_bytes() + 1, 2 * page_bytes(), area.addr())
    );
    area.grow_in_place(3 * page_bytes()).unwrap();
    area.grow_in_place(page_bytes()).unwrap();
    assert_eq!((area.len(), area.capacity()), (3 * page_bytes(), 3 * page_bytes()));
    let mut buffer: Buffer<_, Zeroed> = Buffer::new(&*space, &Request::new(2 * page_bytes())).unwrap();
    buffer.grow_in_place(9 * page_bytes()).unwrap();
    buffer.shrink_in_place(page_bytes() + 1).unwrap();
    assert_eq!((buffer.len(), buffer.capacity()), (page_bytes() + 1, 2 * page_bytes()));
    // SAFETY: it was leaked, and has no other owner.
    let area = unsafe { Area::from_raw(&*space, area.leak()) };
    let reservation = Reservation::new(&*space, &Request::new(page_bytes() - 1)).unwrap();
    let paged = PagedArea::new(&*space, &Request::new(page_bytes() - 1)).unwrap();
    let code = CodeBuffer::new(&*space, &Request::new(5)).unwrap().seal().unwrap();
    assert_eq!(
        (area.len(), reservation.len(), paged.len()),
        (3 * page_bytes(), page_bytes() - 1, page_bytes())
    );
    assert_eq!((code.len(), (*code).len(), code.as_ptr().addr()), (5, 5, code.addr()));

    let (frames, short) = (space.frames(2).unwrap(), ShortMaps::of(&*space).unwrap());
    let (one, two) = (Mapping::new(&frames).unwrap(), ShortMapping::new(&short, &frames).unwrap());
    assert_eq!(
        (one.len(), one.atomics().len(), two.len(), two.atomics().len()),
        (2 * page_bytes(), 2 * page_bytes(), 2 * page_bytes(), 2 * page_bytes())
    );
    assert_eq!((one.as_ptr().addr(), two.as_ptr().addr()), (one.addr(), two.addr()));
    drop((area, reservation, paged, code, one, two, frames));
}

#[test]
fn tags_come_from_any_string_and_everything_can_be_printed() {
    let space = space();
    let names: Vec<String> = (0..5).map(|nth| format!("worker {nth}")).collect();
    let areas: Vec<_> =
        names.iter().map(|name| Area::new(&*space, &Request::new(page_bytes()).tag(name)).unwrap()).collect();
    for (area, name) in areas.iter().zip(&names) {
        assert_eq!(space.find(area.addr()).unwrap().tag, Some(Tag::new(name)));
    }
    assert!(space.vmallocinfo().to_string().contains("worker 3"));
    let frames = space.frames(1).unwrap();
    println!("{space:?} {:?} {:?} {frames:?} {:?}", space.raw(), areas[0], Mapping::new(&frames));
}
