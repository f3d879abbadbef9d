//! The case about changing sizes.

use super::{Area, Context, Refusal};

/// The most pages before the area grows, and by how many it grows at most.
const MOST_PAGES: u64 = 16;

/// A loop: 1 to 16 pages grow by 1 to 16, and shrink to a random part. What they held must still be
/// there. In every second loop an area was allocated in between, which may be in the way.
pub(super) fn vrealloc(context: &mut Context<'_>) -> Result<(), Refusal> {
    let machine = context.machine;
    let mut key = 0;
    for () in context.turns() {
        key += 1;
        let first = 1 + context.random.below(MOST_PAGES);
        let grown = first + 1 + context.random.below(MOST_PAGES);
        let shrunk = 1 + context.random.below(grown);
        let mut area = Area::of_pages(machine, first)?;
        area.stamp(0..first, key);
        let neighbour = (key % 2 == 1).then(|| Area::of_pages(machine, 1)).transpose()?;
        area.resize(grown)?;
        check(&area, first, key)?;
        area.stamp(first..grown, key);
        area.resize(shrunk)?;
        check(&area, shrunk, key)?;
        area.free()?;
        neighbour.map_or(Ok(()), Area::free)?;
    }
    Ok(())
}

/// Checks that the first `pages` pages hold their stamps.
fn check(area: &Area<'_>, pages: u64, key: u64) -> Result<(), Refusal> {
    match area.first_wrong(0..pages, key) {
        None => Ok(()),
        Some(page) => Err(Refusal::Failed(format!("page {page} of {pages} lost what it held"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Machine, MachineOptions};

    #[test]
    fn contents_are_checked_after_a_move() {
        let machine = Machine::new(MachineOptions::default()).expect("a machine with address space");
        let mut area = Area::of_pages(&machine, 3).expect("room");
        let neighbour = Area::of_pages(&machine, 1).expect("room");
        area.stamp(0..3, 1);
        area.resize(100).expect("room");
        assert_eq!(check(&area, 3, 1), Ok(()));
        area.stamp(3..4, 2);
        assert_eq!(area.first_wrong(0..4, 1), Some(3));
        assert!(check(&area, 4, 1).is_err());
        drop((area, neighbour));
        assert_eq!(machine.check_whole(), [""; 0]);
    }
}
