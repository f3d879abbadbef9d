//! What a map is to the language: printed, copied, compared, and written out.

use super::{AreaMap, Segment, State};
use crate::FitError;
use crate::PageRange;
use core::fmt;

impl fmt::Debug for AreaMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AreaMap")
            .field("span", &self.span())
            .field("areas", &self.area_count())
            .field("free_pages", &self.free_pages())
            .field("largest_free", &self.largest_free())
            .finish_non_exhaustive()
    }
}

impl AreaMap<'_> {
    /// Returns a map of the same segments, with its records on the heap. O(n log n).
    ///
    /// # Errors
    /// [`FitError::Metadata`].
    pub fn try_clone<'m>(&self) -> Result<AreaMap<'m>, FitError> {
        AreaMap::rebuild(self.span(), self.segments())
    }

    /// Makes a map of segments that follow each other from the start of `span` on.
    fn rebuild<'m>(
        span: PageRange,
        segments: impl Iterator<Item = Segment>,
    ) -> Result<AreaMap<'m>, FitError> {
        let mut map = AreaMap::new(span)?;
        for Segment { range, state } in segments.filter(|segment| segment.state != State::Free) {
            map.alloc_at(range)?;
            if state == State::Retired {
                // It is busy, so it can be retired. The token of the original is of no use here.
                let _ = map.quarantine(range.start());
            }
        }
        Ok(map)
    }
}

/// The copy has its records on the heap. It panics where that has no room for them:
/// [`try_clone`](AreaMap::try_clone) does not.
impl Clone for AreaMap<'_> {
    fn clone(&self) -> Self {
        self.try_clone().unwrap_or_else(|error| panic!("a map can't be cloned: {error}"))
    }
}

/// Two maps are equal if their spans, segments and states are. O(n).
impl PartialEq for AreaMap<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.span() == other.span() && self.segments().eq(other.segments())
    }
}

impl Eq for AreaMap<'_> {}

#[cfg(feature = "serde")]
mod serialized {
    use super::*;
    use alloc::vec::Vec;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// A map as it is written. Compact formats write the number of segments first, so the segments
    /// are counted before: they are in a list.
    #[derive(Serialize, Deserialize)]
    #[serde(rename = "AreaMap")]
    struct Plain {
        span: PageRange,
        segments: Vec<Segment>,
    }

    impl Serialize for AreaMap<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            Plain { span: self.span(), segments: self.segments().collect() }.serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for AreaMap<'_> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let Plain { span, segments } = Plain::deserialize(deserializer)?;
            check(span, &segments).map_err(D::Error::custom)?;
            AreaMap::rebuild(span, segments.into_iter()).map_err(D::Error::custom)
        }
    }

    fn check(span: PageRange, segments: &[Segment]) -> Result<(), &'static str> {
        let mut page = span.start();
        let mut was_free = false;
        for Segment { range, state } in segments {
            let is_free = *state == State::Free;
            if range.start() != page {
                return Err("segments do not follow each other");
            }
            if was_free && is_free {
                return Err("two free ranges side by side");
            }
            (page, was_free) = (range.end(), is_free);
        }
        if page == span.end() { Ok(()) } else { Err("segments do not end with the span") }
    }
}
