//! The world of allocators: a global one, a heap by address, and one for collections.

use crate::dice::Dice;
use crate::life::{Forks, Life, live};
use crate::owners::memory::Pages;
use crate::owners::sure;
use crate::world::{Sp, check_space_of_child, check_whole, open_space, options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vmalloc_linux::page_bytes;
use vmalloc_malloc::allocator_api2_04::alloc::Allocator;
use vmalloc_malloc::{GlobalHeap, LargeAlloc, LargeHeap, SpaceAllocator};
use vmalloc_programs::random_options;

/// The largest alignment of a block, as a power of two: 8 MiB.
const MOST_ALIGN: usize = 23;
/// The smallest, which the words of the model need.
const LEAST_ALIGN: usize = 3;

/// Three allocators, each with a space of its own.
struct World {
    global: LargeAlloc,
    heap: LargeHeap,
    split: SpaceAllocator<Sp, GlobalHeap>,
    space: Sp,
    handed_over: Mutex<Vec<Block>>,
    /// The blocks of the heap and of the other two spaces, as a quiet moment begins.
    blocks: [AtomicUsize; 3],
}

/// An allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Global,
    Heap,
    Split,
}

/// A block, and what it holds.
struct Block {
    way: Way,
    layout: Layout,
    pages: Pages,
}

impl Block {
    fn memory(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.pages.addr())
    }

    /// Goes on with the content in another place, or of another size.
    fn moved(&mut self, memory: *mut u8, layout: Layout) {
        let addr = memory.expose_provenance();
        assert!(addr.is_multiple_of(layout.align()), "{addr:#x} of {layout:?} from {:?}", self.way);
        self.layout = layout;
        self.pages.moved(addr, layout.size());
    }
}

fn layout(dice: &mut Dice) -> Layout {
    let bytes = match dice.below(40) {
        0 => (30 << 20) + dice.below(8 << 20),
        1..=6 => 1 + dice.below(5000),
        _ => dice.size(),
    };
    with_align(dice, bytes)
}

fn with_align(dice: &mut Dice, bytes: usize) -> Layout {
    let most = if dice.one_in(3) { MOST_ALIGN } else { LEAST_ALIGN + 3 };
    let align = 1 << (LEAST_ALIGN + dice.below(most - LEAST_ALIGN + 1));
    Layout::from_size_align(bytes, align).expect("it is small")
}

impl World {
    fn alloc(&self, way: Way, layout: Layout, is_zero: bool) -> *mut u8 {
        let block = |block: Option<NonNull<[u8]>>| block.map_or(ptr::null_mut(), |it| it.as_ptr().cast());
        match (way, is_zero) {
            // SAFETY: the size is not zero.
            (Way::Global, false) => unsafe { self.global.alloc(layout) },
            // SAFETY: the size is not zero.
            (Way::Global, true) => unsafe { self.global.alloc_zeroed(layout) },
            (Way::Heap, false) => self.heap.alloc(layout.size(), layout.align()),
            (Way::Heap, true) => self.heap.alloc_zeroed(layout.size(), layout.align()),
            (Way::Split, false) => block(self.split.allocate(layout).ok()),
            (Way::Split, true) => block(self.split.allocate_zeroed(layout).ok()),
        }
    }

    /// Gives a block another size, and an alignment where the allocator can change it.
    fn resize(&self, block: &mut Block, dice: &mut Dice) {
        let (old, bytes) = (block.layout, layout(dice).size());
        let same = Layout::from_size_align(bytes, old.align()).expect("it is small");
        let is_zero = block.way == Way::Split && dice.one_in(2);
        let new = if block.way == Way::Split { with_align(dice, bytes) } else { same };
        // SAFETY: the block is the caller's, with this layout.
        let memory = unsafe { self.resized(block, new, is_zero) };
        if memory.is_null() {
            return block.pages.check();
        }
        block.moved(memory, new);
        if is_zero && bytes > old.size() {
            block.pages.check_zeros(old.size());
        }
    }

    /// Calls an allocator for another layout. Returns null if it refuses.
    ///
    /// # Safety
    /// The caller owns the block, and uses it no more in its old place.
    unsafe fn resized(&self, block: &Block, new: Layout, is_zero: bool) -> *mut u8 {
        let (old, memory) = (block.layout, block.memory());
        // SAFETY: the caller owns the block, of which this is the layout.
        unsafe {
            match block.way {
                Way::Global => self.global.realloc(memory, old, new.size()),
                Way::Heap => sure(self.heap.realloc(memory.addr(), new.size(), new.align()), "a realloc"),
                Way::Split => {
                    let start = NonNull::new(memory).expect("a block is not null");
                    let resized = match (new.size() >= old.size(), is_zero) {
                        (true, true) => self.split.grow_zeroed(start, old, new),
                        (true, false) => self.split.grow(start, old, new),
                        (false, _) => self.split.shrink(start, old, new),
                    };
                    resized.map_or(ptr::null_mut(), |it| it.as_ptr().cast())
                }
            }
        }
    }

