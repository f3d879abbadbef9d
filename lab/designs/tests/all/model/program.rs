//! Random programs, and what has to be true after each step.

use super::oracle::{Promise, Ranges, highest_base, promise, ranges};
use std::collections::BTreeMap;
use vmalloc::PageRange;
use vmalloc_lab::designs::Name;
use vmalloc_lab::{Ask, Counts, Design, Refusal, Segment, Setup, State, cpu};
use vmalloc_model::{Seeded, Source};

/// A program to be made from a seed.
pub(crate) struct Plan {
    pub(crate) setup: Setup,
    pub(crate) steps: usize,
}

type Wrong = Result<(), String>;

/// Plays a program of random steps on a design.
pub(crate) fn play(name: Name, plan: &Plan, seed: u64) -> Wrong {
    let design = name.build(&plan.setup);
    let before = design.segments();
    let (promise, all_by_search) = promise(name);
    let mut player = Player {
        design,
        promise,
        all_by_search,
        exact_pages: name != Name::VmallocCached,
        cpus: plan.setup.cpus,
        source: Seeded::new(seed),
        areas: BTreeMap::new(),
        groups: Vec::new(),
        gone: Vec::new(),
        before,
    };
    for step in 0..plan.steps {
        player.step().map_err(|wrong| format!("step {step}: {wrong}"))?;
    }
    let result = player.finish();
    cpu::play(None);
    result
}

struct Group {
    base: u64,
    offsets: Vec<u64>,
    sizes: Vec<u64>,
}

struct Player {
    design: Box<dyn Design>,
    promise: Promise,
    all_by_search: bool,
    exact_pages: bool,
    cpus: usize,
    source: Seeded,
    /// Busy areas by start: their pages.
    areas: BTreeMap<u64, u64>,
    groups: Vec<Group>,
    /// Starts of areas that have been freed.
    gone: Vec<u64>,
    /// The segments of the design after the last step.
    before: Vec<Segment>,
}

impl Player {
    fn step(&mut self) -> Wrong {
        cpu::play(Some(self.source.below(self.cpus as u64) as usize));
        let purges = self.design.counts().purges;
        match self.source.below(32) {
            0..=14 => self.alloc(),
            15..=24 => self.free(),
            25..=26 => self.free_what_is_no_area(),
            27 => self.alloc_group(),
            28 => self.free_group(),
            29 => self.ask_for_nonsense(),
            30 => {
                self.design.purge();
                self.expect(
                    purges == self.design.counts().purges || self.lazy_before() > 0,
                    "a purge of nothing",
                )
            }
            _ => self.settle(),
        }?;
        self.compare()
    }

    fn alloc(&mut self) -> Wrong {
        let ask = self.ask();
        let counts = self.design.counts();
        let answer = self.design.alloc(&ask);
        self.judge(&ask, answer, &counts).map_err(|wrong| format!("{ask:?} → {answer:?}: {wrong}"))
    }

    fn ask(&mut self) -> Ask {
        let (span, source) = (self.design.span(), &mut self.source);
        let pages = if source.chance(128) { source.between(1, 8) } else { source.between(1, 300) };
        let align = if source.chance(96) { 1 << source.below(10) } else { 1 };
        let ask = Ask::new(pages).align(align);
        if !source.chance(48) {
            return ask;
        }
        let start = source.between(span.start(), span.end() - 1);
        let pages = source.between(1, (span.end() - start).min(1500));
        ask.within(PageRange::from_len(start, pages).expect("a part of the span"))
    }

    /// An answer has to be legal, and where the design promises a place it has to be that place.
    fn judge(&mut self, ask: &Ask, answer: Result<u64, Refusal>, counts: &Counts) -> Wrong {
        let free = ranges(&self.before, &[State::Free]);
        let idle = ranges(&self.before, &[State::Free, State::Lazy, State::Pooled]);
        let after = self.promise.place(&idle, ask);
        let found = self.promise.place(&free, ask).or(after);
        if self.all_by_search && answer.ok() != found {
            return Err(format!("not {found:?}"));
        }
        let now = self.design.counts();
        match answer {
            Ok(start) => {
                self.expect(now.missed_fits == counts.missed_fits, "counted as missed")?;
                let lazy = ranges(&self.before, &[State::Lazy]);
                self.judge_place(ask, start, &idle, &lazy, self.purged_since(counts))
            }
            Err(refusal) => {
                self.expect(refusal == Refusal::NoSpace, "not for lack of space")?;
                self.expect(after.is_none(), "there is room for what the search is for")?;
                let missed = Promise::Lowest.place(&idle, ask).is_some();
                let counted = now.missed_fits - counts.missed_fits;
                self.expect(counted == u64::from(missed), "missed fits are miscounted")?;
                self.expect(now.lazy_pages + now.pooled_pages == 0, "something is still to come back")
            }
        }
    }

