//! A design of your own: the highest fit under one lock, with nothing lazy. It runs the cases of
//! Linux's driver beside all others: `cargo run --release -p vmalloc-lab --example own_design`.

use std::{sync::Mutex, time::Instant};
use vmalloc::{AreaMap, Fit, PageRange, Policy, area_map};
use vmalloc_lab::workload::{CASES, Crowd, Size, Stage};
use vmalloc_lab::{Ask, Design, Refusal, Segment, Setup, State, designs::Name};

struct TopDown(PageRange, Mutex<AreaMap<'static>>);

impl Design for TopDown {
    fn name(&self) -> &'static str {
        "top-down"
    }
    fn span(&self) -> PageRange {
        self.0
    }
    fn alloc(&self, ask: &Ask) -> Result<u64, Refusal> {
        let within = ask.checked(self.0)?;
        let fit = Fit::new(ask.pages).align(ask.align).within(within.start(), within.end());
        let area = self.1.lock().unwrap().alloc(&fit.policy(Policy::Highest));
        area.map(|area| area.start()).map_err(|_| Refusal::NoSpace)
    }
    fn free(&self, start: u64) -> Result<(), Refusal> {
        self.1.lock().unwrap().free(start).map(drop).map_err(|_| Refusal::NotAnArea)
    }
    fn alloc_congruent(&self, offsets: &[u64], sizes: &[u64], align: u64) -> Result<u64, Refusal> {
        let base = vmalloc_percpu::alloc_in_map(&mut self.1.lock().unwrap(), offsets, sizes, align, None);
        base.map_err(|_| Refusal::NoSpace)
    }
    fn free_congruent(&self, base: u64, offsets: &[u64], _sizes: &[u64]) -> Result<(), Refusal> {
        offsets.iter().try_for_each(|offset| self.free(base + offset))
    }
    fn segments(&self) -> Vec<Segment> {
        let state = |state| if state == area_map::State::Free { State::Free } else { State::Busy };
        let map = self.1.lock().unwrap();
        map.segments().map(|it| Segment { range: it.range, state: state(it.state) }).collect()
    }
}

/// Prints the time of each case, in microseconds, and returns the designs.
pub(crate) fn compare(loops: u64) -> Vec<Box<dyn Design>> {
    let setup @ Setup { span, lazy_max_pages, .. } = Setup::of_this_machine();
    let own = TopDown(span, Mutex::new(AreaMap::new(span).expect("memory")));
    let mut all: Vec<Box<dyn Design>> = Name::GENERATIONS.iter().map(|name| name.build(&setup)).collect();
    all.push(Box::new(own));
    for (case, design) in CASES.iter().flat_map(|case| all.iter().map(move |design| (case, &**design))) {
        let stage = Stage { design, lazy_max_pages, tenants: None, crowd: Crowd::Alone };
        let mut times = Vec::new();
        let size = Size::loops(loops).held_by(100);
        case.run(stage, size, 1, &mut |_| times.push(Instant::now())).expect(case.name);
        println!("{:24} {:16} {:8}", case.name, design.name(), (times[1] - times[0]).as_micros());
    }
    all
}

#[allow(dead_code)] // A test calls the other one.
fn main() {
    compare(1000);
}
