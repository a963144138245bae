#!/bin/sh
# `npm run bench`: installs what is missing, builds the drive and the benches aside, and measures. Arguments:
# names of sections (reading, listing, writing, writing-many, large, huge, folders, and of its parts: folder-many, folder-stored,
# folder-deflated, folder-line, folder-change, folder-tree), --runs N, --only SUBJECT.
set -eu
cd "$(dirname "$0")/../.."
sh scripts/setup.sh --bench
built=node_modules/.cache/bagfs-bench
mkdir -p "$built"
# The package file makes the output modules, and tells the program its version.
cp package.json "$built/package.json"
npx tsc -p scripts/bench/tsconfig.json --outDir "$built"
# No bench goes on for ever: its own signal handler then takes mounts and processes away.
exec timeout --kill-after=30 --signal=TERM "${BENCH_LIMIT:-1800}" node "$built/scripts/bench/main.js" "$@"
