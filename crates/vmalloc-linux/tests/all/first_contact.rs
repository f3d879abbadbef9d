//! What an ordinary program meets first: the cost of opening, addresses left for others, odd sizes,
//! huge ranges, small stacks.

use crate::common::{in_own_process, page_bytes, page_faults, process, status_bytes};
use libc::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use vmalloc::{Request, Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions, open};

fn space(options: LinuxOptions) -> Arc<Space<Linux>> {
    open(options, SpaceOptions::default()).expect("addresses for a space")
}

/// An idle space takes memory for what it has used of its records, which it tells.
#[test]
fn an_idle_space_takes_little_memory() {
    in_own_process(|| {
        const SPACES: usize = 20;
        drop(space(LinuxOptions::new()));
        let (faults, bytes) = (page_faults(), status_bytes("VmRSS:"));
        let spaces: Vec<_> = (0..SPACES).map(|_| space(LinuxOptions::new())).collect();
        let (faults, bytes) = ((page_faults() - faults) / SPACES, (status_bytes("VmRSS:") - bytes) / SPACES);
        let told = spaces[0].stats().metadata_bytes as usize;
        assert!(faults <= 40, "{faults} page faults to open a space");
        assert!(bytes <= 128 << 10, "{bytes} bytes of an idle space");
        assert!(
            told <= bytes + (64 << 10) && bytes <= told + (64 << 10),
            "{bytes} bytes, and {told} are told"
        );
    });
}

