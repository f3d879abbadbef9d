//! The space: areas on real memory (work in progress: bodies follow).
use crate::area_map::Violation;
use crate::error::{AllocError, FreeError};
use crate::platform::{DirectMemory, Platform};
use crate::request::Policy;
use core::ptr::NonNull;

/// Settings of a space.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Put an unmapped guard page behind every area.
    pub guard: bool,
    /// Freed areas keep their pages for reuse, up to this many bytes in all; 0 = unmap on free.
    pub retain_bytes: usize,
    /// Lazy pages that start a purge; 0 = 32 MiB per fls(cpus).
    pub lazy_max_pages: u64,
    /// Placement.
    pub policy: Policy,
}
#[allow(clippy::unimplemented)]
impl Default for Config { fn default() -> Self { unimplemented!() } }
/// What an area is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind { /// mapped memory
    Vmalloc, /// addresses only
    Reserved }
/// A request in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Request { _p: () }
#[allow(missing_docs, unused_variables, clippy::unimplemented)]
impl Request {
    pub const fn new(bytes: usize) -> Self { unimplemented!() }
    pub const fn align(self, bytes: usize) -> Self { unimplemented!() }
    pub const fn zeroed(self) -> Self { unimplemented!() }
    pub const fn without_guard(self) -> Self { unimplemented!() }
    pub const fn within(self, start: usize, end: usize) -> Self { unimplemented!() }
    pub const fn tag(self, tag: &'static str) -> Self { unimplemented!() }
}
/// What is known of a busy area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AreaInfo { /// address
    pub addr: usize, /// requested bytes
    pub bytes: usize, /// pages, without the guard
    pub pages: u64, /// guard page behind it
    pub guard: bool, /// kind
    pub kind: Kind, /// caller's tag
    pub tag: Option<&'static str> }
/// Counters of a space, in pages unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[allow(missing_docs)]
pub struct Stats { pub span_pages: u64, pub busy_areas: u64, pub busy_pages: u64, pub lazy_areas: u64, pub lazy_pages: u64, pub retained_areas: u64, pub retained_pages: u64, pub free_pages: u64, pub largest_free_pages: u64, pub purges: u64, pub purged_areas: u64, pub metadata_bytes: u64 }
/// One address space on a platform.
pub struct Space<P: Platform> { _p: P }
#[allow(missing_docs, unused_variables, clippy::unimplemented)]
impl<P: Platform> Space<P> {
    pub fn new(platform: P, config: Config) -> Result<Self, AllocError> { unimplemented!() }
    pub fn platform(&self) -> &P { unimplemented!() }
    pub fn config(&self) -> &Config { unimplemented!() }
    /// Mapped area; its address.
    pub fn alloc(&self, request: &Request) -> Result<usize, AllocError> { unimplemented!() }
    /// Frees what alloc returned (by start address).
    pub fn vfree(&self, addr: usize) -> Result<(), FreeError> { unimplemented!() }
    /// Addresses only, nothing mapped.
    pub fn reserve(&self, request: &Request) -> Result<usize, AllocError> { unimplemented!() }
    /// Frees what reserve returned.
    pub fn unreserve(&self, addr: usize) -> Result<(), FreeError> { unimplemented!() }
    pub fn find(&self, addr: usize) -> Option<AreaInfo> { unimplemented!() }
    pub fn is_vmalloc_addr(&self, addr: usize) -> bool { unimplemented!() }
    /// Busy areas in address order, from `addr` on; lock held for a bounded number of areas at a time.
    pub fn areas(&self) -> impl Iterator<Item = AreaInfo> + '_ { core::iter::empty() }
    pub fn stats(&self) -> Stats { unimplemented!() }
    /// Gives back everything lazy and retained, now; waits for a purge under way.
    pub fn purge(&self) { unimplemented!() }
    pub fn verify(&self) -> Result<(), Violation> { unimplemented!() }
}
#[allow(missing_docs, unused_variables, clippy::unimplemented)]
impl<P: DirectMemory> Space<P> {
    pub fn vmalloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> { unimplemented!() }
    pub fn vzalloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> { unimplemented!() }
}
