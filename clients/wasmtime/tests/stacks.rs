//! Async calls run on our stacks.

use pollster::block_on;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use vmalloc_client_wasmtime::{Stacks, install};
use vmalloc_stacks::StacksOptions;
use wasmtime::{
    Caller, Config, Engine, Instance, Linker, Module, StackCreator, StackMemory, Store, Trap, TypedFunc,
};

/// Calls the host at each level of a recursion, which waits, and adds up what it answers.
const DEEP: &str = r#"(module
    (import "host" "wait" (func $wait (param i32) (result i32)))
    (memory (export "memory") 1)
    (func $deep (export "deep") (param i32) (result i32)
        (if (result i32) (i32.eqz (local.get 0))
            (then (i32.const 0))
            (else (i32.add (call $wait (local.get 0)) (call $deep (i32.sub (local.get 0) (i32.const 1)))))))
    (func $endless (export "endless") (param i32) (result i32) (i32.add (i32.const 1) (call $endless (local.get 0)))))"#;

fn engine() -> Engine {
    let mut config = Config::new();
    install(&mut config).unwrap();
    Engine::new(&config).unwrap()
}

/// Makes futures pending once.
async fn once() {
    let mut is_first = true;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await
}

fn linker(engine: &Engine) -> Linker<usize> {
    let mut linker = Linker::new(engine);
    linker
        .func_wrap_async("host", "wait", |mut caller: Caller<'_, usize>, (number,): (i32,)| {
            Box::new(async move {
                once().await;
                *caller.data_mut() += 1;
                number
            })
        })
        .unwrap();
    linker
}

async fn function(store: &mut Store<usize>, module: &Module, name: &str) -> TypedFunc<i32, i32> {
    let instance: Instance = linker(module.engine()).instantiate_async(&mut *store, module).await.unwrap();
    instance.get_typed_func(store, name).unwrap()
}

#[test]
fn an_async_call_waits_at_each_level_of_a_recursion() {
    let engine = engine();
    let module = Module::new(&engine, DEEP).unwrap();
    let mut store = Store::new(&engine, 0);
    let sum = block_on(async {
        let deep = function(&mut store, &module, "deep").await;
        deep.call_async(&mut store, 500).await.unwrap()
    });
    assert_eq!((sum, *store.data()), (500 * 501 / 2, 500));
}

#[test]
fn hundreds_of_calls_wait_at_once_each_on_its_own_stack() {
    let engine = engine();
    let module = Module::new(&engine, DEEP).unwrap();
    let mut calls: Vec<_> = (0..300)
        .map(|number| {
            let module = module.clone();
            Box::pin(async move {
                let mut store = Store::new(module.engine(), 0);
                let deep = function(&mut store, &module, "deep").await;
                deep.call_async(&mut store, number).await.unwrap()
            })
        })
        .collect();
    let mut sums = vec![None; calls.len()];
    let polls = AtomicUsize::new(0);
    block_on(poll_fn(|context| {
        for (call, sum) in calls.iter_mut().zip(&mut sums).filter(|(_, sum)| sum.is_none()) {
            polls.fetch_add(1, Ordering::Relaxed);
            if let Poll::Ready(done) = call.as_mut().poll(context) {
                *sum = Some(done);
            }
        }
        if sums.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }));
    assert!(sums.iter().enumerate().all(|(number, sum)| *sum == Some((number * (number + 1) / 2) as i32)));
    assert!(polls.into_inner() > 300 * 299 / 2, "the calls did not wait");
}

#[test]
fn a_call_that_is_dropped_while_it_waits_gives_its_stack_back() {
    let addresses = vmalloc_stacks::LinuxOptions::new().max_bytes(1 << 32);
    let options = StacksOptions::new().stack_bytes(2 << 20);
    let pool = vmalloc_stacks::Stacks::open_with(addresses, &options).unwrap();
    let mut config = Config::new();
    install(&mut config).unwrap();
    config.with_host_stack(Arc::new(Stacks::on(pool.clone())));
    let engine = Engine::new(&config).unwrap();
    let module = Module::new(&engine, DEEP).unwrap();
    // So many stacks of 2 MiB at once would not fit into 4 GiB.
    for _ in 0..4000 {
        let mut store = Store::new(&engine, 0);
        block_on(async {
            let deep = function(&mut store, &module, "deep").await;
            let mut call = Box::pin(deep.call_async(&mut store, 9));
            poll_fn(|context| Poll::Ready(assert!(call.as_mut().poll(context).is_pending()))).await;
        });
    }
    assert!(pool.stats().busy_areas > 1, "the stacks are not of this pool");
}

#[test]
fn a_recursion_without_end_is_a_trap_and_the_stack_is_used_again() {
    let engine = engine();
    let module = Module::new(&engine, DEEP).unwrap();
    for _ in 0..50 {
        let mut store = Store::new(&engine, 0);
        let error = block_on(async {
            let endless = function(&mut store, &module, "endless").await;
            endless.call_async(&mut store, 0).await.unwrap_err()
        });
        assert_eq!(error.downcast::<Trap>().unwrap(), Trap::StackOverflow);
    }
}

#[test]
fn a_trap_of_the_guard_behind_a_memory_ends_an_async_call() {
    let engine = engine();
    let module = Module::new(
        &engine,
        r#"(module (memory 1) (func (export "load") (param i32) (result i32) (i32.load (local.get 0))))"#,
    )
    .unwrap();
    let mut store = Store::new(&engine, 0);
    block_on(async {
        let load = function(&mut store, &module, "load").await;
        let error = load.call_async(&mut store, 1 << 20).await.unwrap_err();
        assert_eq!(error.downcast::<Trap>().unwrap(), Trap::MemoryOutOfBounds);
        assert_eq!(load.call_async(&mut store, 4).await.unwrap(), 0);
    });
}

#[test]
fn a_stack_asked_for_zeros_has_them_though_it_was_used() {
    let maker = Stacks::open(64 << 10).unwrap();
    let bytes = |stack: &dyn StackMemory| {
        let range = stack.range();
        // SAFETY: the stack is this test's, and nothing runs on it.
        unsafe { std::slice::from_raw_parts_mut(range.start as *mut u8, range.len()) }
    };
    for size in [64 << 10, 1 << 20] {
        for _ in 0..10 {
            let stack = maker.new_stack(size, true).unwrap();
            assert_eq!((stack.range().len(), stack.top() as usize), (size, stack.range().end));
            assert_eq!(stack.guard_range().end as usize, stack.range().start);
            let bytes = bytes(&*stack);
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(1);
        }
    }
}

#[test]
fn calls_go_on_in_another_thread() {
    let engine = engine();
    let module = Module::new(&engine, DEEP).unwrap();
    let threads = (0..2).map(|_| {
        let module = module.clone();
        std::thread::spawn(move || {
            for _ in 0..100 {
                let module = module.clone();
                let mut call = Box::pin(async move {
                    let mut store = Store::new(module.engine(), 0);
                    let deep = function(&mut store, &module, "deep").await;
                    deep.call_async(&mut store, 20).await.unwrap()
                });
                block_on(poll_fn(|context| Poll::Ready(assert!(call.as_mut().poll(context).is_pending()))));
                assert_eq!(std::thread::spawn(move || block_on(call)).join().unwrap(), 210);
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}
