//! Constants of the machine.

use super::Clause;
use crate::bench::{Bench, Verdict, ensure};
use vmalloc::{Platform, SpaceError};

pub(crate) fn constants<P: Platform>() -> Vec<Clause<P>> {
    vec![
        Clause { promise: "geometry(): the span leaves page 0 out and ends at an address", check: span },
        Clause { promise: "geometry(): the constants make sense", check: sane },
        Clause { promise: "geometry() returns the same constants each time", check: constant },
        Clause { promise: "cpu() is below Geometry::cpus, on every thread", check: cpu },
    ]
}

fn span<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    SpaceError::check_span(&bench.geometry).map_err(|error| error.to_string())
}

fn sane<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let geometry = &bench.geometry;
    ensure((6..=30).contains(&geometry.page_shift), || format!("page_shift {}", geometry.page_shift))?;
    ensure(geometry.cpus > 0, || "no CPU".into())?;
    ensure(geometry.span.len() >= 512, || {
        format!("a span of {} pages, too few for the kit", geometry.span.len())
    })?;
    ensure(geometry.max_slack_percent <= 100, || format!("{} percent", geometry.max_slack_percent))?;
    let orders = geometry.huge_order.is_none_or(|order| (1..=40).contains(&order));
    ensure(orders, || format!("huge pages of order {:?}", geometry.huge_order))?;
    let overlap = geometry.linear_map.and_then(|linear| linear.intersection(&geometry.span));
    ensure(overlap.is_none(), || format!("the linear map has {overlap:x?} of the span"))
}

fn constant<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let others = (0..100).map(|_| bench.platform.geometry());
    let other = { others }.find(|other| *other != bench.geometry);
    ensure(other.is_none(), || format!("{:x?} and then {other:x?}", bench.geometry))
}

fn cpu<P: Platform>(bench: &Bench<'_, P>) -> Verdict {
    let worst = || (0..100).map(|_| bench.platform.cpu()).max().unwrap_or(0);
    let platform = &bench.platform;
    let other = std::thread::scope(|scope| scope.spawn(move || platform.cpu()).join());
    let worst = worst().max(other.unwrap_or(usize::MAX));
    ensure(worst < bench.geometry.cpus, || format!("CPU {worst} of {}", bench.geometry.cpus))
}
