use std::time::Instant;
use vmalloc_stacks::{Settings, Stacks};
fn cpu() -> f64 { let mut t: libc::timespec = unsafe{std::mem::zeroed()}; unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) }; t.tv_sec as f64*1e9+t.tv_nsec as f64 }
fn round(stacks: &Stacks, n: u64, bytes: usize) -> f64 {
    let t = cpu();
    for i in 0..n { let s = if bytes==0 {stacks.stack().unwrap()} else {stacks.stack_of(bytes).unwrap()}; unsafe { ((s.top()-8) as *mut u64).write_volatile(i); } }
    (cpu()-t)/n as f64
}
fn main() {
    for size in [64usize<<10, 1<<20] {
        let stacks = Stacks::open(&Settings::new().stack_bytes(size)).unwrap();
        round(&stacks, 1000, 0);
        let mut v: Vec<f64> = (0..7).map(|_| round(&stacks, 1_000_000, 0)).collect(); v.sort_by(f64::total_cmp);
        println!("{size}: 1 thread {:.1} ns", v[3]);
        round(&stacks, 1000, size/2);
        let mut v: Vec<f64> = (0..7).map(|_| round(&stacks, 300_000, size/2)).collect(); v.sort_by(f64::total_cmp);
        println!("{size}: chosen {:.1} ns", v[3]);
        let s=&stacks;
        let r: Vec<f64> = std::thread::scope(|sc| { let h: Vec<_> = (0..2).map(|_| sc.spawn(move || { let mut v: Vec<f64> = (0..7).map(|_| round(s, 1_000_000, 0)).collect(); v.sort_by(f64::total_cmp); v[3] })).collect(); h.into_iter().map(|h| h.join().unwrap()).collect() });
        println!("{size}: 2 threads {r:?}");
        // bulk: 10000 at once
        let t=Instant::now();
        for r in 0..4 { let c=cpu(); let all: Vec<_> = (0..10_000).map(|i| { let x = s.stack().unwrap(); unsafe { ((x.top()-8) as *mut u64).write_volatile(i); } x }).collect(); let m=cpu()-c; drop(all); println!("  bulk {r}: make {:.0} ns, drop {:.0} ns", m/1e4, (cpu()-c-m)/1e4); }
        // deep users
        for k in [4usize,5,8,16] { let c=cpu(); let n=100_000u64; for i in 0..n { let x=s.stack().unwrap(); for p in 0..k.min(size/4096) { unsafe { ((x.top()-8-p*4096) as *mut u64).write_volatile(i); } } } println!("  deep {k} pages: {:.0} ns", (cpu()-c)/n as f64); }
        for k in [4usize,5,8,16] { let c=cpu(); let n=200u64; for i in 0..n { let v: Vec<_> = (0..500).map(|_| {let x=s.stack().unwrap(); for p in 0..k.min(size/4096) { unsafe { let a=x.top()-4096-p*4096; std::ptr::write_bytes(a as *mut u8, i as u8+1, 64); std::ptr::write_bytes((a+4032) as *mut u8, i as u8+1, 64); } } x}).collect(); drop(v); } println!("  500 at once, deep {k} pages: {:.0} ns", (cpu()-c)/(n*500) as f64); }
        println!("{:?} {:?}", t.elapsed(), s.stats().cached_areas);
    }
}
