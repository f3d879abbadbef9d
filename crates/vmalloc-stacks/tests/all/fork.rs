//! Forks: a child goes on with the stacks that it inherited, and with new ones.

use crate::common::*;
use vmalloc_stacks::{LinuxOptions, Stacks};

#[test]
fn a_child_opens_and_drops_pools_and_decays_them() {
    in_own_process(|| {
        let stacks = Stacks::open_with(LinuxOptions::new().max_bytes(1 << 30), &settings(16, 2)).unwrap();
        // The parent's decay runs.
        drop(stacks.stack().unwrap());
        in_child(|| {
            let own = Stacks::open_with(LinuxOptions::new().max_bytes(1 << 30), &settings(16, 2)).unwrap();
            for stacks in [&stacks, &own] {
                let stack = stacks.stack().unwrap();
                use_pages(&stack, 16, 1);
                let below = stack.bottom()..stack.top() - 2 * page_bytes();
                drop(stack);
                while resident(below.clone()) > 0 {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
            }
        });
    });
}
