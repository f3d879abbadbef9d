//! Designs on virtual CPUs.
mod load;
use load::Load;
#[global_allocator]
static ALLOCATOR: vmalloc_machine::Allocator = vmalloc_machine::Allocator;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let cpus = args[2].parse().unwrap();
    let o = Load::published(args[1].parse().unwrap(), cpus, args[3].parse().unwrap()).run();
    let r = &o.report;
    let pairs = o.load.pairs() as f64;
    println!("{} {cpus}: {:.4} ms, spin {:.2} %, idle {:.2} %, blocks {:.2}, lines {:.2}, lost {:.1} ns, queued {:.1}, span {}", args[1], r.time as f64/1e9, 100.0*r.spun as f64/r.busy as f64,
        100.0*r.idle as f64/(r.busy+r.idle) as f64, r.blocks as f64/pairs, r.lines.passed as f64/pairs, r.lines.lost as f64/pairs/1e3, r.lines.queued as f64/pairs/1e3, o.span);
    for (name, s) in r.locks() { println!("  {name}: taken {:.3} waited {:.1} % of time {:.2} % hold {:.0} max {:.0}", s.taken as f64/pairs, 100.0*s.waited as f64/s.taken as f64, 100.0*s.wait as f64/r.busy as f64, s.hold as f64/s.taken as f64/1e3, s.hold_max as f64/1e3); }
    for (name, s) in r.lock_sites().iter().take(8) { println!("  {name}: taken {:.3} wait {:.2} %", s.taken as f64/pairs, 100.0*s.wait as f64/r.busy as f64); }
    for (name, s) in r.line_sites().iter().take(12) { println!("  {name}: lines {:.3} lost {:.2} %", s.passed as f64/pairs, 100.0*s.lost as f64/r.busy as f64); }
}
