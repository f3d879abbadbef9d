//! Mappings of frames and the rest of the family, on simulated machines of every kind. Mapped pages
//! show their frames, and other pages fault. No address is handed out while a TLB holds it. Frames
//! come back when no mapping leads to them. A refused call changes nothing.

mod info;
mod ram;
mod requests;
mod reserved;
pub(crate) mod support;
