#!/bin/sh
# Has a drive come back in a session of systemd: after a kill, and at the next log-in with what waited. Each session is a
# `systemd --user` of its own, in namespaces and a control group that end with it; the machine need not run systemd. As
# root, after scripts/setup.sh --tests and npm run build.
#   sh scripts/verify/session.sh
set -eu

repository=$(realpath "$(dirname "$0")/../..")
group=bagfs-session-$$
[ "${1:-}" = --inside ] && group=$2

# systemd takes all processes of its control group for its own: this has to be a group that nothing else is in.
groups() {
  for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
    if [ -e "$hierarchy/cgroup.procs" ]; then echo "$hierarchy/$group"; fi
  done
}

if [ "${1:-}" != --inside ]; then
  for each in $(groups); do mkdir -p "$each"; done
  directory=$(mktemp -d)
  code=0
  sh -c 'for each in '"$(groups | tr '\n' ' ')"'; do echo $$ > "$each/cgroup.procs" || true; done 2>/dev/null
    exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc sh "$@"' \
    session "$0" --inside "$group" "$directory" || code=$?
  for each in $(groups); do find "$each" -depth -type d -exec rmdir {} +; done
  rm -rf --one-file-system "$directory"
  exit "$code"
fi

grep -q "$group" /proc/self/cgroup || { echo 'session: the control group cannot be changed here' >&2; exit 1; }
mount -t tmpfs tmpfs /run
# The mark of a machine that systemd has started.
mkdir -p /run/systemd/system /run/user/0
home=$3
for name in $(env | sed -n 's/^\(BAGFS_[A-Z_]*\|XDG_[A-Z_]*\|DBUS_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export HOME="$home" XDG_RUNTIME_DIR=/run/user/0 LC_ALL=C.UTF-8
drive=$home/drive
bagfs() { timeout 120 node "$repository/dist/main.js" "$@"; }

fail() {
  echo "session: $*" >&2
  cat /run/systemd.log >&2
  exit 1
}

. "$repository/scripts/verify/until-done.sh"

log_in() {
  SYSTEMD_LOG_TARGET=console setsid /lib/systemd/systemd --user >>/run/systemd.log 2>&1 &
  manager=$!
  until_done systemctl --user is-active default.target
}

log_out() {
  systemctl --user exit
  wait "$manager" || true
  ! grep -q " $drive " /proc/mounts || fail "still mounted after logging out: $drive"
}

start_service() {
  node "$repository/dist/main.js" serve --data "$home/account" --port 7796 --token-file "$home/token" >/dev/null &
  service=$!
  until_done bagfs df --url http://127.0.0.1:7796 --token-file "$home/token"
}

mkdir "$drive"
(umask 077; echo session-token-0123456789 >"$home/token")
start_service
bagfs login --url http://127.0.0.1:7796 --token-file "$home/token" --no-keyring

echo '== enable'
log_in
bagfs service enable "$drive"
bagfs service status
echo first >"$drive/first"
unit=$(basename "$home"/.config/systemd/user/bagfs-*.service)

echo '== kill'
kill -9 "$(systemctl --user show --property MainPID --value "$unit")"
until_done cat "$drive/first"
bagfs service status

echo '== logging out without the service'
kill "$service"
wait "$service" || true
echo second >"$drive/second"
log_out

echo '== logging in'
start_service
log_in
until_done cat "$drive/first"
[ "$(cat "$drive/second")" = second ] || fail 'what waited is lost'
bagfs sync "$drive"

echo '== disable'
bagfs service disable "$drive"
log_out
log_in
[ "$(systemctl --user list-units --plain --no-legend 'bagfs-*' | wc -l)" = 0 ] || fail 'it came back'
log_out
[ "$(bagfs ls | wc -l)" = 2 ] || fail 'the account lacks a file'
echo 'session: all as promised'
