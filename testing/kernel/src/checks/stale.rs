//! Translations that a CPU still has.

use super::memory::unexpected;
use crate::access::{self, Fault};
use crate::arch::tlb;
use crate::cpu::Here;
use crate::machine::PATIENCE;
use crate::memory::direct;
use crate::world::{Failure, Outcome, World, ensure, free, pages};
use crate::{walk, workers};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use lock_api::Mutex;
use vmalloc::{Frame, PurgeError};
use vmalloc_tables::{Interrupts, IrqLock, Reach};

const OLD: u64 = 0x0101_0101;
const NEW: u64 = 0x0202_0202;

/// An area is read by CPU 1, freed and purged here, and its frame written by its next owner: what
/// CPU 1 reads at its address then.
fn read_after_free(world: &World, cpu: usize) -> Result<Result<u64, Fault>, Failure> {
    let addr = pages(world.space, 1)?;
    // SAFETY: the area is this check's.
    unsafe { access::write(addr, OLD) }.map_err(unexpected)?;
    let (physical, _) = walk::leaf(addr).ok_or(Failure("no page".into()))?;
    let before = read_on(world, cpu, addr);
    ensure!(before == Ok(OLD), "CPU {cpu} reads {before:x?} before it is freed");
    free(world.space, addr)?;
    world.space.purge()?;
    // Frames until it is that one.
    let mut taken = Vec::new();
    while taken.last() != Some(&Frame(physical >> 12)) {
        let mut frame = [Frame(0)];
        ensure!(world.kernel.supply.take(&mut frame), "its frame did not come back");
        taken.push(frame[0]);
    }
    // SAFETY: the frame was just taken.
    unsafe { direct::<u64>(physical).write_volatile(NEW) };
    let after = read_on(world, cpu, addr);
    world.kernel.supply.give(&taken);
    Ok(after)
}

fn read_on(world: &World, cpu: usize, addr: usize) -> Result<u64, Fault> {
    let result: Mutex<IrqLock<Here>, _> = Mutex::new(Ok(0));
    workers::on(world.kernel, cpu, || *result.lock() = access::read(addr));
    result.into_inner()
}

/// With forgetting switched off.
pub(super) fn without_shootdown(world: &World) -> Outcome {
    const ROUNDS: usize = 10;
    world.kernel.keeps_stale.store(true, Ordering::SeqCst);
    let reads: Result<Vec<_>, _> = (0..ROUNDS).map(|_| read_after_free(world, 1)).collect();
    world.kernel.keeps_stale.store(false, Ordering::SeqCst);
    workers::all(world.kernel, |_| tlb::forget_all());
    let wrong = reads?.iter().filter(|&&read| read == Ok(NEW)).count();
    // Not in every round: emulated CPUs also drop translations of their own accord.
    ensure!(wrong > 0, "none of {ROUNDS} reads saw the next owner's data");
    Ok(())
}

pub(super) fn with_shootdown(world: &World) -> Outcome {
    for round in 0..50 {
        let cpu = 1 + round % (world.cpus() - 1);
        let read = read_after_free(world, cpu)?;
        ensure!(read.is_err(), "in round {round} CPU {cpu} still reads {read:x?}");
    }
    Ok(())
}

/// Areas of a page, of which every second is freed and purged: where forgetting reaches all CPUs,
/// two barriers do for all ranges, and no interrupt is sent.
pub(super) fn many_ranges(world: &World) -> Outcome {
    let areas: Vec<usize> = (0..2000).map(|_| pages(world.space, 1)).collect::<Result<_, _>>()?;
    let (freed, kept): (Vec<_>, Vec<_>) = areas.iter().enumerate().partition(|(nth, _)| nth % 2 == 0);
    let free_all =
        |areas: Vec<(usize, &usize)>| areas.iter().try_for_each(|(_, addr)| free(world.space, **addr));
    free_all(freed)?;
    let sent = || (tlb::BARRIERS.load(Ordering::SeqCst), world.kernel.interrupts.load(Ordering::SeqCst));
    let (barriers, interrupts) = sent();
    world.space.purge()?;
    let (barriers, interrupts) = (sent().0 - barriers, sent().1 - interrupts);
    free_all(kept)?;
    let others = if tlb::REACH == Reach::All { 0 } else { world.cpus() as u64 - 1 };
    ensure!(barriers <= 2 && interrupts == others, "{barriers} barriers, {interrupts} interrupts");
    Ok(())
}

/// CPU 1 keeps interrupts off.
pub(super) fn silent_cpu(world: &World) -> Outcome {
    let (is_silent, may_answer) = (AtomicBool::new(false), AtomicBool::new(false));
    let work = |_| {
        Here::off();
        is_silent.store(true, Ordering::SeqCst);
        while !may_answer.load(Ordering::SeqCst) {
            core::hint::spin_loop();
        }
        Here::on();
    };
    let addr = pages(world.space, 1)?;
    // SAFETY: the area is this check's.
    unsafe { access::write(addr, OLD) }.map_err(unexpected)?;
    let workers = workers::begin(world.kernel, [1], &work);
    while !is_silent.load(Ordering::SeqCst) {
        core::hint::spin_loop();
    }
    let freed = free(world.space, addr);
    world.kernel.blocking.store(1 << 12, Ordering::SeqCst);
    let purged = world.space.purge();
    world.kernel.blocking.store(PATIENCE, Ordering::SeqCst);
    let kept = world.missing();
    may_answer.store(true, Ordering::SeqCst);
    drop(workers);
    freed?;
    let error = purged.err().ok_or(Failure("nobody noticed".into()))?;
    let is_told = matches!(error, PurgeError::Platform(error) if error.code == 1);
    ensure!(is_told, "CPU 1 is silent, but: {error}");
    ensure!(kept == 1, "{kept} frames are kept, not 1");
    world.space.purge()?;
    ensure!(access::read(addr).is_err(), "it is still there");
    Ok(())
}