    /// Asks for sizes that no machine has, and frees what is no block. The content stays.
    fn misuse(&self, block: &Block) {
        let most = (isize::MAX as usize + 1 - block.layout.align()) & !0xfff;
        let huge = Layout::from_size_align(most, block.layout.align()).expect("it is the most");
        assert!(self.alloc(block.way, huge, false).is_null() && self.alloc(block.way, huge, true).is_null());
        // SAFETY: the block is the caller's. It stays, for no memory is as large.
        assert!(unsafe { self.resized(block, huge, false) }.is_null(), "a block of {most} bytes was made");
        if block.way == Way::Heap {
            let addr = block.pages.addr();
            // SAFETY: no block starts behind the first byte of one, which the calls tell.
            assert!(unsafe { self.heap.free(addr + 1) }.is_err(), "a free of {addr:#x} + 1");
            // SAFETY: as above.
            assert!(unsafe { self.heap.realloc(addr + 1, 70_000, 1) }.is_err());
            // SAFETY: the block is the caller's. It stays, for no memory is as large.
            assert!(unsafe { self.heap.realloc(addr, usize::MAX, 1) }.is_ok_and(|it| it.is_null()));
        }
        block.pages.check();
    }

    fn spaces(&self) -> impl Iterator<Item = (&Sp, &AtomicUsize)> {
        let global = self.global.heap().map(LargeHeap::space);
        let all = [Some(self.heap.space()), Some(&self.space), global];
        all.into_iter().zip(&self.blocks).filter_map(|(space, blocks)| Some((space?, blocks)))
    }
}

impl Life for World {
    type Owner = Block;

    fn make(&self, dice: &mut Dice) -> Option<Block> {
        let way = dice.pick(&[Way::Global, Way::Heap, Way::Split]);
        let (layout, is_zero) = (layout(dice), dice.one_in(2));
        let memory = self.alloc(way, layout, is_zero);
        if memory.is_null() {
            return None;
        }
        let addr = memory.expose_provenance();
        assert!(addr.is_multiple_of(layout.align()), "{addr:#x} of {layout:?} from {way:?}");
        if way == Way::Heap {
            assert!(self.heap.usable_size(addr) >= Some(layout.size()), "{layout:?}");
        }
        let mut pages = Pages::new(addr, layout.size(), is_zero);
        if is_zero {
            pages.check_zeros(0);
        }
        pages.write_some(dice);
        Some(Block { way, layout, pages })
    }

    fn check(&self, block: &Block) {
        block.pages.check();
    }

    fn change(&self, block: &mut Block, dice: &mut Dice) {
        match dice.below(6) {
            0 => self.misuse(block),
            _ => self.resize(block, dice),
        }
        block.pages.write_some(dice);
    }

    fn end(&self, block: Block, _: &mut Dice) {
        let (memory, layout) = (block.memory(), block.layout);
        // SAFETY: the block is the caller's, of that allocator and layout, and used no more.
        unsafe {
            match block.way {
                Way::Global => self.global.dealloc(memory, layout),
                Way::Heap => sure(self.heap.free(memory.addr()), "a free"),
                Way::Split => {
                    self.split.deallocate(NonNull::new(memory).expect("a block is not null"), layout);
                }
            }
        }
    }

    fn look_around(&self, dice: &mut Dice) {
        for (space, _) in self.spaces() {
            match dice.below(4) {
                0 => sure(space.purge(), "a purge"),
                1 => sure(space.decay(), "a decay"),
                2 => drop(sure(space.drain(), "a drain")),
                _ => assert!(space.stats().busy_pages <= space.stats().span_pages),
            }
        }
    }

    fn tell(&self, owners: &[Block]) {
        for block in owners {
            let is_there = |(space, _): &(&Sp, &AtomicUsize)| space.contains(block.pages.addr());
            if let Some((_, blocks)) = self.spaces().find(is_there) {
                blocks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn check_quiet(&self, _: &mut Dice) {
        let handed_over = self.handed_over.lock().expect("no thread has panicked");
        handed_over.iter().for_each(|block| block.pages.check());
        self.tell(&handed_over);
        for (space, blocks) in self.spaces() {
            sure(space.flush(), "a flush");
            sure(space.verify(), "the invariants");
            let (stats, blocks) = (space.stats(), blocks.swap(0, Ordering::Relaxed));
            assert_eq!((stats.busy_areas, stats.refused_areas), (blocks as u64, 0), "{stats:?}");
        }
    }

    fn check_child(&self) {
        self.spaces().for_each(|(space, _)| check_space_of_child(space));
    }

    fn handed_over(&self) -> Option<&Mutex<Vec<Block>>> {
        Some(&self.handed_over)
    }
}

/// Opens a heap of random options.
fn open_heap(dice: &mut Dice) -> Option<LargeHeap> {
    let (options, _) = options(dice);
    let space_options = if dice.one_in(2) {
        LargeHeap::space_options(dice.pick(&[0, 1 << 20, 128 << 20]))
    } else {
        random_options(&mut dice.0, page_bytes())
    };
    println!("  {options:?}, {space_options:?}");
    let heap = LargeHeap::open(options, space_options, dice.pick(&[0, 10, 1000]));
    heap.map_err(|error| println!("  refused: {error}")).ok()
}

/// Runs a world of allocators. Returns how many steps its threads made; 0 for options that this
/// kernel
/// refuses.
pub(crate) fn run(dice: &mut Dice, time: Duration, forks: Forks) -> u64 {
    let (Some(heap), Some((space, _))) = (open_heap(dice), open_space(dice)) else { return 0 };
    let world = World {
        global: LargeAlloc::new(System, dice.pick(&[4096, 32 << 10, 1 << 20])),
        heap,
        split: SpaceAllocator::beside_heap(Arc::clone(&space)),
        space,
        handed_over: Mutex::default(),
        blocks: Default::default(),
    };
    let steps = live(&world, dice, time, forks);
    world.spaces().for_each(|(space, _)| check_whole(space));
    steps
}
