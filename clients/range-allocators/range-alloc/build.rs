//! Takes the published range-alloc, and has it keep its free ranges in ours.

use published::Source;
use std::path::Path;

/// Allocates by the set of free ranges. The bounds of the type give no zero, so the difference of a value and itself is one.
const ALLOCATE: &str = "
    #[allow(clippy::eq_op)]
    let zero = length - length;
    let count = length.offset(zero);
    let Some(place) = self.free_ranges.best(count, alignment, align_start) else {
        return Err(RangeAllocationError { fragmented_free_length: self.free_ranges.total(zero) });
    };
    let start = self.free_ranges.take(place, count);
    Ok(start..start + length)";

const ALLOCATED: &str = "
    let Range { start, end } = self.initial_range;
    let ends = self.free_ranges.iter().map(|range| range.start).chain(std::iter::once(end));
    let starts = std::iter::once(start).chain(self.free_ranges.iter().map(|range| range.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|range| range.start < range.end)";

fn main() {
    let copy =
        published::for_build_script(Path::new(".."), "range-alloc-0.1.5").expect("the source is copied");
    Source::edit(&copy.join("src/lib.rs"), |source| {
        source
            // The map numbers values, so they are integers.
            .words_anywhere("T: Clone + ", "T: Index + Clone + ", 1)
            .words_anywhere("<T: Copy + ", "<T: Index + Copy + ", 1)
            .words("RangeAllocator", "Vec<Range<T>>", "FreeRanges<T>", 1)
            .body(
                "RangeAllocator::new",
                "Self { free_ranges: FreeRanges::new(&range), initial_range: range }",
            )
            .body(
                "RangeAllocator::grow_to",
                "assert!(new_end >= self.initial_range.end, \"a range does not shrink\");
                 self.free_ranges.extend(new_end);
                 self.initial_range.end = new_end;",
            )
            .words("RangeAllocator::allocate_range_impl", "length: T,", "length: T, alignment: u64,", 1)
            .rest("RangeAllocator::allocate_range_impl", "#[allow", ALLOCATE)
            .words("RangeAllocator::allocate_range", "(length, |", "(length, 1, |", 1)
            .before_statement(
                "RangeAllocator::allocate_range_aligned",
                "self.",
                "#[allow(clippy::eq_op)]
                 let count = alignment.offset(alignment - alignment);",
            )
            .words("RangeAllocator::allocate_range_aligned", "(length, |", "(length, count, |", 1)
            .rest("RangeAllocator::free_range", "let i =", "self.free_ranges.put(&range);")
            .body("RangeAllocator::allocated_ranges", ALLOCATED)
            .body("RangeAllocator::reset", "self.free_ranges = FreeRanges::new(&self.initial_range);")
            .body("RangeAllocator::is_empty", "self.free_ranges.is_whole()")
            .included()
    });
}
