#!/bin/sh
# Retakes the picture of docs/ (needs chromium; pngquant makes it smaller where it is installed).
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --release -p vmalloc-inspect --features program
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
vmalloc=$(realpath "$target")/release/vmalloc
# From the scratch directory: the picture names its file.
cp crates/vmalloc-inspect/tests/data/vmallocinfo.txt "$scratch/vmallocinfo"
(cd "$scratch" && "$vmalloc" map vmallocinfo --svg map.svg >/dev/null)
chromium --headless=new --no-sandbox --hide-scrollbars --virtual-time-budget=4000 --user-data-dir="$scratch/profile" \
    --blink-settings=preferredColorScheme=0 --window-size=1200,940 --screenshot="$scratch/shot.png" "file://$scratch/map.svg" 2>/dev/null
if command -v pngquant >/dev/null; then
    pngquant --force --output docs/map-dark.png 128 "$scratch/shot.png"
else
    cp "$scratch/shot.png" docs/map-dark.png
fi
