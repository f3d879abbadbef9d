//! The scripts that the fuzz targets play: on the seeds that are kept, and on random bytes.

use std::path::Path;
use vmalloc_model::env;
use vmalloc_model::script::{Script, play_random, replay};
use vmalloc_sim::script;

fn play(name: &str, script: Script) {
    replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name), script);
    play_random(script, 2000, env::seed(1));
}

#[test]
fn mappings_of_every_kind_show_what_they_should() {
    play("family", script::family);
}

#[test]
fn whatever_is_read_is_what_is_mapped() {
    play("vread", script::vread);
}

#[test]
fn areas_that_change_their_size_keep_what_they_hold() {
    play("direct", script::direct);
}
