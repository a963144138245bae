#!/bin/sh
# `npm run bench`: builds the drive and the benches aside, and measures. Arguments: names of sections
# (reading, listing, writing, memory, large), --runs N, --only SUBJECT.
set -eu
cd "$(dirname "$0")/../.."
built=node_modules/.cache/bagfs-bench
mkdir -p "$built"
# The package file makes the output modules, and tells the program its version.
cp package.json "$built/package.json"
npx tsc -p scripts/bench/tsconfig.json --outDir "$built"
# No bench goes on for ever: its own signal handler then takes mounts and processes away.
exec timeout --kill-after=30 --signal=TERM "${BENCH_LIMIT:-1800}" node "$built/scripts/bench/main.js" "$@"
