#!/bin/sh
# `npm run check`: everything that reads the code and does not run it, two parts at a time. Fails when a part does.
set -eu
cd "$(dirname "$0")/.."
# The longest come first.
printf '%s\n' lint types format:check api arrows names unused | xargs -n 1 -P 2 npm run --silent
