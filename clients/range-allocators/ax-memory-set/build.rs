//! Takes the published ax-memory-set, and has its set keep the areas in ours.
//!
//! The original copies all areas for a change, and puts the copy in their place when all steps have succeeded. Here a change is staged: the areas that
//! it touches, and those that take their places.

use published::Source;
use std::path::Path;

fn main() {
    let copy =
        published::for_build_script(Path::new(".."), "ax-memory-set-0.8.0").expect("the source is copied");
    Source::edit(&copy.join("src/lib.rs"), Source::included);
    Source::edit(&copy.join("src/set.rs"), |source| changes(searches(container(source))));
}

/// The type, and what only names it.
fn container(source: Source) -> Source {
    source
        .unimport(&["BTreeMap"])
        .before("restore_overlapped_mappings", "use crate::areas::{Areas, Staged};")
        .words("restore_overlapped_mappings", "BTreeMap<B::Addr, MemoryArea<B>>", "[MemoryArea<B>]", 1)
        .words("restore_overlapped_mappings", "old.values()", "old", 1)
        .words("MemorySet", "BTreeMap<B::Addr, MemoryArea<B>>", "Areas<B>", 1)
        .words("MemorySet::new", "BTreeMap", "Areas", 1)
}

/// The search for free addresses, and walks over a range.
fn searches(source: Source) -> Source {
    let (walk, protect) = ("MemorySet::for_each_intersecting_area", "MemorySet::protect_with_reported_flags");
    source
        .rest("MemorySet::find_free_area", "let align_up", FIND_FREE)
        .words(walk, "self.areas.values()", "self.areas.intersecting(range)", 1)
        .statement(walk, "if area.start()", "")
        .statement(walk, "if area.end()", "")
        .words(
            protect,
            "(&area_start, area) in &self.areas",
            "area in self.areas.intersecting(AddrRange::new(start, end))",
            1,
        )
        .statement(protect, "let area_end", "let (area_start, area_end) = (area.start(), area.end());")
        .statement(protect, "if area_start >= end", "")
        .statement(protect, "if area_end <= start", "")
}

fn changes(source: Source) -> Source {
    let protect = "MemorySet::protect_with_reported_flags";
    source
        .rest("MemorySet::extend_area", "self.areas", GROW)
        .rest("MemorySet::rollback_extend_area", "let area = self\n", SHRINK)
        .words("MemorySet::map", "self.areas.clone()", OVERLAPPED, 1)
        .words("MemorySet::map", "self.areas = old", "self.areas.put_back(old)", 3)
        .words(
            "MemorySet::map",
            "self.areas.insert(area_start, area).is_some()",
            "!self.areas.insert(area)",
            1,
        )
        .words(
            "MemorySet::insert_prepared_area",
            "self.areas.insert(area.start(), area).is_some()",
            "!self.areas.insert(area)",
            1,
        )
        .rest("MemorySet::replace_exact_backend", "let area", REPLACE_BACKEND)
        .words("MemorySet::unmap", "self.areas = prepared", "self.areas.apply(prepared)", 1)
        .statement(
            "MemorySet::unmap_metadata",
            "self.areas",
            "let staged = self.prepare_unmap_metadata(range)?; self.areas.apply(staged);",
        )
        .words("MemorySet::prepare_unmap_metadata", "BTreeMap<B::Addr, MemoryArea<B>>", "Staged<B>", 1)
        .body("MemorySet::prepare_unmap_metadata", STAGE_UNMAP)
        .rest("MemorySet::replace_area_metadata", "let backup", REPLACE_METADATA)
        .words(protect, "self.areas.clone()", "Staged::new()", 1)
        .statement(
            protect,
            "let mut middle",
            "let mut middle = original.clone(); prepared.removed.push(area_start);",
        )
        .words(protect, "prepared.insert(area_start, middle)", "prepared.inserted.push(middle)", 1)
        .words(protect, "prepared.insert(right.start(), right)", "prepared.inserted.push(right)", 1)
        .words(protect, "prepared.insert(middle.start(), middle)", "prepared.inserted.push(middle)", 1)
        .words(protect, "self.areas = prepared", "self.areas.apply(prepared)", 1)
}

const FIND_FREE: &str = "
    let hint: usize = hint.max(limit.start).into();
    let from = hint.checked_add(align - 1)? & !(align - 1);
    self.areas.find_free(from, size, limit.end.into(), align).map(B::Addr::from)";

const GROW: &str = "
    let grown = self.areas.change(&area_start, |area| area.grow_right(additional_size, context, page_table));
    grown.ok_or(MappingError::BadState)?";

const SHRINK: &str = "
    let shrink = |area: &mut MemoryArea<B>| area.shrink_right_metadata(area.size() - additional_size);
    self.areas.change(&area_start, shrink).ok_or(MappingError::BadState)?";

const OVERLAPPED: &str = "self.areas.intersecting(area.va_range()).cloned().collect::<Vec<_>>()";

const REPLACE_BACKEND: &str = "
    if self.areas.get(&start).is_none_or(|area| area.end() != end) {
        return Err(MappingError::InvalidParam);
    }
    let replaced = self.areas.change(&start, |area| Ok(area.replace_backend(backend)));
    replaced.ok_or(MappingError::InvalidParam)?";

/// An area that goes on behind the range is split at its end, and one that begins before the range is cut at its start.
const STAGE_UNMAP: &str = "
    let mut staged = Staged::new();
    let (start, end) = (range.start, range.end);
    for touched in self.areas.intersecting(range) {
        staged.removed.push(touched.start());
        let (is_before, is_behind) = (touched.start() < start, touched.end() > end);
        let mut left = touched.clone();
        match (is_before, is_behind) {
            (false, false) => {}
            (true, _) => {
                let right = match is_behind {
                    true => Some(left.split(end)?.ok_or(MappingError::BadState)?),
                    false => None,
                };
                left.shrink_right_metadata(start.sub_addr(touched.start()))?;
                if right.as_ref().is_some_and(|right| right.start() != end) {
                    return Err(MappingError::BadState);
                }
                staged.inserted.push(left);
                staged.inserted.extend(right);
            }
            (false, true) => {
                left.shrink_left_metadata(touched.end().sub_addr(end))?;
                if left.start() != end {
                    return Err(MappingError::BadState);
                }
                staged.inserted.push(left);
            }
        }
    }
    Ok(staged)";

const REPLACE_METADATA: &str = "
    let mut staged = Staged::new();
    staged.removed.push(old_start);
    let mut inner = self.areas[&old_start].clone();
    if old_start < start {
        let rest = inner.split(start)?.ok_or(MappingError::BadState)?;
        staged.inserted.push(core::mem::replace(&mut inner, rest));
    }
    if inner.end() > end {
        staged.inserted.push(inner.split(end)?.ok_or(MappingError::BadState)?);
    }
    staged.inserted.push(area);
    self.areas.apply(staged);
    Ok(())";
