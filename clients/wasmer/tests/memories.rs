//! Linear memories in slots behave as wasmer's own.

use std::sync::Arc;
use vmalloc::SpaceOptions;
use vmalloc_client_wasmer::{Pools, SlotTunables, store};
use vmalloc_slots::SlotsOptions;
use wasmer::sys::{EngineBuilder, Singlepass, Tunables};
use wasmer::{
    Engine, Instance, Memory, MemoryError, MemoryType, Module, Pages, Store, TypedFunction, imports,
};
use wasmer_types::MemoryStyle;
use wasmer_vm::VMMemory;

const PAGE: usize = 64 << 10;

const ALL: &str = r#"(module
    (memory (export "memory") MIN MAX)
    (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
    (func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
    (func (export "far") (param i32) (result i32) (i32.load offset=0xffff0000 (local.get 0)))
    (func (export "store") (param i32 i32) (i32.store (local.get 0) (local.get 1)))
    (func (export "fill") (param i32) (memory.fill (i32.const 0) (local.get 0) (i32.mul (memory.size) (i32.const 65536)))))"#;

fn own(options: SlotsOptions) -> (Arc<Pools>, Store) {
    let space =
        vmalloc_linux::open(vmalloc_linux::LinuxOptions::new().max_bytes(1 << 43), SpaceOptions::default())
            .unwrap();
    let pools = Arc::new(Pools::on(space, options));
    let mut engine = EngineBuilder::new(Singlepass::default()).engine();
    engine.set_tunables(SlotTunables::on(pools.clone()));
    (pools, Store::new(engine))
}

fn module(store: &Store, minimum: usize, maximum: Option<usize>) -> Module {
    let maximum = maximum.map_or(String::new(), |maximum| maximum.to_string());
    Module::new(store, ALL.replace("MIN", &minimum.to_string()).replace("MAX", &maximum)).unwrap()
}

/// An instance with a store of its own.
struct Guest {
    store: Store,
    instance: Instance,
}

impl Guest {
    fn new(engine: &Engine, module: &Module) -> Self {
        let mut store = Store::new(engine.clone());
        let instance = Instance::new(&mut store, module, &imports! {}).unwrap();
        Self { store, instance }
    }

    fn memory(&self) -> &Memory {
        self.instance.exports.get_memory("memory").unwrap()
    }

    fn call(&mut self, name: &str, argument: i32) -> Result<i32, String> {
        let function: TypedFunction<i32, i32> =
            self.instance.exports.get_typed_function(&self.store, name).unwrap();
        function.call(&mut self.store, argument).map_err(|error| error.message())
    }

    fn store(&mut self, at: i32, value: i32) -> Result<(), String> {
        let function: TypedFunction<(i32, i32), ()> =
            self.instance.exports.get_typed_function(&self.store, "store").unwrap();
        function.call(&mut self.store, at, value).map_err(|error| error.message())
    }

    fn fill(&mut self, byte: i32) {
        let function: TypedFunction<i32, ()> =
            self.instance.exports.get_typed_function(&self.store, "fill").unwrap();
        function.call(&mut self.store, byte).unwrap();
    }

    fn bytes(&self) -> &[u8] {
        let view = self.memory().view(&self.store);
        // SAFETY: the guest neither runs nor goes away while its bytes are borrowed.
        unsafe { std::slice::from_raw_parts(view.data_ptr(), view.data_size() as usize) }
    }

    fn is_zero(&self) -> bool {
        self.bytes().iter().all(|&byte| byte == 0)
    }
}

fn out_of_bounds<T>() -> Result<T, String> {
    Err("out of bounds memory access".into())
}

#[test]
fn a_memory_grows_to_its_maximum_in_place_and_no_further() {
    let store = store();
    let mut guest = Guest::new(store.engine(), &module(&store, 1, Some(40)));
    let base = guest.bytes().as_ptr();
    for pages in 1..40 {
        guest.store((pages * PAGE - 4) as i32, 7).unwrap();
        assert_eq!(guest.call("load", (pages * PAGE) as i32), out_of_bounds());
        assert_eq!(guest.call("grow", 1), Ok(pages as i32));
        assert_eq!(guest.call("load", (pages * PAGE) as i32), Ok(0));
        assert_eq!(guest.call("load", (pages * PAGE - 4) as i32), Ok(7));
    }
    assert_eq!(guest.call("grow", 1), Ok(-1));
    assert_eq!((guest.memory().size(&guest.store), guest.bytes().as_ptr()), (Pages(40), base));
}

#[test]
fn a_memory_without_a_maximum_grows_to_4_gib_where_it_is() {
    let store = store();
    let mut guest = Guest::new(store.engine(), &module(&store, 0, None));
    assert_eq!(guest.call("load", 0), out_of_bounds());
    assert_eq!(guest.call("grow", 65535), Ok(0));
    let last = (65535 * PAGE - 4) as u32 as i32;
    guest.store(last, 9).unwrap();
    assert_eq!((guest.call("load", last), guest.call("load", 0)), (Ok(9), Ok(0)));
    assert_eq!((guest.call("load", last + 4), guest.call("grow", 2)), (out_of_bounds(), Ok(-1)));
}

#[test]
fn accesses_out_of_bounds_are_traps_of_wasm_everywhere_in_slot_and_guard() {
    let store = store();
    let mut guest = Guest::new(store.engine(), &module(&store, 1, None));
    for at in [PAGE as i32 - 3, PAGE as i32, 1 << 24, 1 << 30, i32::MIN, -1, -4] {
        assert_eq!(guest.call("load", at), out_of_bounds(), "{at:#x}");
        assert_eq!(guest.store(at, 1), out_of_bounds(), "{at:#x}");
        assert_eq!(guest.call("far", at), out_of_bounds(), "{at:#x}");
    }
    assert_eq!((guest.store(PAGE as i32 - 4, 5), guest.call("load", PAGE as i32 - 4)), (Ok(()), Ok(5)));
}

#[test]
fn a_reused_memory_is_zero_and_as_small_as_its_module_says() {
    let (pools, store) = own(SlotsOptions::new(0));
    for minimum in [1, 4, 16, 40] {
        let module = module(&store, minimum, Some(100));
        for round in 0..100 {
            let mut guest = Guest::new(store.engine(), &module);
            assert!(guest.is_zero(), "{minimum} pages, round {round}");
            assert_eq!(guest.call("load", (minimum * PAGE) as i32), out_of_bounds());
            if round % 3 == 0 {
                assert_eq!(guest.call("grow", 1 + round % 60), Ok(minimum as i32));
                assert!(guest.is_zero(), "{minimum} pages grown, round {round}");
            }
            guest.fill(round % 256);
        }
    }
    let reserved: Vec<_> = pools.all().map(|pool| pool.stats().reserved).collect();
    assert_eq!(reserved.len(), 4, "a pool for each minimum");
    assert!(reserved.iter().all(|&slots| slots <= 70), "no slot was reused: {reserved:?}");
}

#[test]
fn hundreds_of_instances_live_at_once_and_share_nothing() {
    let store = store();
    let module = module(&store, 1, None);
    let mut guests: Vec<_> = (0..500).map(|_| Guest::new(store.engine(), &module)).collect();
    for (number, guest) in guests.iter_mut().enumerate() {
        guest.store(0, number as i32).unwrap();
    }
    guests.truncate(250);
    guests.extend((0..250).map(|_| Guest::new(store.engine(), &module)));
    for (number, guest) in guests.iter_mut().enumerate() {
        assert_eq!(guest.call("load", 0), Ok(if number < 250 { number as i32 } else { 0 }));
    }
}

#[test]
fn threads_make_use_and_drop_memories_of_one_engine_and_of_each_other() {
    let store = store();
    let (engine, module) = (store.engine(), module(&store, 3, Some(20)));
    let pools = Arc::new(Pools::open().unwrap());
    // A store stays with its thread; a memory without one may go to another.
    let (sender, receiver) = std::sync::mpsc::channel::<VMMemory>();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (module, sender, tunables) = (&module, sender.clone(), SlotTunables::on(pools.clone()));
            scope.spawn(move || {
                for round in 0..100 {
                    let mut guest = Guest::new(engine, module);
                    assert!(guest.is_zero());
                    guest.fill(thread + 1);
                    assert_eq!(guest.call("grow", round % 18), Ok(3));
                    let mut memory = host_memory(&tunables, 3);
                    assert!(bytes_of(&mut memory).iter().all(|&byte| byte == 0));
                    bytes_of(&mut memory).fill(thread as u8 + 1);
                    sender.send(memory).unwrap();
                }
            });
        }
        drop(sender);
        for mut memory in receiver {
            let bytes = bytes_of(&mut memory);
            assert!((1..=3).contains(&bytes[0]) && bytes.iter().all(|byte| *byte == bytes[0]));
        }
    });
}

