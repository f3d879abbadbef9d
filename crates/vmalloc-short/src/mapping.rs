//! The owner of one short mapping.

use super::calls::ShortMaps;
use super::is_served;
use core::fmt;
use core::sync::atomic::AtomicU8;
use stable_deref_trait::{CloneStableDeref, StableDeref};
use vmalloc::{
    AllocError, DirectMemory, Frames, MapFrames, Mapping, Origin, Platform, Share, Space, SpaceRef,
};

/// A reference that always leads to the same short mappings: `&ShortMaps<S>`, `Arc<ShortMaps<S>>`
/// and others that are [`StableDeref`].
pub trait ShortMapsRef: StableDeref<Target = ShortMaps<Self::Space>> {
    /// The reference to the space that they have.
    type Space: SpaceRef<Platform: MapFrames>;
}

impl<S: SpaceRef<Platform: MapFrames>, M: StableDeref<Target = ShortMaps<S>>> ShortMapsRef for M {
    type Space = S;
}

/// An address that shows [`Frames`] for a short while, readable and writable. It keeps the frames
/// alive. Without a guard page, but for more than [`MOST_PAGES`](crate::MOST_PAGES) pages.
///
/// ```
/// use vmalloc::{DirectMemory, MapFrames, Mapping, Space};
/// use vmalloc_short::{ShortMapping, ShortMaps};
/// # use core::sync::atomic::Ordering::Relaxed;
///
/// fn twice<P: DirectMemory + MapFrames>(space: &Space<P>) -> Result<(), Box<dyn std::error::Error>> {
///     let short = ShortMaps::new(space)?;
///     let frames = space.frames(4)?;
///     let one = Mapping::new(&frames)?;
///     let two = ShortMapping::new(&short, &frames)?;
///     one.atomics()[0].store(7, Relaxed);
///     assert_eq!(two.atomics()[0].load(Relaxed), 7);
///     Ok(())
/// }
/// ```
pub struct ShortMapping<M: ShortMapsRef> {
    maps: M,
    shown: Shown<M::Space>,
}

/// The pages or the area that shows the frames.
enum Shown<S: SpaceRef<Platform: MapFrames>> {
    /// So many slots of a block, or pages of the linear map, from an address on. The share is
    /// `None` once it is ended.
    Pages { addr: usize, count: usize, share: Option<Share<S>> },
    /// An area of its own.
    Area(Mapping<S>),
}

impl<M: ShortMapsRef<Space: CloneStableDeref>> ShortMapping<M> {
    /// Maps all frames, in their order. Cost as [`ShortMaps::map`].
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed. [`BadFrame`](AllocError::BadFrame) for frames of
    /// another space.
    pub fn new(maps: M, frames: &Frames<M::Space>) -> Result<Self, AllocError> {
        if !is_same(frames.space(), maps.space()) {
            let frame = frames.first().map_or(0, |frame| frame.0);
            return Err(AllocError::BadFrame { frame, origin: Origin::Foreign });
        }
        let (share, count) = (frames.share()?, frames.len());
        let linear = maps.linear_addr(frames);
        if linear.is_none() && !is_served(count as u64) {
            let shown = Shown::Area(Mapping::new(frames)?);
            return Ok(Self { maps, shown });
        }
        let addr = linear.map_or_else(|| maps.map_scattered(frames), Ok)?;
        Ok(Self { maps, shown: Shown::Pages { addr, count, share: Some(share) } })
    }
}

fn is_same<P: Platform>(one: &Space<P>, other: &Space<P>) -> bool {
    core::ptr::eq(one, other)
}

impl<M: ShortMapsRef> ShortMapping<M> {
    /// Returns the address of the first byte.
    #[must_use]
    pub fn addr(&self) -> usize {
        match &self.shown {
            Shown::Pages { addr, .. } => *addr,
            Shown::Area(mapping) => mapping.addr(),
        }
    }

    /// Returns how many bytes it has: those of all its frames.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "no frames can't be mapped")]
    pub fn len(&self) -> usize {
        match &self.shown {
            Shown::Pages { count, .. } => count << self.maps.space().geometry().page_shift,
            Shown::Area(mapping) => mapping.len(),
        }
    }

    /// Returns the reference to the short mappings.
    pub fn maps(&self) -> &M {
        &self.maps
    }
}

impl<M: ShortMapsRef<Space: SpaceRef<Platform: MapFrames + DirectMemory>>> ShortMapping<M> {
    /// Returns the bytes. Other mappings may show them too, so each is atomic.
    #[must_use]
    pub fn atomics(&self) -> &[AtomicU8] {
        // SAFETY: the frames are mapped, readable and writable, for as long as this lives
        // (`DirectMemory`). Safe code accesses them by atomics only, whose layout is that of bytes.
        unsafe { core::slice::from_raw_parts(self.as_ptr().cast(), self.len()) }
    }

    /// Returns the address of the first byte as a pointer.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.addr())
    }
}

impl<M: ShortMapsRef> Drop for ShortMapping<M> {
    fn drop(&mut self) {
        let Shown::Pages { addr, count, share } = &mut self.shown else { return };
        // Pages of the linear map stay mapped, for every owner of the frames.
        let is_linear = self.maps.linear_frame(*addr).is_some();
        // SAFETY: this owned the mapping, and is gone.
        if let Err(error) = unsafe { self.maps.unmap(*addr, *count) } {
            self.maps.space().platform().fatal(&error);
        }
        if let Some(share) = share.take().filter(|_| !is_linear) {
            share.end_after_sweep();
        }
    }
}

impl<M: ShortMapsRef> fmt::Debug for ShortMapping<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (addr, space) = (self.addr(), self.maps.space());
        f.debug_struct("ShortMapping")
            .field("addr", &format_args!("{addr:#x}"))
            .field("area", &space.find(addr))
            .finish_non_exhaustive()
    }
}
