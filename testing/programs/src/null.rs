//! A look at the account that [`NullPlatform`] keeps.

use crate::faulty::Call;
use crate::look::{Look, Seen};
use vmalloc::{MapFrames, PageRange};
use vmalloc_model::space::{Call as NullCall, NullPlatform};

/// Looks at the account that [`NullPlatform`] keeps: which pages are mapped, and were written to.
#[derive(Clone, Copy, Debug)]
pub struct NullLook;

fn one(page: u64) -> PageRange {
    PageRange::from_len(page, 1).expect("one page")
}

impl Look<NullPlatform> for NullLook {
    fn fill(&self, platform: &NullPlatform, _: usize, page: u64, _: u64) {
        assert!(platform.is_mapped(one(page)), "page {page:#x} is not mapped");
        platform.soil(one(page));
    }

    fn read(&self, platform: &NullPlatform, _: usize, page: u64) -> Seen {
        match platform.is_mapped(one(page)) {
            false => Seen::Fault,
            true if platform.frame_at(page).is_none() && platform.is_zero(one(page)) => Seen::Word(0),
            true => Seen::Unknown,
        }
    }

    fn leads(&self, platform: &NullPlatform, _: usize, page: u64) -> Option<bool> {
        Some(platform.is_mapped(one(page)))
    }

    fn run_on(&self, platform: &NullPlatform, cpu: usize) {
        platform.move_to(cpu);
    }

    fn leaks(&self, platform: &NullPlatform) -> Vec<String> {
        let counts = platform.frame_counts();
        let left = [
            ("mapped pages", platform.mapped_pages()),
            ("pages that were not flushed", platform.lingering_pages()),
            ("frames", counts.taken - counts.given),
        ];
        let left = left.into_iter().filter(|(_, count)| *count > 0);
        left.map(|(what, count)| format!("{count} {what} are left")).collect()
    }

    fn fail_nth(&self, platform: &NullPlatform, call: Call, nth: u64) {
        match call {
            Call::Map | Call::MapHuge | Call::MapFrames => platform.fail_nth(NullCall::Map, nth),
            Call::Unmap => platform.fail_nth(NullCall::Unmap, nth),
            Call::Flush => platform.fail_nth(NullCall::Flush, nth),
            _ => {}
        }
    }

    fn heal(&self, platform: &NullPlatform) {
        platform.heal();
    }

    fn failed(&self, platform: &NullPlatform) -> u64 {
        platform.failed()
    }
}