/// Returns a memory without a store, as wasmer's embedders of its parts make them.
fn host_memory(tunables: &SlotTunables, pages: u32) -> VMMemory {
    tunables.create_host_memory(&MemoryType::new(pages, Some(10), false), &MemoryStyle::Static).unwrap()
}

fn bytes_of(memory: &mut VMMemory) -> &mut [u8] {
    // SAFETY: the definition is of this memory, which is borrowed exclusively.
    let definition = unsafe { memory.0.vmmemory().as_ref() };
    // SAFETY: as above, and as many bytes are there.
    unsafe { std::slice::from_raw_parts_mut(definition.base, definition.current_length) }
}

#[test]
fn a_copy_has_the_content_and_goes_its_own_way() {
    let (pools, _) = own(SlotsOptions::new(0));
    let mut memory = host_memory(&SlotTunables::on(pools), 2);
    bytes_of(&mut memory).fill(7);
    memory.0.grow(Pages(1)).unwrap();
    let mut copy = VMMemory(memory.0.copy().unwrap());
    bytes_of(&mut memory).fill(8);
    drop(memory);
    let bytes = bytes_of(&mut copy);
    assert_eq!(bytes.len(), 3 * PAGE);
    assert!(
        bytes[..2 * PAGE].iter().all(|&byte| byte == 7) && bytes[2 * PAGE..].iter().all(|&byte| byte == 0)
    );
    assert_eq!(copy.0.grow(Pages(1)), Ok(Pages(3)));
    assert!(matches!(copy.0.try_clone(), Err(MemoryError::MemoryNotShared)));
}

