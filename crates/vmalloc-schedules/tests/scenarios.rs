//! Scenarios: what two to four threads do to one space, and what holds whatever the schedule.
//!
//! Each ends with everything freed and purged: [`World::finish`].
#![cfg(shuttle)]

use shuttle::sync::mpsc;
use shuttle::thread;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use vmalloc::space::Notifier;
use vmalloc::{AllocError, Config, PageRange, Platform, PlatformFault, Request, Rest};
use vmalloc_schedules::{Flushes, Plan, World, explore, here, point};
use vmalloc_sim::{Point, Sight};

/// Schedules of most scenarios, with points at locks and changes; a tenth as many more with points at every access.
const SCHEDULES: usize = 8_000;

/// Explores a scenario with few points and with many.
fn holds(name: &str, scenario: fn()) {
    explore(name, Plan::new(SCHEDULES), scenario);
    explore(name, Plan::new(SCHEDULES / 10).fine(), scenario);
}

#[test]
fn small_areas_come_and_go() {
    holds("small areas come and go", || {
        let world = World::new(24, World::tight());
        let body: fn(&World) = |world| {
            let first = world.take(1);
            let second = world.take(2);
            world.give(first, 1);
            let third = world.take(1);
            world.give(second, 2);
            world.give(third, 1);
        };
        world.run([body; 3]);
        world.finish();
    });
}

#[test]
fn the_lazy_count_never_falls_below_zero() {
    holds("the lazy count never falls below zero", || {
        let world = World::new(24, World::tight());
        let worker: fn(&World) = |world| {
            for pages in [3, 4] {
                let addr = world.take(pages);
                world.give(addr, pages);
            }
        };
        world.run([worker, worker, |world| {
            for _ in 0..4 {
                let stats = world.stats();
                assert!(stats.lazy_pages <= stats.span_pages, "{} lazy pages", stats.lazy_pages);
            }
        }]);
        world.finish();
    });
}
