//! Fills and empties the renderer's buffer of meshes at random, and prints where everything was placed.
//!
//! Becomes a module of `persistent_buffer`. The lines that start with `placed` are compared between two allocators of ranges. What the buffer
//! holds is compared with what was written.

use super::{PersistentGpuBuffer, PersistentGpuBufferable};
use bevy_render::{
    render_resource::BufferAddress,
    renderer::{RenderDevice, RenderQueue},
};
use core::ops::Range;

/// Frames of a program: in each, some meshes go and others come.
const FRAMES: usize = 60;

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

/// Bytes that all are one number.
struct Mesh(u8, usize);

impl PersistentGpuBufferable for Mesh {
    type Metadata = ();

    fn size_in_bytes(&self) -> usize {
        self.1
    }

    fn write_bytes_le(&self, _: (), slice: &mut [u8], _: BufferAddress) {
        slice.fill(self.0);
    }
}

/// A buffer, and what lies where in it.
struct Scene {
    buffer: PersistentGpuBuffer<Mesh>,
    meshes: Vec<(Range<BufferAddress>, u8)>,
    device: RenderDevice,
    queue: RenderQueue,
}

impl Scene {
    fn new() -> Self {
        let (device, queue) = (RenderDevice, RenderQueue);
        let buffer = PersistentGpuBuffer::new("meshes", &device);
        Self { buffer, meshes: Vec::new(), device, queue }
    }

    fn frame(&mut self, random: &mut Random, most: u64) {
        for _ in 0..random.below(1 + self.meshes.len() as u64 / 2) {
            let (slice, _) = self.meshes.swap_remove(random.below(self.meshes.len() as u64) as usize);
            self.buffer.mark_slice_unused(slice);
        }
        for _ in 0..1 + random.below(40) {
            let (number, size) = (random.below(256) as u8, 4 * (1 + random.below(most)));
            let slice = self.buffer.queue_write(Mesh(number, size as usize), ());
            assert_eq!(slice.end - slice.start, size, "a slice is as large as its data");
            println!("placed {slice:?}");
            self.meshes.push((slice, number));
        }
        self.buffer.perform_writes(&self.queue, &self.device);
    }

    fn check(&self) {
        let bytes = self.buffer.buffer.0.borrow();
        for (slice, number) in &self.meshes {
            let held = &bytes[slice.start as usize..slice.end as usize];
            assert!(held.iter().all(|byte| byte == number), "{slice:?} holds its mesh");
        }
    }
}

#[test]
fn meshes_are_placed_and_kept() {
    for seed in 0..4 {
        println!("placed by seed {seed}");
        let (mut random, mut scene) = (Random(seed + 1), Scene::new());
        let most = if seed % 2 == 0 { 64 } else { 4_000 };
        for _ in 0..FRAMES {
            scene.frame(&mut random, most);
            scene.check();
        }
        println!("placed {} in {} bytes", scene.meshes.len(), scene.buffer.buffer.size());
        // Everything is one free range again, which the next mesh starts.
        scene.meshes.drain(..).for_each(|(slice, _)| scene.buffer.mark_slice_unused(slice));
        assert_eq!(scene.buffer.queue_write(Mesh(0, 4), ()), 0..4);
    }
}