#[test]
fn host_memories_grow_and_reset() {
    let (pools, mut store) = own(SlotsOptions::new(0));
    let memory = Memory::new(&mut store, MemoryType::new(2, Some(10), false)).unwrap();
    assert_eq!(pools.all().count(), 1, "the memory is wasmer's own");
    memory.view(&store).write(PAGE as u64, b"text").unwrap();
    let mut bytes = [0; 4];
    memory.view(&store).read(PAGE as u64, &mut bytes).unwrap();
    assert_eq!(&bytes, b"text");
    memory.reset(&mut store).unwrap();
    assert_eq!(memory.size(&store), Pages(0));
    assert!(memory.view(&store).write(0, b"x").is_err());
    memory.grow_at_least(&mut store, 3 * PAGE as u64 - 1).unwrap();
    memory.view(&store).read(PAGE as u64, &mut bytes).unwrap();
    assert_eq!((bytes, memory.size(&store)), ([0; 4], Pages(3)));
    assert!(memory.grow(&mut store, Pages(8)).is_err() && memory.size(&store) == Pages(3));
    assert!(Memory::new(&mut store, MemoryType::new(3, Some(2), false)).is_err());
}

#[test]
fn without_addresses_an_instance_is_refused_and_nothing_is_lost() {
    let (_, store) = own(SlotsOptions::new(0).max_slots(3));
    let module = module(&store, 1, None);
    for _ in 0..10 {
        let guests: Vec<_> = (0..3).map(|_| Guest::new(store.engine(), &module)).collect();
        let mut another = Store::new(store.engine().clone());
        assert!(Instance::new(&mut another, &module, &imports! {}).is_err());
        drop(guests);
    }
}
