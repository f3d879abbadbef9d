//! The operating system: one file for each thing that Linux is asked for. No file here knows of
//! guard pages, frames or spaces.

pub(crate) mod batch;
pub(crate) mod cpu;
pub(crate) mod fatal;
pub(crate) mod futex;
pub(crate) mod gaps;
pub(crate) mod huge_pages;
pub(crate) mod limits;
pub(crate) mod madvise;
pub(crate) mod map_count;
pub(crate) mod own_descriptor;
pub(crate) mod pagemap;
pub(crate) mod raw;
pub(crate) mod reservation;
pub(crate) mod swap;
pub(crate) mod userfaultfd;
pub(crate) mod weak;
