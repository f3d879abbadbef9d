//! Linear memories in slots behave as wasmtime's own.

use std::sync::Arc;
use vmalloc::{Space, SpaceOptions};
use vmalloc_client_wasmtime::{Memories, install};
use vmalloc_linux::{Linux, open};
use vmalloc_slots::SlotsOptions;
use wasmtime::{Config, Engine, Instance, Memory, Module, Store, Trap, TypedFunc};

const PAGE: usize = 64 << 10;

const ALL: &str = r#"(module
    (memory (export "memory") MIN MAX)
    (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
    (func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
    (func (export "far") (param i32) (result i32) (i32.load offset=0xffff0000 (local.get 0)))
    (func (export "store") (param i32 i32) (i32.store (local.get 0) (local.get 1)))
    (func (export "fill") (param i32) (memory.fill (i32.const 0) (local.get 0) (i32.mul (memory.size) (i32.const 65536)))))"#;

fn engine() -> Engine {
    let mut config = Config::new();
    install(&mut config).unwrap();
    Engine::new(&config).unwrap()
}

/// Returns a maker with a space of its own, and an engine that uses it.
fn own(options: SlotsOptions, tune: impl FnOnce(&mut Config)) -> (Arc<Memories>, Engine) {
    let space: Arc<Space<Linux>> =
        open(vmalloc_linux::LinuxOptions::new().max_bytes(1 << 43), SpaceOptions::default()).unwrap();
    let memories = Arc::new(Memories::on(space, options));
    let mut config = Config::new();
    config.memory_init_cow(false).with_host_memory(memories.clone());
    tune(&mut config);
    (memories, Engine::new(&config).unwrap())
}

fn module(engine: &Engine, minimum: usize, maximum: Option<usize>) -> Module {
    let maximum = maximum.map_or(String::new(), |maximum| maximum.to_string());
    Module::new(engine, ALL.replace("MIN", &minimum.to_string()).replace("MAX", &maximum)).unwrap()
}

/// An instance with its functions.
struct Guest {
    store: Store<()>,
    instance: Instance,
}

impl Guest {
    fn new(module: &Module) -> Self {
        let mut store = Store::new(module.engine(), ());
        let instance = Instance::new(&mut store, module, &[]).unwrap();
        Self { store, instance }
    }

    fn memory(&mut self) -> Memory {
        self.instance.get_memory(&mut self.store, "memory").unwrap()
    }

    fn call(&mut self, name: &str, argument: i32) -> Result<i32, Trap> {
        let function: TypedFunc<i32, i32> = self.instance.get_typed_func(&mut self.store, name).unwrap();
        function.call(&mut self.store, argument).map_err(|error| error.downcast().unwrap())
    }

    fn store(&mut self, at: i32, value: i32) -> Result<(), Trap> {
        let function: TypedFunc<(i32, i32), ()> =
            self.instance.get_typed_func(&mut self.store, "store").unwrap();
        function.call(&mut self.store, (at, value)).map_err(|error| error.downcast().unwrap())
    }

    fn fill(&mut self, byte: i32) {
        let function: TypedFunc<i32, ()> = self.instance.get_typed_func(&mut self.store, "fill").unwrap();
        function.call(&mut self.store, byte).unwrap();
    }

    fn is_zero(&mut self) -> bool {
        let memory = self.memory();
        memory.data(&self.store).iter().all(|&byte| byte == 0)
    }
}

/// Returns the page faults of this thread so far.
fn page_faults() -> i64 {
    // SAFETY: all-zero is a valid value, and there is room for the answer.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt
    }
}

#[test]
fn a_memory_grows_to_its_maximum_in_place_and_no_further() {
    let mut guest = Guest::new(&module(&engine(), 1, Some(40)));
    let memory = guest.memory();
    let base = memory.data_ptr(&guest.store);
    for pages in 1..40 {
        guest.store((pages * PAGE - 4) as i32, 7).unwrap();
        assert_eq!(guest.call("load", (pages * PAGE) as i32), Err(Trap::MemoryOutOfBounds));
        assert_eq!(guest.call("grow", 1), Ok(pages as i32));
        assert_eq!(guest.call("load", (pages * PAGE) as i32), Ok(0));
        assert_eq!(guest.call("load", (pages * PAGE - 4) as i32), Ok(7));
    }
    assert_eq!(guest.call("grow", 1), Ok(-1));
    assert_eq!((memory.size(&guest.store), memory.data_ptr(&guest.store)), (40, base));
}

#[test]
fn a_store_s_limit_refuses_growth_and_the_memory_stays_as_it_is() {
    let engine = engine();
    let module = module(&engine, 1, None);
    let limits = wasmtime::StoreLimitsBuilder::new().memory_size(3 * PAGE).build();
    let mut store = Store::new(&engine, limits);
    store.limiter(|limits| limits);
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    assert_eq!(memory.grow(&mut store, 2).unwrap(), 1);
    assert!(memory.grow(&mut store, 1).is_err());
    assert_eq!(memory.size(&store), 3);
}

