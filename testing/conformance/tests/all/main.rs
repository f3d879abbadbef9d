//! The kit on platforms that keep its promises, and on those that break one.

mod common;
mod linux;
mod mistakes;
mod porting;
mod simulator;
