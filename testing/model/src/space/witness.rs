//! Witnesses look behind the addresses: one for each platform that allows it.

use super::null_platform::{Call, NullPlatform};
use super::wish::Content;
use vmalloc::{AreaInfo, Kind, PageRange, Platform};

/// Sees every area come and go, checks what can be checked, and makes faults where the platform
/// can.
///
/// Every method does nothing unless it is given a body. They panic when something is wrong.
pub trait Witness<P: Platform> {
    /// Notes a new area: its pages are there, its guard is not. The witness may write to it.
    fn appeared(&mut self, _platform: &P, _area: &AreaInfo, _content: Content) {}

    /// Notes an area about to be freed: what was written is still there.
    fn leaves(&mut self, _platform: &P, _area: &AreaInfo) {}

    /// Notes that everything was freed and purged.
    fn ends(&mut self, _platform: &P) {}

    /// Goes on on another CPU.
    fn move_to(&mut self, _platform: &P, _cpu: usize) {}

    /// Lets a call fail. What is done after that may fail with an `AllocError::Unbacked`.
    fn fail(&mut self, _platform: &P, _call: Call, _nth: u64) {}

    /// Lets no more calls fail.
    fn heal(&mut self, _platform: &P) {}

    /// Returns how many calls have failed so far.
    fn failed(&self, _platform: &P) -> u64 {
        0
    }
}

/// Looks at nothing: for any platform.
#[derive(Clone, Copy, Debug)]
pub struct NoWitness;

impl<P: Platform> Witness<P> for NoWitness {}

/// Looks at the account that [`NullPlatform`] keeps.
#[derive(Clone, Copy, Debug)]
pub struct NullWitness;

impl NullWitness {
    fn pages(area: &AreaInfo) -> PageRange {
        let first = (area.addr >> NullPlatform::PAGE_SHIFT) as u64;
        PageRange::from_len(first, area.pages).expect("an area is not empty")
    }

    fn check(platform: &NullPlatform, area: &AreaInfo) {
        let pages = Self::pages(area);
        match area.kind {
            Kind::Vmalloc => assert!(platform.is_mapped(pages), "{area:?} is not all mapped"),
            _ => assert!(!platform.is_touched(pages), "{area:?} is mapped, at least in part"),
        }
        let guard = PageRange::from_len(pages.end(), u64::from(area.guard));
        assert!(!guard.is_some_and(|guard| platform.is_touched(guard)), "the guard of {area:?} is mapped");
    }
}

impl Witness<NullPlatform> for NullWitness {
    fn appeared(&mut self, platform: &NullPlatform, area: &AreaInfo, content: Content) {
        Self::check(platform, area);
        if area.kind != Kind::Vmalloc {
            return;
        }
        let pages = Self::pages(area);
        assert!(content == Content::Any || platform.is_zero(pages), "{area:?} does not read as zero");
        platform.soil(pages);
    }

    fn leaves(&mut self, platform: &NullPlatform, area: &AreaInfo) {
        Self::check(platform, area);
    }

    fn ends(&mut self, platform: &NullPlatform) {
        assert_eq!(platform.mapped_pages(), 0, "pages are mapped in an empty space");
        assert_eq!(platform.lingering_pages(), 0, "translations linger in an empty space");
    }

    fn move_to(&mut self, platform: &NullPlatform, cpu: usize) {
        platform.move_to(cpu);
    }

    fn fail(&mut self, platform: &NullPlatform, call: Call, nth: u64) {
        platform.fail_nth(call, nth);
    }

    fn heal(&mut self, platform: &NullPlatform) {
        platform.heal();
    }

    fn failed(&self, platform: &NullPlatform) -> u64 {
        platform.failed()
    }
}
