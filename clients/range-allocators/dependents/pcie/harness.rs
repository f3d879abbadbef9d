//! Lets the crate enumerate a simulated bus, and prints at which address it places the memory of each device.
//!
//! The lines that start with `placed` are compared between two allocators of addresses.

use std::collections::BTreeMap;

use pci_types::{Bar, PciAddress};
use pcie::{Controller, PciMem32, PciMem64, PcieController, enumerate_by_controller};
use rdif_pcie::DriverGeneric;

/// The first register of a base address (BAR), in words.
const BARS: usize = 4;

/// A generator of numbers (xorshift), the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Configuration space of one function: its words, and which bits of each word can be written.
struct Function {
    words: [u32; 64],
    writable: [u32; 64],
}

impl Function {
    /// Returns a device with memory windows of random sizes and kinds.
    fn random(random: &mut Random) -> Self {
        let mut function = Self { words: [0; 64], writable: [0; 64] };
        // Vendor and device, class, and a header of an endpoint with several functions.
        (function.words[0], function.words[2], function.words[3]) = (0x1234_8086, 0x0200_0001, 0x0080_0000);
        function.writable[1] = 0xffff;
        let mut bar = 0;
        while bar < 6 {
            let register = BARS + bar;
            let prefetchable = u32::from(random.below(2) == 0) << 3;
            match random.below(4) {
                0 => bar += 1,
                1 if bar < 5 => {
                    // Up to 1 GiB, in two registers: `pci_types` takes 2 GiB for a negative number.
                    let size = 0x1000_u64 << random.below(19);
                    function.words[register] = 0b100 | prefetchable;
                    function.writable[register] = !(size - 1) as u32 & !0xf;
                    function.writable[register + 1] = (!(size - 1) >> 32) as u32;
                    bar += 2;
                }
                _ => {
                    let size = 0x10_u32 << random.below(17);
                    function.words[register] = prefetchable;
                    function.writable[register] = !(size - 1) & !0xf;
                    bar += 1;
                }
            }
        }
        function
    }
}

/// A bus with a function at each place.
struct Bus(BTreeMap<PciAddress, Function>);

impl Bus {
    fn random(seed: u64) -> Self {
        let mut random = Random(seed + 1);
        let places = (0..32).flat_map(|device| (0..8).map(move |function| PciAddress::new(0, 0, device, function)));
        Self(places.map(|place| (place, Function::random(&mut random))).collect())
    }
}

impl DriverGeneric for Bus {
    fn name(&self) -> &str {
        "simulated bus"
    }
}

impl Controller for Bus {
    fn read(&mut self, address: PciAddress, offset: u16) -> u32 {
        self.0.get(&address).map_or(u32::MAX, |function| function.words[usize::from(offset) / 4])
    }

    fn write(&mut self, address: PciAddress, offset: u16, value: u32) {
        if let Some(function) = self.0.get_mut(&address) {
            let register = usize::from(offset) / 4;
            let writable = function.writable[register];
            function.words[register] = function.words[register] & !writable | value & writable;
        }
    }
}

/// Returns the windows of a controller: 32 bits and 64 bits, plain and prefetchable.
fn controller(seed: u64) -> PcieController {
    let mut controller = PcieController::new(Bus::random(seed));
    controller.set_mem32(PciMem32 { address: 0x4000_0000, size: 0x4000_0000 }, false);
    controller.set_mem32(PciMem32 { address: 0x8000_0000, size: 0x4000_0000 }, true);
    controller.set_mem64(PciMem64 { address: 0x80_0000_0000, size: 0x80_0000_0000 }, false);
    controller.set_mem64(PciMem64 { address: 0x100_0000_0000, size: 0x80_0000_0000 }, true);
    controller
}

#[test]
fn devices_are_placed() {
    for seed in 0..4 {
        println!("placed by seed {seed}");
        let mut controller = controller(seed);
        let mut placed = Vec::new();
        for endpoint in enumerate_by_controller(&mut controller, None) {
            for (slot, bar) in endpoint.bars().into_iter().enumerate() {
                let (start, size) = match bar {
                    Some(Bar::Memory32 { address, size, .. }) => (u64::from(address), u64::from(size)),
                    Some(Bar::Memory64 { address, size, .. }) => (address, size),
                    _ => continue,
                };
                assert_eq!(start % size, 0, "a window lies at a multiple of its size");
                println!("placed {} {slot}: {start:#x}, {size:#x}", endpoint.address());
                placed.push((start, start + size));
            }
        }
        placed.sort_unstable();
        assert!(placed.len() > 500, "{}", placed.len());
        assert!(placed.windows(2).all(|pair| pair[0].1 <= pair[1].0), "no window overlaps another");
    }
}
