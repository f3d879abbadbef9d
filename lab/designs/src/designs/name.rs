//! The names of the designs.

use super::augmented::Augmented;
use super::busy_list::BusyList;
use super::classic::Classic;
use super::free_list::FreeList;
use super::nodes::Nodes;
use super::ours::{Ours, Reuse};
use super::pair::Pair;
use super::purge::Purge;
use crate::design::{Design, Setup};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use strum::{IntoStaticStr, VariantArray};
use vmalloc::PageRange;

/// A design by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Name {
    /// A0 with purge P0.
    BusyListP0,
    /// A0 with purge P1, as it was from 2016 on.
    BusyList,
    /// A1 with purge P1, as it was.
    FreeList,
    /// A2 with purge P0.
    AugmentedP0,
    /// A2 with purge P1.
    AugmentedP1,
    /// A2 with purge P2, as it was.
    Augmented,
    /// A3.
    Nodes,
    /// Ours as a kernel would use it: freed areas are unmapped, and wait for a flush.
    Vmalloc,
    /// Ours as programs use it: freed areas keep their memory for a while, and need no flush.
    VmallocCached,
}

impl Name {
    /// All, oldest first.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Each generation as it was, and ours both ways.
    pub const GENERATIONS: [Self; 6] =
        [Self::BusyList, Self::FreeList, Self::Augmented, Self::Nodes, Self::Vmalloc, Self::VmallocCached];

    /// Returns the name as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Describes it in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::BusyListP0 => "busy-list, a spin lock held over a whole purge",
            Self::BusyList => "before 2018: busy areas in a list, walked for the first hole; purge of 2016",
            Self::FreeList => "2018: free ranges in a list, walked for the first fit; purge of 2016",
            Self::AugmentedP0 => "augmented, a spin lock held over a whole purge",
            Self::AugmentedP1 => "augmented, the lock always offered between the areas of a purge",
            Self::Augmented => {
                "2019: free ranges with the largest below each, found from the root; purge of 2018"
            }
            Self::Nodes => "2024: a node for each CPU with pools, busy and lazy areas; augmented below",
            Self::Vmalloc => "this project's, addresses purged and flushed before reuse",
            Self::VmallocCached => "this project's, freed areas kept for reuse as they are",
        }
    }

    /// Builds an empty one.
    ///
    /// # Panics
    /// When memory for its metadata is short, or the set-up makes no sense.
    #[must_use]
    pub fn build(self, setup: &Setup) -> Box<dyn Design> {
        let name = self.as_str();
        let augmented = |purge| Box::new(Classic::<Pair<Augmented>>::new(name, setup, purge));
        let busy_list = |purge| Box::new(Classic::<BusyList>::new(name, setup, purge));
        match self {
            Self::BusyListP0 => busy_list(Purge::p0()),
            Self::BusyList => busy_list(Purge::p1()),
            Self::FreeList => Box::new(Classic::<Pair<FreeList>>::new(name, setup, Purge::p1())),
            Self::AugmentedP0 => augmented(Purge::p0()),
            Self::AugmentedP1 => augmented(Purge::p1()),
            Self::Augmented => augmented(Purge::p2()),
            Self::Nodes => Box::new(Nodes::new(setup)),
            Self::Vmalloc => Box::new(Ours::new(setup, Reuse::AfterFlush)),
            Self::VmallocCached => Box::new(Ours::new(setup, Reuse::AsItIs)),
        }
    }
}

impl Name {
    /// Builds an empty one for each window. Windows of [`Nodes`](Self::Nodes) share all but their
    /// addresses, as Linux's do; those of other designs share nothing.
    ///
    /// # Panics
    /// As [`build`](Self::build), and where there is no window.
    #[must_use]
    pub fn build_windows(self, setup: &Setup, windows: &[PageRange]) -> Vec<Box<dyn Design>> {
        let boxed = |nodes| Box::new(nodes) as Box<dyn Design>;
        match self {
            Self::Nodes => Nodes::of_windows(setup, windows).into_iter().map(boxed).collect(),
            _ => windows.iter().map(|&window| self.build(&setup.span(window))).collect(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

fn names() -> String {
    Name::ALL.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A name that no design has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no design is named '{0}'; there are {names}", names = names())]
pub struct UnknownName(String);

impl FromStr for Name {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|name| name.as_str() == text);
        found.copied().ok_or_else(|| UnknownName(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_back_and_names_its_design() {
        for &name in Name::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
            assert_eq!(name.build(&Setup::with_cpus(1)).name(), name.as_str());
        }
        let unknown = "buddy".parse::<Name>().unwrap_err().to_string();
        assert!(Name::ALL.iter().all(|name| unknown.contains(name.as_str())), "{unknown}");
    }
}