/// A default space leaves most addresses to others: a thousand of them, and a large mapping.
#[test]
fn a_thousand_default_spaces_leave_addresses_to_the_program() {
    in_own_process(|| {
        let spaces: Vec<_> = (0..1000).map(|_| space(LinuxOptions::new())).collect();
        assert!(spaces[0].platform().reserved_bytes() <= 1 << 40);
        for space in [&spaces[0], &spaces[999]] {
            let buffer = space.buffer(100_000).expect("room");
            assert_eq!(buffer.len(), 100_000);
        }
        let (bytes, flags) = (64 << 30, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, which nothing uses.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(mapping, libc::MAP_FAILED, "64 GiB for the program itself");
    });
}

/// An area of an odd size is a plain area: nothing is noted of it, and its size is cached. Each CPU
/// has a node with records of its own.
#[test]
fn odd_sizes_cost_what_whole_pages_do() {
    process::on_one_cpu(|| {
        let space = space(LinuxOptions::new().drain_thread(false));
        let before = space.stats().metadata_bytes;
        let size = |nth| 1000 + nth % 3000;
        let areas: Vec<_> =
            (0..1000).map(|nth| space.buffer(page_bytes() + size(nth)).expect("room")).collect();
        let told: usize = space.areas().map(|area| area.bytes).sum();
        assert_eq!(told, 1000 * 2 * page_bytes(), "an area has whole pages");
        let noted = space.stats().metadata_bytes - before;
        assert!(noted <= 16 << 10, "{noted} bytes for 1000 areas of odd sizes");
        let addr = areas[500].addr();
        drop(areas);
        let from_node = |nth: usize| space.raw().alloc_from_node(page_bytes() + size(nth), 1);
        let again: Vec<_> = (0..1000).map(from_node).filter(|addr| *addr != 0).collect();
        assert!(again.len() == 1000 && again.contains(&addr), "{} came from this CPU's node", again.len());
        // SAFETY: nothing uses them.
        again.iter().for_each(|addr| unsafe { space.raw().free(*addr) }.expect("it is busy"));
    });
}

/// A zeroed buffer that grows in steps uses the room that it has, and touches none of it.
#[test]
fn a_zeroed_buffer_grows_without_a_touch_of_its_room() {
    in_own_process(|| {
        let space = space(LinuxOptions::new().drain_thread(false));
        let mut buffer = space.zeroed_buffer(64 << 20).expect("room");
        buffer.resize(65 << 20).expect("room");
        let (addr, faults) = (buffer.addr(), page_faults());
        for step in 1..=100 {
            buffer.resize((65 << 20) + step * page_bytes()).expect("room");
        }
        let faults = page_faults() - faults;
        assert_eq!(buffer.addr(), addr, "it has room");
        assert!(faults < 100, "{faults} page faults for 100 pages that nobody has touched");
    });
}

/// A purge works on ranges, however many pages they have.
#[test]
fn a_purge_of_a_huge_range_takes_no_memory_for_its_pages() {
    let options = LinuxOptions::new().max_bytes(1 << 45).drain_thread(false);
    let space = space(options);
    for _ in 0..3 {
        let request = Request::new(space.platform().reserved_bytes() / 4);
        let areas: Vec<_> = (0..3).map(|_| space.raw().reserve(&request).expect("room")).collect();
        // SAFETY: nothing uses the addresses.
        areas.iter().for_each(|addr| unsafe { space.raw().unreserve(*addr) }.expect("it is busy"));
        space.purge().expect("nothing is mapped");
        let told = space.stats().metadata_bytes;
        assert!(told <= 160 << 10, "{told} bytes of metadata");
    }
}

/// A stack of a test: painted, so that what was touched can be told.
const STACK: usize = 256 << 10;
const PAINT: u8 = 0xa7;

/// Returns how many bytes of stack `act` takes.
fn stack_of(act: impl FnOnce()) -> usize {
    struct Call<F> {
        act: Option<F>,
        from: usize,
    }
    extern "C" fn run<F: FnOnce()>(call: *mut c_void) -> *mut c_void {
        // SAFETY: the thread that started this one waits for it.
        let call = unsafe { &mut *call.cast::<Call<F>>() };
        call.from = (&raw const call).addr();
        if let Some(act) = call.act.take() {
            act();
        }
        std::ptr::null_mut()
    }
    fn start<F: FnOnce()>(_: &F) -> extern "C" fn(*mut c_void) -> *mut c_void {
        run::<F>
    }
    let entry = start(&act);
    let mut stack = vec![PAINT; STACK + page_bytes()];
    let base = stack.as_mut_ptr().addr().next_multiple_of(page_bytes());
    let mut call = Call { act: Some(act), from: 0 };
    let (mut attr, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let sure = |code: c_int| assert_eq!(code, 0);
    // SAFETY: the stack and the call live until the thread has ended.
    unsafe {
        sure(libc::pthread_attr_init(attr.as_mut_ptr()));
        let at = stack.as_mut_ptr().with_addr(base).cast();
        sure(libc::pthread_attr_setstack(attr.as_mut_ptr(), at, STACK));
        sure(libc::pthread_create(thread.as_mut_ptr(), attr.as_ptr(), entry, (&raw mut call).cast()));
        sure(libc::pthread_join(thread.assume_init(), std::ptr::null_mut()));
        sure(libc::pthread_attr_destroy(attr.as_mut_ptr()));
    }
    let lowest = stack.iter().position(|byte| *byte != PAINT).expect("something was touched");
    call.from - (stack.as_ptr().addr() + lowest)
}

/// A kernel stack has 16 KiB for everything: what a call takes of it is held, without optimization.
/// These bounds may only fall.
#[test]
fn calls_take_little_stack() {
    let space = space(LinuxOptions::new().drain_thread(false));
    let mut addr = 0;
    // Less than starts a purge.
    let request = Request::new(200 * page_bytes()).tag("a tag");
    let alloc = stack_of(|| addr = space.raw().alloc(&request).expect("room"));
    // SAFETY: nothing uses it.
    let free = stack_of(|| unsafe { space.raw().free(addr) }.expect("it is busy"));
    let purge = stack_of(|| space.purge().expect("no refusal"));
    // A call on AArch64 saves more registers.
    let most_of_free = if cfg!(target_arch = "aarch64") { 2800 } else { 2500 };
    let holds = alloc <= 3500 && free <= most_of_free && purge <= 2500;
    assert!(holds, "bytes of stack: {alloc} of an allocation, {free} of a free, {purge} of a purge");
}
