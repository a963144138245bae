#!/bin/sh
# `npm test`: installs what is missing and runs all tests. Arguments go to vitest: `npm test -- test/unit/cli`.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh --tests
exec npm run --silent vitest -- "$@"
