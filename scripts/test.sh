#!/bin/sh
# `npm test`: installs what is missing and runs all tests. Arguments go to vitest: `npm test -- test/unit/cli`.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh --tests

kib_free() { df -kP "$1" 2>/dev/null | awk 'NR == 2 { print $4 }'; }
kib_of_memory() { awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null; }

# What tests write is forgotten after them. In memory, where there is room for it, no close waits for the disk.
memory=/dev/shm
if [ -w $memory ] && ! grep -q " $memory [^ ]* [^ ]*noexec" /proc/mounts &&
  [ "$(kib_free $memory)" -ge 4000000 ] && [ "$(kib_of_memory)" -ge 8000000 ]; then
  TMPDIR=$(mktemp -d $memory/bagfs-tests-XXXXXX)
  export TMPDIR
  trap 'rm -rf --one-file-system "$TMPDIR"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
fi
npm run --silent vitest -- --reporter=default --reporter=./test/support/end-hung-run.ts "$@"
