# Read by the scripts beside it, which have `fail`.

# Until a command succeeds, or it has failed for a minute.
until_done() {
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || fail "this never came: $*"
    sleep 0.2
  done
}
