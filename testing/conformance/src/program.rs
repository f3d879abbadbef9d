//! Programs on a whole space over the platform, compared with a model.

use crate::bench::word;
use crate::faulty::{Call, Faulty};
use crate::look::{Look, Seen};
use crate::narrow::Narrow;
use std::sync::Arc;
use vmalloc::{AreaInfo, Config, Geometry, Kind, PageRange, Platform, Space};
use vmalloc_model::space::{
    Behind, Call as ModelCall, Content, SpaceGenerator, SpaceOp, SpaceSession, Target, Wish, Witness,
};
use vmalloc_model::{Seeded, Source};

/// Pages of an area that are written to and checked: the first ones, and the last.
const USED: u64 = 16;
/// Failures after which a walk is given up.
const MOST: u64 = 2_000;

type Session<P> = SpaceSession<Faulty<P>, Looker>;

/// Looks behind every area of a program.
pub(crate) struct Looker(Seeded);

impl Looker {
    fn cpu<P: Platform>(&mut self, platform: &Faulty<P>) -> usize {
        self.0.below(platform.geometry().cpus.min(4) as u64) as usize
    }

    fn check_nowhere<P: Platform>(&mut self, platform: &Faulty<P>, pages: PageRange, area: &AreaInfo) {
        let cpu = self.cpu(platform);
        let leads = |page: &u64| platform.look().leads(platform.inner(), cpu, *page) == Some(true);
        let reached = used(pages).find(leads);
        assert!(reached.is_none(), "page {reached:x?}, of or behind {area:x?}, can be read on CPU {cpu}");
    }

    fn check_guard<P: Platform>(&mut self, platform: &Faulty<P>, area: &AreaInfo) {
        let behind = pages(platform, area).end();
        if let Some(guard) = PageRange::from_len(behind, u64::from(area.guard)) {
            self.check_nowhere(platform, guard, area);
        }
    }
}

fn pages<P: Platform>(platform: &Faulty<P>, area: &AreaInfo) -> PageRange {
    let first = (area.addr >> platform.geometry().page_shift) as u64;
    PageRange::from_len(first, area.pages).expect("an area is not empty")
}

/// Returns the pages of a range that programs look at.
pub(crate) fn used(pages: PageRange) -> impl Iterator<Item = u64> {
    let (first_end, last) = (pages.end().min(pages.start() + USED), pages.end() - 1);
    (pages.start()..first_end).chain((last >= first_end).then_some(last))
}

impl<P: Platform> Witness<Faulty<P>> for Looker {
    fn appeared(&mut self, platform: &Faulty<P>, area: &AreaInfo, content: Content) {
        self.check_guard(platform, area);
        if area.kind != Kind::Vmalloc {
            return self.check_nowhere(platform, pages(platform, area), area);
        }
        for page in used(pages(platform, area)) {
            let seen = platform.look().read(platform.inner(), self.cpu(platform), page);
            let is_right = match seen {
                Seen::Word(found) => content == Content::Any || found == 0,
                Seen::Mixed => content == Content::Any,
                Seen::Fault => false,
                Seen::Unknown => true,
            };
            assert!(is_right, "page {page:#x} of the new area {area:x?} shows {seen:x?}");
            platform.look().fill(platform.inner(), self.cpu(platform), page, word(page, 3));
        }
    }

    fn leaves(&mut self, platform: &Faulty<P>, area: &AreaInfo) {
        self.check_guard(platform, area);
        if area.kind != Kind::Vmalloc {
            return self.check_nowhere(platform, pages(platform, area), area);
        }
        for page in used(pages(platform, area)) {
            let (cpu, want) = (self.cpu(platform), word(page, 3));
            let seen = platform.look().read(platform.inner(), cpu, page);
            let is_right = [Seen::Word(want), Seen::Unknown].contains(&seen);
            assert!(is_right, "page {page:#x} of {area:x?} shows {seen:x?} on CPU {cpu}, not {want:#x}");
        }
    }

    fn ends(&mut self, platform: &Faulty<P>) {
        let faults = platform.look().faults(platform.inner());
        assert!(faults.is_empty(), "the machine has found misuses: {faults:?}");
    }

    fn move_to(&mut self, platform: &Faulty<P>, cpu: usize) {
        platform.look().run_on(platform.inner(), cpu % platform.geometry().cpus);
    }

