//! Explored schedules, and models of weak memory.
#![cfg(shuttle)]

mod blocks;
mod flushes;
mod models;
mod scenarios;
