//! Temporaries of numpy beside a reused buffer: runs `bench.py`, which says what it measures.
//!
//! `cargo run --release --bin bench [ROUNDS]`

use std::process::ExitCode;
use vmalloc_client_numpy::Environment;

fn main() -> ExitCode {
    let environment = match Environment::provide() {
        Ok(environment) => environment,
        Err(reason) => {
            println!("NOT RUN: the bench of numpy: {reason}");
            return ExitCode::SUCCESS;
        }
    };
    match environment.command().arg("bench.py").args(std::env::args().skip(1)).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