#[test]
fn a_memory_without_a_maximum_grows_to_4_gib_where_it_is() {
    let mut guest = Guest::new(&module(&engine(), 0, None));
    let base = guest.memory().data_ptr(&guest.store);
    assert_eq!(guest.call("load", 0), Err(Trap::MemoryOutOfBounds));
    assert_eq!(guest.call("grow", 65536), Ok(0));
    guest.store(-4, 9).unwrap();
    assert_eq!((guest.call("load", -4), guest.call("load", 0)), (Ok(9), Ok(0)));
    assert_eq!((guest.call("grow", 1), guest.memory().data_ptr(&guest.store)), (Ok(-1), base));
}

#[test]
fn accesses_out_of_bounds_are_traps_of_wasm_everywhere_in_slot_and_guard() {
    let mut guest = Guest::new(&module(&engine(), 1, None));
    for at in [PAGE as i32 - 3, PAGE as i32, 1 << 24, 1 << 30, i32::MIN, -1, -4] {
        assert_eq!(guest.call("load", at), Err(Trap::MemoryOutOfBounds), "{at:#x}");
        assert_eq!(guest.store(at, 1), Err(Trap::MemoryOutOfBounds), "{at:#x}");
        assert_eq!(guest.call("far", at), Err(Trap::MemoryOutOfBounds), "{at:#x}");
    }
    assert_eq!((guest.store(PAGE as i32 - 4, 5), guest.call("load", PAGE as i32 - 4)), (Ok(()), Ok(5)));
}

#[test]
fn a_reused_memory_is_zero_and_as_small_as_its_module_says() {
    let (memories, engine) = own(SlotsOptions::new(4 << 30), |_| {});
    for minimum in [1, 4, 16, 40] {
        let module = module(&engine, minimum, Some(100));
        for round in 0..200 {
            let mut guest = Guest::new(&module);
            assert!(guest.is_zero(), "{minimum} pages, round {round}");
            assert_eq!(guest.call("load", (minimum * PAGE) as i32), Err(Trap::MemoryOutOfBounds));
            if round % 3 == 0 {
                assert_eq!(guest.call("grow", 1 + round % 60), Ok(minimum as i32));
                assert!(guest.is_zero(), "{minimum} pages grown, round {round}");
            }
            guest.fill(round % 256);
        }
    }
    let reserved: Vec<_> = memories.pools().map(|pool| pool.stats().reserved).collect();
    assert_eq!(reserved.len(), 4, "a pool for each minimum");
    assert!(reserved.iter().all(|&slots| slots <= 70), "no slot was reused: {reserved:?}");
}

#[test]
fn memories_that_grow_each_time_keep_the_pages_and_trap_at_their_size() {
    let (memories, engine) = own(SlotsOptions::new(4 << 30), |_| {});
    let module = module(&engine, 1, Some(100));
    let mut faults = 0;
    for round in 0..40 {
        let before = page_faults();
        let mut guest = Guest::new(&module);
        let mut size = 1;
        for more in [4, 11, 0] {
            assert!(guest.is_zero(), "round {round}, {size} pages");
            for beyond in [size * PAGE, size * PAGE + 4096, 30 * PAGE] {
                assert_eq!(guest.call("load", beyond as i32), Err(Trap::MemoryOutOfBounds), "round {round}");
            }
            assert_eq!(guest.call("grow", more), Ok(size as i32));
            size += more as usize;
        }
        guest.fill(round + 1);
        drop(guest);
        if round >= 20 {
            faults += page_faults() - before;
        }
    }
    assert_eq!(memories.pools().count(), 2, "a second pool for memories that grow");
    // 256 pages each time, if they were not kept.
    assert!(faults < 20 * 256 / 4, "{faults} page faults in 20 rounds");
}

#[test]
fn memories_that_grow_now_and_then_are_zero_and_trap_at_their_size() {
    let (memories, engine) = own(SlotsOptions::new(4 << 30), |_| {});
    let module = module(&engine, 2, Some(100));
    let (mut alive, mut random) = (Vec::new(), 1_u32);
    for round in 0..600 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Phases in which most grow, and such in which few do.
        let grows = random >> 28 < if round / 100 % 2 == 0 { 14 } else { 2 };
        let more = if grows { 1 + (random >> 8 & 63) as i32 } else { 0 };
        let mut guest = Guest::new(&module);
        assert!(guest.is_zero(), "round {round}");
        assert_eq!(guest.call("load", 2 * PAGE as i32), Err(Trap::MemoryOutOfBounds), "round {round}");
        assert_eq!(guest.call("grow", more), Ok(2));
        assert!(guest.is_zero(), "round {round}, {more} pages more");
        let end = (2 + more as usize) * PAGE;
        assert_eq!(guest.call("load", end as i32), Err(Trap::MemoryOutOfBounds), "round {round}");
        guest.fill(round % 255 + 1);
        alive.push(guest);
        if alive.len() > 5 {
            alive.swap_remove(random as usize % 5);
        }
    }
    let reserved: Vec<_> = memories.pools().map(|pool| pool.stats().reserved).collect();
    assert!(reserved.len() == 2 && reserved.iter().all(|&slots| slots <= 80), "{reserved:?}");
}

