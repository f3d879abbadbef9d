//! The reports of vmalloc on traps and overflows leave wasmtime's faults to wasmtime, whichever handler came first.
//!
//! Handlers are of the process, so each order is a program of its own: the test calls itself.

use std::process::Command;
use vmalloc_client_wasmtime::install;
use wasmtime::{Config, Engine, Instance, Module, Store, Trap};

const ORDER: &str = "VMALLOC_CLIENT_ORDER";

fn report() {
    vmalloc_linux::trap_report::install().unwrap();
    vmalloc_stacks::report_overflows().unwrap();
}

/// Traps behind a memory, before and after it was freed and reused.
fn trap() {
    let mut config = Config::new();
    install(&mut config).unwrap();
    let engine = Engine::new(&config).unwrap();
    if std::env::var(ORDER).as_deref() == Ok("wasmtime first") {
        report();
    }
    let module = Module::new(
        &engine,
        r#"(module (memory 1) (func (export "load") (param i32) (result i32) (i32.load (local.get 0))))"#,
    )
    .unwrap();
    for _ in 0..3 {
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let load = instance.get_typed_func::<i32, i32>(&mut store, "load").unwrap();
        for at in [65536, 1 << 30, -8] {
            assert_eq!(
                load.call(&mut store, at).unwrap_err().downcast::<Trap>().unwrap(),
                Trap::MemoryOutOfBounds
            );
        }
        assert_eq!(load.call(&mut store, 8).unwrap(), 0);
    }
}

fn trap_in_a_program(order: &str) {
    if let Ok(asked) = std::env::var(ORDER) {
        if asked == "reports first" {
            report();
        }
        return if asked == order { trap() } else { () };
    }
    let test = std::thread::current().name().unwrap().to_owned();
    let program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env(ORDER, order)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&program.stderr);
    assert!(program.status.success(), "{}\n{errors}", program.status);
    assert!(!errors.contains("vmalloc: "), "{errors}");
}

#[test]
fn wasm_traps_are_wasmtime_s_when_our_reports_were_installed_first() {
    trap_in_a_program("reports first");
}

#[test]
fn wasm_traps_are_wasmtime_s_when_our_reports_were_installed_after_it() {
    trap_in_a_program("wasmtime first");
}
