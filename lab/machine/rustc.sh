#!/bin/sh
# RUSTC_WRAPPER of `cargo xtask cores`: the crates whose code runs in virtual time call the machine before each basic block,
# load and store. The machine's own crate does not: what it is called by would call it.
rustc="$1"
shift
case " $* " in
*" --crate-name vmalloc "* | *" --crate-name vmalloc_map "* | *" --crate-name vmalloc_percpu "* | *" --crate-name vmalloc_kit "* | *" --crate-name vmalloc_lab "*)
    exec "$rustc" "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-trace-pc \
        -Cllvm-args=-sanitizer-coverage-trace-loads -Cllvm-args=-sanitizer-coverage-trace-stores
    ;;
*) exec "$rustc" "$@" ;;
esac