    /// Ours does not count a purge of what an earlier one had to leave; then it shows in what is
    /// lazy.
    fn purged_since(&self, counts: &Counts) -> bool {
        let now = self.design.counts();
        let is_ours = self.design.name().starts_with(Name::Vmalloc.as_str());
        now.purges != counts.purges || is_ours && now.lazy_pages < counts.lazy_pages
    }

    fn judge_place(&mut self, ask: &Ask, start: u64, idle: &Ranges, lazy: &Ranges, purged: bool) -> Wrong {
        let pages = self.pages_shown_at(start)?;
        let wanted = self.promise.pages(ask);
        self.expect(pages == wanted || !self.exact_pages && pages > wanted, "of another size")?;
        let area = PageRange::from_len(start, pages).expect("an area");
        let inside = ask.within.is_none_or(|it| it.start() <= start && start + ask.pages <= it.end());
        self.expect(inside && start.is_multiple_of(ask.align), "outside the limits, or misaligned")?;
        self.expect(idle.iter().any(|range| range.covers(&area)), "in the way of others")?;
        let reused = lazy.iter().any(|range| range.intersection(&area).is_some());
        self.expect(!reused || purged, "lazy, and nothing was purged")?;
        self.areas.insert(start, pages);
        Ok(())
    }

    fn pages_shown_at(&self, start: u64) -> Result<u64, String> {
        let is_it = |it: &&Segment| it.range.start() == start && it.state == State::Busy;
        let shown = self.design.segments().iter().find(is_it).map(|it| it.range.len());
        shown.ok_or_else(|| format!("no busy area shown at {start}"))
    }

    fn free(&mut self) -> Wrong {
        let Some(start) = self.some_area() else { return Ok(()) };
        let freed = self.design.free(start);
        self.expect(freed == Ok(()), "an area that cannot be freed")?;
        self.areas.remove(&start);
        self.gone.push(start);
        Ok(())
    }

    /// An area that is not of a group.
    fn some_area(&mut self) -> Option<u64> {
        let span = self.design.span();
        let page = self.source.between(span.start(), span.end() - 1);
        let grouped = |start: &&u64| !self.groups.iter().any(|group| group.starts().any(|it| it == **start));
        let mut above = self.areas.range(page..).map(|(start, _)| start).filter(grouped);
        above.next().or_else(|| self.areas.keys().find(grouped)).copied()
    }

    /// Freed before, inside an area, or anywhere.
    fn free_what_is_no_area(&mut self) -> Wrong {
        let span = self.design.span();
        let page = match self.source.below(3) {
            0 => self.gone.last().copied(),
            1 => self
                .some_area()
                .filter(|start| self.areas[start] > 1)
                .map(|start| start + self.source.between(1, self.areas[&start] - 1)),
            _ => Some(self.source.between(0, span.end() + 10)),
        };
        let Some(page) = page.filter(|page| !self.areas.contains_key(page)) else { return Ok(()) };
        let answer = self.design.free(page);
        self.expect(answer == Err(Refusal::NotAnArea), "a free of what is no area")?;
        self.expect(self.design.segments() == self.before, "a refused free that changed something")
    }

    fn alloc_group(&mut self) -> Wrong {
        let (mut offsets, mut sizes, mut end) = (Vec::new(), Vec::new(), 0);
        for _ in 0..self.source.between(1, 4) {
            end += self.source.below(100);
            let pages = self.source.between(1, 40);
            offsets.push(end);
            sizes.push(pages);
            end += pages;
        }
        if self.source.chance(128) {
            offsets.reverse();
            sizes.reverse();
        }
        let align = 1 << self.source.below(6);
        let answer = self.design.alloc_congruent(&offsets, &sizes, align);
        let best = |states: &[State]| highest_base(&ranges(&self.before, states), &offsets, &sizes, align);
        let last = best(&[State::Free, State::Lazy, State::Pooled]);
        let found = best(&[State::Free]).or(last);
        let wrong = || format!("group {offsets:?} {sizes:?} at {align} → {answer:?}, not {found:?}");
        let searched = self.all_by_search || self.design.name() == Name::Nodes.as_str();
        if searched && answer.ok() != found || answer.is_err() && last.is_some() {
            return Err(wrong());
        }
        let Ok(base) = answer else { return Ok(()) };
        let idle = ranges(&self.before, &[State::Free, State::Lazy, State::Pooled]);
        for (&offset, &pages) in offsets.iter().zip(&sizes) {
            let part = PageRange::from_len(base + offset, pages).expect("a part");
            let free = idle.iter().any(|range| range.covers(&part));
            self.expect(free && base.is_multiple_of(align), &wrong())?;
            self.areas.insert(part.start(), pages);
        }
        self.groups.push(Group { base, offsets, sizes });
        Ok(())
    }

