#!/bin/sh
# Installs what bagfs needs and is missing, then builds it. Safe to run again: it does only what is left to do.
#   sh scripts/setup.sh            what `npm start` needs
#   sh scripts/setup.sh --tests    and the programs that the tests use
#   sh scripts/setup.sh --bench    and the programs that the benches use and measure against
set -eu
cd "$(dirname "$0")/.."

say() { echo "setup: $*"; }
has() { command -v "$1" >/dev/null 2>&1; }

# The tests of --bridge fuse-native, and the bench's bare bridge, need libfuse.so.2; the loader's own list is the only
# honest answer to "is it there".
has_libfuse2() { PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q 'libfuse\.so\.2 '; }

# Debian 13 and Ubuntu 24.04 renamed the library.
libfuse2_package() {
  if apt-cache show libfuse2t64 >/dev/null 2>&1; then echo libfuse2t64; else echo libfuse2; fi
}

# program:package of what the tests run inside the drive.
test_programs="setfattr:attr rsync:rsync vim:vim sqlite3:sqlite3 strace:strace gio:libglib2.0-bin desktop-file-validate:desktop-file-utils git:git
  zip:zip unzip:unzip fio:fio curl:curl /usr/bin/python3:python3 soffice:libreoffice-writer-nogui
  chromium:chromium zsh:zsh fish:fish groff:groff-base systemd-analyze:systemd
  man:man-db Xvfb:xvfb xdotool:xdotool xclip:xclip dbus-daemon:dbus-daemon
  thunar:thunar /usr/lib/$(uname -m)-linux-gnu/tumbler-1/tumblerd:tumbler pcmanfm:pcmanfm
  gdk-pixbuf-thumbnailer:libgdk-pixbuf2.0-bin l3afpad:l3afpad"

# program:package of what the benches run.
bench_programs='curl:curl fio:fio zip:zip unzip:unzip rclone:rclone fuse-zip:fuse-zip
  archivemount:archivemount'

needs_libfuse2() {
  case "$1" in
  --tests | --bench) ! has_libfuse2 ;;
  *) false ;;
  esac
}

missing_packages() {
  has fusermount || has fusermount3 || echo fuse3
  needs_libfuse2 "$1" && libfuse2_package
  case "$1" in
  --tests) programs=$test_programs ;;
  --bench) programs=$bench_programs ;;
  *) return 0 ;;
  esac
  for pair in $programs; do
    has "${pair%%:*}" || echo "${pair#*:}"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

install_packages() {
  say "installing $*"
  # A package list that is there is used as it is; only when it does not do, it is fetched.
  if ! apt install -y --no-install-recommends "$@" >/dev/null 2>&1; then
    apt update
    apt install -y --no-install-recommends "$@"
  fi
}

install_missing_packages() {
  packages=$(missing_packages "$1" | tr '\n' ' ')
  [ -n "${packages% }" ] || return 0
  if ! has apt-get; then
    echo "setup: missing: $packages(names of Debian packages). Install them with your package manager, then try again." >&2
    exit 1
  fi
  if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    echo "setup: missing packages. Please run this, then try again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $packages" >&2
    exit 1
  fi
  # shellcheck disable=SC2086 # one word per package
  install_packages $packages
  # The library's new name is only known once the list of packages has been fetched.
  if needs_libfuse2 "$1"; then install_packages "$(libfuse2_package)"; fi
}

check_node() {
  if ! has node || ! has npm; then
    echo "setup: Node.js 20.18 or newer with npm is needed: https://nodejs.org" >&2
    exit 1
  fi
  if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 18) ? 0 : 1)'; then
    echo "setup: Node.js 20.18 or newer is needed; this is $(node --version)." >&2
    exit 1
  fi
}

# npm writes node_modules/.package-lock.json last, so an install that broke off is done again.
# Every native module ships prebuilt binaries: no package's install script is needed, none is run.
install_modules() {
  installed=node_modules/.package-lock.json
  if [ ! -e "$installed" ] || [ package-lock.json -nt "$installed" ]; then
    say 'installing npm packages'
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
    touch "$installed"
  fi
}

# The stamp is made before the build, so that a source changed meanwhile is built next time.
build() {
  stamp=dist/.built
  if [ ! -e "$stamp" ] || [ ! -e dist/main.js ] ||
    [ -n "$(find src scripts/build.js package-lock.json -newer "$stamp" | head -n 1)" ]; then
    say 'building'
    rm -rf dist
    mkdir dist
    touch dist/.building
    npm run --silent build
    mv dist/.building "$stamp"
  fi
}

case "${1-}" in
'' | --tests | --bench) ;;
*)
  echo "setup: unknown argument $1" >&2
  exit 2
  ;;
esac
check_node
install_missing_packages "${1-}"
install_modules
build
