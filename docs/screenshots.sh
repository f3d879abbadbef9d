#!/bin/sh
# Retakes the pictures of docs/ (needs chromium; pngquant makes them smaller where it is installed):
#   docs/screenshots.sh [REPORT.html]     without a file the designs are measured first, which takes some minutes
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-lab/target}
cargo build --quiet --release --manifest-path lab/Cargo.toml -p vmalloc-cli
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
report=$scratch/report.html
vmalloc=$(realpath "$target")/release/vmalloc
if [ $# -gt 0 ]; then cp "$1" "$report"; else (cd "$scratch" && "$vmalloc" report); mv "$scratch/vmalloc-report.html" "$report"; fi
# From the scratch directory: pictures name their files.
cp lab/cli/tests/data/vmallocinfo.txt "$scratch/vmallocinfo"
(cd "$scratch" && "$vmalloc" map vmallocinfo --svg map.svg >/dev/null)

# shot FILE ADDRESS SIZE SCHEME (0 dark, 1 light)
shot() {
    chromium --headless=new --no-sandbox --hide-scrollbars --virtual-time-budget=4000 --user-data-dir="$scratch/profile" \
        --blink-settings="preferredColorScheme=$4" --window-size="$3" --screenshot="$scratch/shot.png" "$2" 2>/dev/null
    if command -v pngquant >/dev/null; then
        pngquant --force --output "docs/$1" 128 "$scratch/shot.png"
    else
        cp "$scratch/shot.png" "docs/$1"
    fi
    ls -s "docs/$1"
}
# Headless, the browser does not scroll: a copy of the page that shows one section only.
only() {
    sed "s|</style>|main > *:not(#$1) { display: none; } h2 { margin-top: 0; border: 0; }</style>|" "$report" >"$scratch/$1.html"
}
only latency
only maps
shot report-light.png "file://$report" 1100,1500 1
shot report-dark.png "file://$scratch/latency.html" 1100,1000 0
shot spaces-light.png "file://$scratch/maps.html" 1100,1200 1
shot map-dark.png "file://$scratch/map.svg" 1200,940 0