    fn free_group(&mut self) -> Wrong {
        if self.groups.is_empty() {
            return Ok(());
        }
        let at = self.source.below(self.groups.len() as u64) as usize;
        let group = self.groups.swap_remove(at);
        // One of the parts is not there, so nothing happens to the others.
        let mut moved = group.offsets.clone();
        *moved.last_mut().expect("a part") += 1;
        let refused = self.design.free_congruent(group.base, &moved, &group.sizes);
        self.expect(refused == Err(Refusal::NotAnArea), "a group that is not there")?;
        self.expect(self.design.segments() == self.before, "a refused free that changed something")?;
        let freed = self.design.free_congruent(group.base, &group.offsets, &group.sizes);
        self.expect(freed == Ok(()), "a group that cannot be freed")?;
        self.gone.extend(group.starts());
        self.areas.retain(|start, _| !group.starts().any(|it| it == *start));
        let again = self.design.free_congruent(group.base, &group.offsets, &group.sizes);
        self.expect(again == Err(Refusal::NotAnArea), "a group that is freed twice")
    }

    fn ask_for_nonsense(&mut self) -> Wrong {
        let span = self.design.span();
        let beyond = PageRange::new(span.start(), span.end() + 1).expect("a range");
        for ask in [Ask::new(0), Ask::new(1).align(3), Ask::new(1).align(0), Ask::new(1).within(beyond)] {
            let answer = self.design.alloc(&ask);
            self.expect(answer == Err(Refusal::Bad), "nonsense")?;
        }
        for (offsets, sizes) in [(&[][..], &[][..]), (&[0, 9], &[1]), (&[0], &[0]), (&[0, 3], &[4, 1])] {
            let answer = self.design.alloc_congruent(offsets, sizes, 1);
            self.expect(answer == Err(Refusal::Bad), "a group of nonsense")?;
        }
        self.expect(self.design.segments() == self.before, "nonsense that changed something")
    }

    fn settle(&mut self) -> Wrong {
        self.design.settle();
        let counts = self.design.counts();
        self.expect(counts.lazy_pages + counts.pooled_pages == 0, "settled, but not all is back")?;
        let free = self.design.segments().windows(2).all(|it| it.iter().any(|it| it.state != State::Free));
        self.expect(free, "free neighbours that are not merged")
    }

    /// The state after a step, which the next one starts from.
    fn compare(&mut self) -> Wrong {
        self.design.verify()?;
        self.before = self.design.segments();
        let mut end = self.design.span().start();
        for segment in &self.before {
            self.expect(segment.range.start() == end, "segments with gaps between them")?;
            end = segment.range.end();
        }
        self.expect(end == self.design.span().end(), "segments that end before the span does")?;
        let busy = self.before.iter().filter(|it| it.state == State::Busy);
        let busy = busy.map(|it| (it.range.start(), it.range.len()));
        self.expect(busy.eq(self.areas.iter().map(|(&start, &pages)| (start, pages))), "other busy areas")?;
        self.compare_counts()
    }

    fn compare_counts(&self) -> Wrong {
        let counts = self.design.counts();
        let of = |state| self.before.iter().filter(move |it| it.state == state).map(|it| it.range.len());
        let shown =
            [State::Busy, State::Lazy, State::Pooled, State::Free].map(|state| of(state).sum::<u64>());
        let counted = [counts.busy_pages, counts.lazy_pages, counts.pooled_pages, counts.free_pages];
        self.expect(counted == shown, &format!("counted {counted:?}, shown {shown:?}"))?;
        self.expect(self.design.lazy_pages() == counts.lazy_pages, "lazy pages counted in two ways")?;
        self.expect(counts.busy_areas == self.areas.len() as u64, "areas are miscounted")?;
        let largest = of(State::Free).max().unwrap_or(0);
        self.expect(counts.largest_free_pages == largest, "the largest free range is not the largest")
    }

    fn lazy_before(&self) -> u64 {
        self.before.iter().filter(|it| it.state != State::Busy).map(|it| it.range.len()).sum()
    }

    /// All areas go, and the span is whole.
    fn finish(mut self) -> Wrong {
        while !self.groups.is_empty() {
            self.free_group()?;
            self.compare()?;
        }
        while let Some(start) = self.some_area() {
            self.design.free(start).map_err(|refusal| refusal.to_string())?;
            self.areas.remove(&start);
        }
        self.design.settle();
        self.compare()?;
        let whole = [Segment { range: self.design.span(), state: State::Free }];
        self.expect(self.before == whole, "not whole at the end")
    }

    fn expect(&self, holds: bool, wrong: &str) -> Wrong {
        if holds { Ok(()) } else { Err(wrong.to_owned()) }
    }
}

impl Group {
    fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.offsets.iter().map(|offset| self.base + offset)
    }
}
