//! The session: a few areas of each kind, some of them freed again.

use super::mapped::Mapped;
use crate::cases::Area;
use crate::error::Failure;
use crate::machine::Machine;
use vmalloc::Request;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The areas that stay allocated.
pub(super) struct Session<'m> {
    machine: &'m Machine,
    areas: Vec<Area<'m>>,
    reserved: usize,
    mapped: Mapped<'m>,
}

/// Areas that stay.
fn kept() -> [Request; 5] {
    [
        Request::new(8 * MIB).align(2 * MIB).zeroed().tag("frame_buffer"),
        Request::new(256 * KIB).tag("ring_buffer"),
        Request::new(16 * KIB).align(16 * KIB).tag("stack"),
        Request::new(100_000).tag("symbol_table"),
        Request::new(64 * KIB).guard(false).tag("dense_table"),
    ]
}

/// Areas that are freed: small ones that may be kept for reuse, and one that is too large for that.
fn freed() -> [Request; 3] {
    [4 * KIB, 128 * KIB, 4 * MIB].map(|bytes| Request::new(bytes).tag("scratch"))
}

impl<'m> Session<'m> {
    /// Allocates, reserves, maps, and frees some.
    pub(super) fn begin(machine: &'m Machine) -> Result<Self, Failure> {
        let mut areas = touched(machine, &kept())?;
        let scratch = touched(machine, &freed())?;
        let registers = Request::new(MIB).tag("device_registers");
        let reserved = machine.space.raw().reserve(&registers).map_err(refused)?;
        // The area of code is freed as the others are.
        let code = machine.space.raw().alloc_exec(&Request::new(8 * KIB).tag("code")).map_err(refused)?;
        areas.push(Area::from_addr(machine, code));
        let mapped = Mapped::begin(machine)?;
        scratch.into_iter().try_for_each(Area::free).map_err(refused)?;
        Ok(Self { machine, areas, reserved, mapped })
    }

    /// Frees the rest.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.mapped.end()?;
        self.areas.into_iter().try_for_each(Area::free).map_err(refused)?;
        // SAFETY: nothing uses the addresses any more.
        unsafe { self.machine.space.raw().unreserve(self.reserved) }.map_err(refused)
    }
}

fn touched<'m>(machine: &'m Machine, requests: &[Request]) -> Result<Vec<Area<'m>>, Failure> {
    let areas: Result<Vec<_>, _> = requests.iter().map(|request| Area::new(machine, request)).collect();
    let mut areas = areas.map_err(refused)?;
    areas.iter_mut().for_each(Area::touch);
    Ok(areas)
}

/// Why there is no session.
pub(super) fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the session was refused: {error}"))
}
