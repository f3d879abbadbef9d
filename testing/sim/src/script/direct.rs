//! Areas that change their size, on a machine with memory.

use super::Choices;
use crate::{Direct, Point, Sim};
use vmalloc::{AllocError, AreaError, Config, Request, Space};

const PAGE: usize = 1 << Sim::PAGE_SHIFT;

struct Area {
    addr: usize,
    bytes: usize,
    /// Every byte that was written has this value.
    value: u8,
}

struct Player<'a> {
    space: Space<Direct>,
    choices: Choices<'a>,
    areas: Vec<Area>,
    next: u8,
}

/// One byte chooses machine and settings, the rest is the program: areas come, go, grow and shrink,
/// and keep what they hold.
pub fn direct(input: &[u8]) {
    let [choice, program @ ..] = input else { return };
    let direct = Direct::new(256, |options| {
        let options = options.cpus(2);
        if choice & 1 == 0 { options } else { options.relocates() }
    });
    let mut config = Config::default().cache_bytes(usize::from(choice >> 4) * 8 * PAGE).lazy_max_pages(40);
    config.guard = choice & 2 == 0;
    if choice & 4 != 0 {
        config = config.max_slack_percent(0);
    }
    let space = Space::new(direct, config).expect("an empty space");
    let mut player = Player { space, choices: Choices(program), areas: Vec::new(), next: 1 };
    while !player.choices.is_empty() {
        player.step();
    }
    player.finish();
}

impl Player<'_> {
    fn step(&mut self) {
        match self.choices.below(12) {
            0..3 => self.alloc(),
            3..8 => self.resize(),
            8 => self.free(),
            9 => Sim::run_on(self.choices.below(2)),
            10 => drop(self.space.purge()),
            _ => self.fail(),
        }
        self.space.verify().unwrap_or_else(|violation| panic!("{violation:?}"));
    }

    fn bytes(&mut self) -> usize {
        let order = self.choices.below(6);
        1 + self.choices.below(PAGE << order)
    }

    fn alloc(&mut self) {
        let bytes = self.bytes();
        match self.space.raw().alloc(&Request::new(bytes)) {
            Ok(addr) => {
                self.next = self.next.wrapping_add(1);
                let area = Area { addr, bytes, value: self.next };
                area.fill(0);
                self.areas.push(area);
            }
            Err(AllocError::NoSpace(_) | AllocError::Unbacked(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn some(&mut self) -> Option<usize> {
        (!self.areas.is_empty()).then(|| self.choices.below(self.areas.len()))
    }

    #[allow(unsafe_code)]
    fn resize(&mut self) {
        let (Some(nth), bytes) = (self.some(), self.bytes()) else { return };
        let area = &mut self.areas[nth];
        if bytes < area.bytes {
            // What could not be unmapped is not grown into again yet: a test of its own has that.
            self.space.platform().sim().heal();
        }
        // SAFETY: the area is the player's.
        match unsafe { self.space.raw().realloc(area.addr, &vmalloc::Request::new(bytes)) } {
            Ok(addr) => {
                let kept = area.bytes.min(bytes);
                (area.addr, area.bytes) = (addr, bytes);
                area.check(kept);
                area.fill(kept);
            }
            Err(
                AreaError::Alloc(AllocError::NoSpace(_) | AllocError::Unbacked(_)) | AreaError::Platform(_),
            ) => {
                area.check(area.bytes);
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[allow(unsafe_code)]
    fn free(&mut self) {
        let Some(nth) = self.some() else { return };
        let area = self.areas.swap_remove(nth);
        area.check(area.bytes);
        // SAFETY: nothing uses it any more.
        unsafe { self.space.raw().free(area.addr) }.expect("it is there");
    }

    fn fail(&mut self) {
        let points = [Point::Frame, Point::Map, Point::Unmap, Point::Flush, Point::Relocate];
        let point = points[self.choices.below(points.len())];
        self.space.platform().sim().fail_nth(point, 1 + self.choices.below(3) as u64);
    }

    fn finish(mut self) {
        self.space.platform().sim().heal();
        while !self.areas.is_empty() {
            self.free();
        }
        self.space.purge().expect("nothing fails any more");
        let stats = self.space.stats();
        assert_eq!(stats.largest_free_pages, stats.span_pages);
        self.space.verify().unwrap_or_else(|violation| panic!("{violation:?}"));
        assert_eq!(self.space.platform().sim().check_end(), []);
    }
}

impl Area {
    fn at(&self, offset: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.addr + offset)
    }

    /// Writes to all from `from` on.
    #[allow(unsafe_code)]
    fn fill(&self, from: usize) {
        // SAFETY: the machine has memory at its addresses, and these are mapped for the player.
        unsafe { self.at(from).write_bytes(self.value, self.bytes - from) };
    }

    #[allow(unsafe_code)]
    fn check(&self, bytes: usize) {
        // SAFETY: as above.
        let held = unsafe { std::slice::from_raw_parts(self.at(0), bytes) };
        assert!(
            held.iter().all(|byte| *byte == self.value),
            "the area at {:#x} lost what it held",
            self.addr
        );
    }
}
