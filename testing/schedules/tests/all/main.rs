//! Explored schedules, and models of weak memory.
#![cfg(shuttle)]

mod blocks;
mod models;
mod mutants;
mod scenarios;
