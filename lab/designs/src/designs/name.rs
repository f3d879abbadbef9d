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

/// A design by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
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
    pub const ALL: [Self; 9] = [
        Self::BusyListP0,
        Self::BusyList,
        Self::FreeList,
        Self::AugmentedP0,
        Self::AugmentedP1,
        Self::Augmented,
        Self::Nodes,
        Self::Vmalloc,
        Self::VmallocCached,
    ];

    /// The generations as they were, and ours.
    pub const HISTORY: [Self; 5] =
        [Self::BusyList, Self::FreeList, Self::Augmented, Self::Nodes, Self::Vmalloc];

    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BusyListP0 => "busy-list-p0",
            Self::BusyList => "busy-list",
            Self::FreeList => "free-list",
            Self::AugmentedP0 => "augmented-p0",
            Self::AugmentedP1 => "augmented-p1",
            Self::Augmented => "augmented",
            Self::Nodes => "nodes",
            Self::Vmalloc => "vmalloc",
            Self::VmallocCached => "vmalloc-cached",
        }
    }

    /// One line about it.
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

    /// An empty one.
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

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that no design has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName(String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no design is called {:?}; there are {}", self.0, Name::ALL.map(Name::as_str).join(", "))
    }
}

impl std::error::Error for UnknownName {}

impl FromStr for Name {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|name| name.as_str() == text).ok_or_else(|| UnknownName(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_back_and_names_its_design() {
        for name in Name::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
            assert_eq!(name.build(&Setup::with_cpus(1)).name(), name.as_str());
        }
        let unknown = "buddy".parse::<Name>().unwrap_err().to_string();
        assert!(Name::ALL.iter().all(|name| unknown.contains(name.as_str())), "{unknown}");
    }
}
