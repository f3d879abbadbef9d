//! What a program can do, as tables: one for every platform, and one for each power.

mod commit;
mod ends;
mod frames;
mod looks;
mod makes;
mod misuse;
mod owned;
mod pages;
mod purges;
mod resize;
mod short;

pub(crate) use ends::End;

use crate::player::Player;
use vmalloc::{DirectMemory, Discard, MapFrames, Platform, Protect, ReadNofault, Relocate, Translate};

/// Something that a program can do.
pub(crate) struct Act<P: Platform> {
    pub(crate) name: &'static str,
    /// How often, among all acts of a program.
    pub(crate) share: u64,
    /// It makes an area.
    pub(crate) makes: bool,
    /// Its result can be judged though others use the space as well.
    pub(crate) is_shared: bool,
    pub(crate) run: Run<P>,
}

type Run<P> = fn(&mut Player<'_, P>);

impl<P: Platform> Clone for Act<P> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

fn makes<P: Platform>(name: &'static str, share: u64, run: Run<P>) -> Act<P> {
    Act { makes: true, ..act(name, share, run) }
}

fn act<P: Platform>(name: &'static str, share: u64, run: Run<P>) -> Act<P> {
    Act { name, share, makes: false, is_shared: true, run }
}

/// Returns an act for a program that has the space for itself.
fn alone<P: Platform>(name: &'static str, share: u64, run: Run<P>) -> Act<P> {
    Act { is_shared: false, ..act(name, share, run) }
}

/// Returns what every platform can do.
pub(crate) fn base<P: Platform>() -> Vec<Act<P>> {
    vec![
        makes("alloc", 28, makes::alloc),
        makes("alloc from a node", 3, makes::alloc_from_node),
        makes("reserve", 13, makes::reserve),
        makes("alloc a group", 3, pages::alloc_group),
        makes("reserve slots", 3, short::reserve),
        act("free", 20, |player| player.free_any()),
        alone("misuse", 6, misuse::misuse),
        act("grow in place", 5, resize::grow),
        act("shrink in place", 5, resize::shrink),
        act("commit", 10, commit::commit),
        act("decommit", 6, commit::decommit),
        act("write", 16, looks::write),
        act("look", 12, looks::look),
        alone("find", 8, looks::find),
        alone("purge", 4, purges::purge),
        act("move", 8, purges::run_on),
        alone("speculate", 3, purges::speculate),
        alone("fail", 4, purges::fail),
        alone("refuse a page", 2, purges::refuse),
        alone("heal", 2, purges::heal),
        alone("fork", 1, purges::fork),
        act("set a record", 4, looks::set_record),
        act("own areas", 3, owned::areas),
        act("own pages", 4, owned::pages),
    ]
}

pub(crate) fn frames<P: MapFrames>() -> Vec<Act<P>> {
    vec![
        act("take frames", 5, frames::take),
        act("give frames", 5, frames::give),
        makes("map", 9, frames::map),
        makes("map runs", 3, frames::map_runs),
        makes("map a device", 2, frames::map_device),
        makes("map for a short while", 14, short::map),
        makes("alloc shared memory", 5, makes::alloc_shared),
        makes("map shared memory", 6, frames::map_shared),
        act("map pages", 10, pages::map),
        act("unmap pages", 6, pages::unmap),
        alone("misuse frames", 4, misuse::misuse_frames),
        act("own frames", 6, owned::mappings),
    ]
}

pub(crate) fn protect<P: Protect>() -> Vec<Act<P>> {
    vec![makes("alloc code", 5, makes::alloc_exec), act("protect", 6, frames::protect)]
}

pub(crate) fn memory<P: DirectMemory>() -> Vec<Act<P>> {
    vec![act("free atomically", 8, ends::free_atomic)]
}

pub(crate) fn resize<P: DirectMemory + Relocate>() -> Vec<Act<P>> {
    vec![act("realloc", 16, resize::realloc), act("own a buffer", 4, owned::buffer)]
}

pub(crate) fn code<P: DirectMemory + Protect>() -> Vec<Act<P>> {
    vec![act("own code", 3, owned::code)]
}

pub(crate) fn discard<P: Discard>() -> Vec<Act<P>> {
    vec![act("discard", 8, commit::discard), act("own cleared pages", 4, owned::cleared_pages)]
}

pub(crate) fn read_nofault<P: ReadNofault>() -> Vec<Act<P>> {
    vec![alone("read", 10, looks::read)]
}

pub(crate) fn translate<P: Translate>() -> Vec<Act<P>> {
    vec![alone("translate", 3, looks::translate)]
}
