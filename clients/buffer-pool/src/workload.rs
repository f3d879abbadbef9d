//! YCSB's load: pages by a Zipf law, reads and updates.

use crate::pool::Limits;
use crate::{PAGE, Pool, PoolError, Way, page};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::os::unix::fs::FileExt;
use thiserror::Error;

/// YCSB's own constant: how uneven the accesses are.
const THETA: f64 = 0.99;
/// Bytes in a field of a record, and fields in a page.
const FIELD: usize = 100;
const FIELDS: usize = 40;

/// What one thread does, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The page.
    pub page: u64,
    /// True for an update.
    pub updates: bool,
}

/// Returns the accesses of one thread. Of a hundred, `updates` change their page.
///
/// # Panics
/// When there are no pages.
pub fn accesses(seed: u64, pages: u64, count: usize, updates: u32) -> Vec<Access> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let ranks = Zipf::new(pages as f64, THETA).expect("there are pages");
    let access = |_| {
        let rank = ranks.sample(&mut rng) as u64 - 1;
        // Popular pages lie anywhere: a multiplication by an odd number reorders a power of two.
        let page = rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) % pages;
        Access { page, updates: rng.random_range(0..100) < updates }
    };
    (0..count).map(access).collect()
}

/// Why a load did not end well.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The pool refused.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A page does not hold what was written to it.
    #[error(transparent)]
    Damage(#[from] page::Damage),
}

/// Makes accesses, and checks every page that is met. Returns how many updates were made.
///
/// # Errors
/// [`LoadError`]: the pool refused, or a page is damaged.
pub fn play<W: Way>(pool: &Pool<W>, accesses: &[Access]) -> Result<u64, LoadError> {
    let mut updates = 0;
    for access in accesses {
        let mut bytes = pool.fix(access.page)?;
        let changes = page::check(&bytes, access.page)?;
        if access.updates {
            page::write(&mut bytes, access.page, changes + 1);
            updates += 1;
        }
    }
    Ok(updates)
}

/// Makes accesses as YCSB does, to one field of 100 bytes: an update changes it in place. Only the number of the page is
/// checked, so that the bench measures the pool and not checksums.
///
/// # Errors
/// [`LoadError`]: the pool refused, or a page is another one.
pub fn visit<W: Way>(pool: &Pool<W>, accesses: &[Access]) -> Result<u64, LoadError> {
    let mut sum = 0_u64;
    for (nth, access) in accesses.iter().enumerate() {
        let mut bytes = pool.fix(access.page)?;
        page::check_number(&bytes, access.page)?;
        let field = page::FIRST_FIELD + nth % FIELDS * FIELD;
        if access.updates {
            bytes[field..field + FIELD].fill(nth as u8);
        } else {
            sum += bytes[field..field + FIELD].iter().map(|byte| u64::from(*byte)).sum::<u64>();
        }
    }
    Ok(sum)
}

/// Returns a file in memory with `pages` that were never changed.
///
/// # Errors
/// The kernel has no memory for it.
pub fn storage(pages: u64) -> std::io::Result<File> {
    let file = File::from(memfd_create("storage", MemfdFlags::CLOEXEC)?);
    let mut bytes = [0; PAGE];
    for number in 0..pages {
        page::write(&mut bytes, number, 0);
        file.write_all_at(&bytes, number * PAGE as u64)?;
    }
    Ok(file)
}

/// Returns a pool with a storage of its own.
///
/// # Errors
/// The kernel has no memory for the storage.
pub fn pool<W: Way>(way: W, pages: u64, limits: Limits) -> std::io::Result<Pool<W>> {
    Ok(Pool::new(way, storage(pages)?, pages as usize, limits))
}
