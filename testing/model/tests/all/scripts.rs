//! The scripts that the fuzz targets play: on the seeds that are kept, and on random bytes.

use std::path::Path;
use vmalloc_model::env;
use vmalloc_model::script::{self, Script};

fn play(name: &str, script: Script) {
    script::replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(name), script);
    script::play_random(script, 2000, env::seed(1));
}

#[test]
fn the_area_map_agrees_with_the_reference() {
    play("area_map", script::area_map);
}