#[test]
fn data_segments_are_there_after_reuse() {
    let engine = engine();
    let module = Module::new(
        &engine,
        r#"(module (memory (export "memory") 2) (data (i32.const 65530) "across a page"))"#,
    )
    .unwrap();
    for _ in 0..100 {
        let mut guest = Guest::new(&module);
        let memory = guest.memory();
        let bytes = memory.data_mut(&mut guest.store);
        assert_eq!(&bytes[65530..65543], b"across a page");
        bytes.fill(1);
    }
}

#[test]
fn thousands_of_instances_live_at_once_and_share_nothing() {
    let engine = engine();
    let module = module(&engine, 1, None);
    let mut guests: Vec<_> = (0..2000).map(|_| Guest::new(&module)).collect();
    for (number, guest) in guests.iter_mut().enumerate() {
        guest.store(0, number as i32).unwrap();
    }
    // Every second one goes, and others come.
    let mut number = 0;
    guests.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    guests.extend((0..1000).map(|_| Guest::new(&module)));
    for (place, guest) in guests.iter_mut().enumerate() {
        let expected = if place < 1000 { 2 * place as i32 + 1 } else { 0 };
        assert_eq!(guest.call("load", 0), Ok(expected));
    }
}

#[test]
fn a_memory_outlives_the_engine_s_and_the_config_s_handles_of_the_maker() {
    let (memories, engine) = own(SlotsOptions::new(4 << 30), |_| {});
    let module = module(&engine, 1, None);
    drop(memories);
    let mut guest = Guest::new(&module);
    drop((module, engine));
    guest.store(0, 3).unwrap();
    assert_eq!((guest.call("grow", 1), guest.call("load", 0)), (Ok(1), Ok(3)));
}

#[test]
fn threads_make_use_and_drop_memories_of_one_engine_and_of_each_other() {
    let engine = engine();
    let module = module(&engine, 3, Some(20));
    let (sender, receiver) = std::sync::mpsc::channel::<Guest>();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (module, sender) = (&module, sender.clone());
            scope.spawn(move || {
                for round in 0..200 {
                    let mut guest = Guest::new(module);
                    assert!(guest.is_zero());
                    guest.fill(thread + 1);
                    assert_eq!(guest.call("grow", round % 18), Ok(3));
                    sender.send(guest).unwrap();
                }
            });
        }
        drop(sender);
        for mut guest in receiver {
            assert_eq!(guest.call("load", 3 * PAGE as i32 - 4).map(|word| word & 0xff > 0), Ok(true));
        }
    });
}

#[test]
fn small_reservations_with_checked_bounds_grow_in_place_as_well() {
    let (_, engine) = own(SlotsOptions::new(4 << 30), |config| {
        config.memory_reservation(PAGE as u64).memory_guard_size(PAGE as u64);
    });
    let mut guest = Guest::new(&module(&engine, 1, None));
    guest.fill(1);
    let base = guest.memory().data_ptr(&guest.store);
    assert_eq!(guest.call("grow", 99), Ok(1));
    assert_eq!((guest.call("load", PAGE as i32), guest.memory().data_ptr(&guest.store)), (Ok(0), base));
    assert_eq!(guest.call("load", 100 * PAGE as i32 - 3), Err(Trap::MemoryOutOfBounds));
}

#[test]
fn memories_of_many_sizes_come_from_slots_in_few_pools() {
    let (memories, engine) = own(SlotsOptions::new(4 << 30), |_| {});
    let guests: Vec<_> = (0..70)
        .map(|pages| {
            let mut guest = Guest::new(&module(&engine, pages, None));
            assert_eq!(guest.memory().data_size(&guest.store), pages * PAGE);
            assert_eq!(guest.call("load", (pages * PAGE) as i32), Err(Trap::MemoryOutOfBounds));
            assert_eq!(guest.call("grow", 1), Ok(pages as i32));
            guest.store((pages * PAGE) as i32, 1).unwrap();
            guest
        })
        .collect();
    // 32 sizes have pools of their own, and the others share one: that of 0 pages.
    assert_eq!(memories.pools().count(), 33);
    drop(guests);
}

#[test]
fn without_addresses_an_instance_is_refused_and_nothing_is_lost() {
    let (_, engine) = own(SlotsOptions::new(4 << 30).max_slots(3), |_| {});
    let module = module(&engine, 1, None);
    for _ in 0..10 {
        let guests: Vec<_> = (0..3).map(|_| Guest::new(&module)).collect();
        let mut store = Store::new(&engine, ());
        assert!(Instance::new(&mut store, &module, &[]).is_err());
        drop(guests);
    }
}
