//! Two windows of device addresses in one map. Freed addresses come back once the device has
//! forgotten them.
//!
//! `cargo run -p vmalloc-map --example device_windows`

use std::error::Error;
use vmalloc_map::{AreaMap, Fit, PageRange};

/// Pages of 4 KiB below 4 GiB, for cards with addresses of 32 bits. Page 0 is never handed out.
const LOW: (u64, u64) = (1, 1 << 20);
/// All pages above.
const HIGH: (u64, u64) = (1 << 20, 1 << 36);

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut iova = AreaMap::new(PageRange::new(LOW.0, HIGH.1).ok_or("empty")?)?;
    let low = Fit::new(16).within(LOW.0, LOW.1);
    let high = Fit::new(16).within(HIGH.0, HIGH.1).align(16);
    let (old_card, new_card) = (iova.alloc(&low)?, iova.alloc(&high)?);
    assert!(old_card.end() <= LOW.1 && new_card.start() >= HIGH.0);
    println!("the old card has pages {old_card:?}, the new card {new_card:?}");

    // The driver unmaps. The token keeps the addresses until the fence of the device was passed.
    let fence = iova.quarantine(old_card.start())?;
    assert_eq!((fence.area(), iova.find(old_card.start())), (old_card, None));
    let other = iova.alloc(&low)?;
    assert_ne!(other, old_card);
    // … here the driver waits for the fence …
    iova.free_quarantined(fence)?;
    assert_eq!(iova.alloc(&low)?, old_card);

    for area in [old_card, other, new_card] {
        iova.free(area.start())?;
    }
    assert!(iova.is_whole());
    Ok(())
}