    fn fail(&mut self, platform: &Faulty<P>, call: ModelCall, nth: u64) {
        let call = match call {
            ModelCall::Map if self.0.chance(32) => Call::MapHuge,
            ModelCall::Map => Call::Map,
            ModelCall::Unmap => Call::Unmap,
            ModelCall::Flush => Call::Flush,
        };
        platform.fail_nth(call, nth);
    }

    fn heal(&mut self, platform: &Faulty<P>) {
        platform.heal();
    }

    fn failed(&self, platform: &Faulty<P>) -> u64 {
        platform.failed()
    }
}

/// Settings of a space that make different calls of the platform.
pub(crate) fn configs(geometry: &Geometry) -> impl Iterator<Item = (&'static str, Config)> + use<> {
    let plain = [
        ("caching", Config::default()),
        ("unmapping on free", Config::default().unmap_on_free()),
        ("one node, no guards", Config::default().nodes(1).guard(false)),
    ];
    let trapping = ("trapping on free", Config::default().trap_on_free(true));
    plain.into_iter().chain(geometry.unmaps_now.then_some(trapping))
}

fn session<P: Platform>(platform: Faulty<P>, config: Config, seed: u64) -> Result<Session<P>, String> {
    let space = Space::new(platform, config).map_err(|error| format!("no space can be made: {error}"))?;
    Ok(SpaceSession::new(space, Looker(Seeded::new(seed))))
}

/// Runs a random program of `ops` operations, some of which fail below.
pub(crate) fn random<P: Platform>(
    platform: Faulty<P>,
    config: Config,
    seed: u64,
    ops: usize,
) -> Result<(), String> {
    let geometry = platform.geometry();
    let generator = SpaceGenerator::new(Seeded::new(seed), geometry.span, geometry.page_shift);
    let live = (geometry.span.len() / 128).clamp(4, 60) as usize;
    let session = session(platform, config, seed)?;
    let result = session.run(generator.live(live).faults(6), ops);
    result.map(drop).map_err(|failure| format!("seed {seed:#x}: {failure}"))
}

/// Runs a fixed program again and again, with the first, second, third … call of each kind failing.
pub(crate) fn walk<P: Platform>(
    make: &dyn Fn() -> P,
    look: &Arc<dyn Look<P>>,
    config: Config,
) -> Result<u64, String> {
    let mut failed = 0;
    for call in Call::ALL {
        for nth in 1..MOST {
            let platform = Faulty::new(make(), Arc::clone(look), Narrow::default());
            if !fails(platform, config, call, nth).map_err(|seen| format!("{call:?} {nth} fails: {seen}"))? {
                break;
            }
            failed += 1;
        }
    }
    Ok(failed)
}

/// Runs the program with one call failing. Returns false if it does not come to that call.
fn fails<P: Platform>(platform: Faulty<P>, config: Config, call: Call, nth: u64) -> Result<bool, String> {
    let shift = platform.geometry().page_shift;
    let huge = platform.geometry().huge_order.map_or(9, |order| order.min(9));
    let mut session = session(platform, config, nth)?;
    // The model knows that a call may fail; which one is chosen behind its back.
    let arm = SpaceOp::Fail(ModelCall::Map, u64::MAX >> 1);
    session.step(&arm).map_err(|error| error.to_string())?;
    session.space().platform().heal();
    session.space().platform().fail_nth(call, nth);
    for op in program(shift, huge) {
        session.step(&op).map_err(|error| format!("{op:x?}: {error}"))?;
    }
    let happened = session.space().platform().failed() > 0;
    session.finish().map_err(|error| format!("at the end: {error}"))?;
    Ok(happened)
}

/// Areas of several sizes, with and without zeros; freed, purged, and allocated again.
fn program(shift: u32, huge: u32) -> Vec<SpaceOp> {
    let alloc = |pages: usize, content| {
        SpaceOp::Alloc(Wish {
            bytes: pages << shift,
            align: None,
            within: None,
            content,
            behind: Behind::Default,
            tag: None,
        })
    };
    let round = [
        alloc(1, Content::Zeros),
        alloc(3, Content::Any),
        alloc(40, Content::Zeros),
        alloc(1 << huge.min(7), Content::Any),
        SpaceOp::Vfree(Target::Live(1)),
        SpaceOp::Vfree(Target::Live(0)),
        alloc(2, Content::Zeros),
        SpaceOp::Vfree(Target::Live(2)),
    ];
    let mut all = round.to_vec();
    all.push(SpaceOp::Walk);
    all.extend(round);
    all
}
