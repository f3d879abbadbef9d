//! A space as a kernel has it after boot.

use crate::design::{Ask, Design, Refusal};
use crate::vmallocinfo::Vmallocinfo;

/// A virtual machine of 2 CPUs.
const FILE: &str = include_str!("../../tests/data/vmallocinfo.txt");

/// Makes the areas of a machine after boot, which stay, and areas where it has gaps. Returns these:
/// they go when threads of the boot have ended, and leave holes below what came since, which a small
/// request fits and a large one does not.
///
/// # Errors
/// When there is no room.
pub fn boot(design: &dyn Design) -> Result<Vec<u64>, Refusal> {
    let info = Vmallocinfo::read(FILE.as_bytes()).expect("a file of ours");
    let page = info.page_bytes();
    let (mut end, mut gaps) = (None, Vec::new());
    for area in &info.entries {
        let gap = end.map_or(0, |end| (area.start - end) / page);
        if gap > 0 {
            gaps.push(design.alloc(&Ask::new(gap))?);
        }
        design.alloc(&Ask::new((area.end - area.start) / page))?;
        end = Some(area.end);
    }
    Ok(gaps)
}
