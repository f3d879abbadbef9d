//! How many short mappings can live at once. To the kernel each run of consecutive frames that is
//! shown somewhere is a mapping, of which a program may have `vm.max_map_count`; frames that are
//! where they always are take none.

use super::space;
use crate::by_hand::kernel_mappings;
use serde::Serialize;
use vmalloc::{Frame, FrameSupply, Space};
use vmalloc_linux::Linux;
use vmalloc_short::ShortMaps;

/// Pages of a mapping.
const PAGES: usize = 4;

/// Runs that the pages of a mapping are in.
pub const RUNS: [usize; 3] = [1, 2, 4];

/// Mappings made until there are enough, or one is refused.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Runs of consecutive frames in each.
    pub runs: usize,
    /// How many live at once.
    pub live: usize,
    /// How many mappings of the kernel that takes.
    pub kernel: usize,
    /// Why there are no more.
    pub refusal: Option<String>,
    /// How many mappings of the kernel are left when all have ended and were purged.
    pub left: isize,
}

/// Makes up to `wanted` mappings of [`PAGES`] pages in `runs` runs.
///
/// # Panics
/// When there are no frames.
pub fn run(wanted: usize, runs: usize) -> Row {
    let space = space();
    let short = ShortMaps::of(&*space).expect("memory for their records");
    let mut frames = vec![Frame::default(); wanted * PAGES];
    space.platform().take_frames(&mut frames).expect("frames, of which none is touched");
    let before = kernel_mappings();
    let mut live = Vec::new();
    let mut refusal = None;
    for index in 0..wanted {
        match short.map(&list(&frames, wanted, index, runs)) {
            Ok(addr) => live.push(addr),
            Err(error) => {
                refusal = Some(error.to_string());
                break;
            }
        }
    }
    let kernel = kernel_mappings().saturating_sub(before);
    let count = live.len();
    end(&short, live);
    let left = kernel_mappings() as isize - before as isize;
    // SAFETY: they were taken above; nothing shows them any more.
    unsafe { space.platform().give_frames(&frames) };
    Row { runs, live: count, kernel, refusal, left }
}

/// Runs of as many pages, each from another part of the frames: neither in a list nor from one list
/// to the next does a run follow the one before.
fn list(frames: &[Frame], wanted: usize, index: usize, runs: usize) -> Vec<Frame> {
    let (part, run) = (frames.len() / runs, PAGES / runs);
    debug_assert_eq!(part, wanted * run);
    (0..runs).rev().flat_map(|nth| &frames[nth * part + index * run..][..run]).copied().collect()
}

fn end(short: &ShortMaps<&Space<Linux>>, live: Vec<usize>) {
    let space = short.space();
    for addr in live {
        // SAFETY: the mapping is this function's, and nothing uses it.
        unsafe { short.unmap(addr, PAGES) }.expect("a live mapping");
    }
    space.purge().expect("nothing that can't be unmapped");
    space.verify().expect("a space that is whole");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_disjoint_and_have_their_runs() {
        let frames: Vec<_> = (0..400).map(Frame).collect();
        for runs in RUNS {
            let lists: Vec<_> = (0..100).map(|index| list(&frames, 100, index, runs)).collect();
            for list in &lists {
                assert_eq!(list.chunk_by(|a, b| a.plus(1) == *b).count(), runs);
            }
            let mut all = lists.concat();
            all.sort_unstable();
            assert_eq!(all, frames);
        }
    }
}
