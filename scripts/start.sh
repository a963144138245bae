#!/bin/sh
# `npm start`: a drive to try, at ./drive, with an account of its own on this machine. Ctrl-C ends it.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh
exec node dist/main.js demo
