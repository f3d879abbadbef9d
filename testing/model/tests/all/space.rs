//! The space against its oracle, on a platform that insists on the contract.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose another program and its length.

use vmalloc::{Config, PageRange, Policy, Request, Space, SpaceError};
use vmalloc_model::space::{NullPlatform, NullWitness, SpaceGenerator, SpaceOp, SpaceSession, Wish};
use vmalloc_model::{Seeded, env};

/// How much the space keeps of what is freed.
const RETAINED: [usize; 3] = [0, 64 << 12, 1 << 30];

fn span(pages: u64) -> PageRange {
    PageRange::from_len(0x7_0003, pages).expect("not empty")
}

fn judge(pages: u64, config: Config, seed: u64, live: usize, faults: u8, count: usize) {
    let seed = env::seed(seed);
    let told = format!("{config:?}; again with VMALLOC_SEED={seed:#x}");
    let space = Space::new(NullPlatform::new(span(pages), 4), config).expect("an empty space");
    let generator = SpaceGenerator::new(Seeded::new(seed), span(pages), NullPlatform::PAGE_SHIFT);
    let session = SpaceSession::new(space, NullWitness);
    let result = session.run(generator.live(live).faults(faults), env::ops(count));
    result.unwrap_or_else(|failure| panic!("{told}: {failure}"));
}

fn config(cache_bytes: usize) -> Config {
    let mut config = Config::default();
    config.cache_bytes = Some(cache_bytes);
    config.max_slack_percent = Some(25);
    config
}

#[test]
fn answers_are_legal_in_a_roomy_space() {
    for retain in RETAINED {
        judge(1 << 20, config(retain), 1, 100, 0, 20_000);
    }
}

#[test]
fn answers_are_legal_in_a_crowded_space() {
    for retain in RETAINED {
        judge(1 << 10, config(retain), 2, 400, 0, 20_000);
    }
}

#[test]
fn eager_purges_change_nothing() {
    for retain in RETAINED {
        let mut config = config(retain);
        config.lazy_max_pages = 1;
        judge(1 << 14, config, 3, 100, 0, 20_000);
    }
}

#[test]
fn other_policies_and_no_guard() {
    for policy in [Policy::Best, Policy::Random { seed: 5 }, Policy::Highest] {
        for retain in RETAINED {
            let mut config = config(retain);
            config.policy = policy;
            config.guard = false;
            judge(1 << 12, config, 4, 100, 0, 20_000);
        }
    }
}

#[test]
fn platform_faults_unwind_completely() {
    for retain in RETAINED {
        for seed in 10..14 {
            judge(1 << 12, config(retain), seed, 100, 12, 10_000);
        }
    }
}

/// The generator's programs hold every kind of bad request: the oracle has an answer for each.
#[test]
fn programs_hold_every_kind_of_bad_request() {
    let mut generator = SpaceGenerator::new(Seeded::new(1), span(1 << 10), NullPlatform::PAGE_SHIFT);
    let wishes: Vec<Wish> = std::iter::from_fn(|| generator.next(0))
        .take(50_000)
        .filter_map(|op| if let SpaceOp::Alloc(wish) = op { Some(wish) } else { None })
        .collect();
    let made = |what: &str, is: &dyn Fn(&Wish) -> bool| assert!(wishes.iter().any(is), "no wish with {what}");
    for bytes in [0, 1 << 63, isize::MAX as usize, usize::MAX] {
        made("this size", &|wish| wish.bytes == bytes);
    }
    for align in [0, 3, 1 << 63] {
        made("this alignment", &|wish| wish.align == Some(align));
    }
    let first = (span(1).start() as usize) << NullPlatform::PAGE_SHIFT;
    let end = first + (1 << 10 << NullPlatform::PAGE_SHIFT);
    made("reversed limits", &|wish| wish.within.is_some_and(|(start, end)| start > end));
    made("empty limits", &|wish| wish.within.is_some_and(|(start, end)| start == end));
    made("limits from below", &|wish| wish.within.is_some_and(|(start, _)| start < first));
    made("limits to above", &|wish| wish.within.is_some_and(|(start, stop)| start < end && end < stop));
    made("limits above", &|wish| wish.within.is_some_and(|(start, stop)| end <= start && start < stop));
}

fn on(start: u64, end: u64) -> Result<Space<NullPlatform>, SpaceError> {
    Space::new(NullPlatform::new(PageRange::new(start, end).expect("not empty"), 1), Config::default())
}

/// An area at page 0 would be a null pointer.
#[test]
fn a_span_with_page_0_is_refused() {
    let span = PageRange::new(0, 16).expect("not empty");
    assert_eq!(on(0, 16).err(), Some(SpaceError::NullPage { span }));
    let space = on(1, 16).expect("a span without page 0");
    assert_eq!(space.raw().alloc(&Request::new(1)), Ok(1 << NullPlatform::PAGE_SHIFT));
}

#[test]
fn a_span_that_ends_behind_the_last_address_is_refused() {
    let (page_shift, end) = (NullPlatform::PAGE_SHIFT, u64::MAX >> NullPlatform::PAGE_SHIFT);
    let span = PageRange::new(end - 15, end + 1).expect("not empty");
    assert_eq!(on(end - 15, end + 1).err(), Some(SpaceError::BeyondAddresses { span, page_shift }));
    let space = on(end - 16, end).expect("a span whose end is an address");
    let first = (end as usize - 16) << page_shift;
    assert_eq!(space.raw().alloc(&Request::new(15 << page_shift)), Ok(first));
    assert_eq!(space.find(usize::MAX), None);
    assert!(space.vmallocinfo().to_string().ends_with("vmalloc\n"));
}
