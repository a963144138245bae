#!/bin/sh
# Shows drives in the sidebars of Thunar and PCManFM as a desktop has them: with gvfs, udisks2 and a system bus. Checks
# the names and icons that GIO tells, and takes pictures to look at. As root, after scripts/setup.sh --tests and npm run
# build, with the packages gvfs, gvfs-daemons, udisks2 and scrot. Its mounts and processes are its own, and end with it.
#   sh scripts/verify/sidebar.sh DIRECTORY      DIRECTORY takes the pictures
set -eu

# First into namespaces of its own, where what others unmount goes, too.
if [ "${1:?}" != --inside ]; then
  mkdir -p "$1"
  exec unshare --mount --propagation slave --pid --fork --kill-child --mount-proc sh "$0" --inside "$1"
fi
repository=$(realpath "$(dirname "$0")/../..")
pictures=/run/pictures
program=/run/bagfs/dist/main.js
export LC_ALL=C.UTF-8 NO_AT_BRIDGE=1 XDG_CURRENT_DESKTOP=XFCE

fail() {
  echo "sidebar: $*" >&2
  exit 1
}

. "$repository/scripts/verify/until-done.sh"

# A machine that has nothing but a home, /media and /mnt; its user is nobody.
mount -t tmpfs -o mode=755 none /run
mkdir /run/bagfs /run/pictures
mount --bind "$repository" /run/bagfs
mount --bind "$2" /run/pictures
for place in /home /media /mnt /tmp; do mount -t tmpfs -o mode=755 none "$place"; done
cd /
mkdir -p /run/dbus /run/mount /run/root /run/user /home/you/drive /home/you/.hidden/drive /run/media/nobody/drive \
  /media/drive /media/shared /mnt/hidden /mnt/listed
chown -R nobody /run/user /home/you /run/media/nobody /media/drive /mnt
mknod -m 666 /run/fuse c 10 229
mount --bind /run/fuse /dev/fuse
echo 'listed /mnt/listed bagfs user,noauto,x-gvfs-show,x-gvfs-name=My%20account,x-gvfs-icon=folder-remote 0 0' >/run/fstab
mount --bind /run/fstab /etc/fstab

as_root() { env HOME=/run/root XDG_RUNTIME_DIR=/run/root "$@"; }
as_user() {
  setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/home/you XDG_RUNTIME_DIR=/run/user \
    XDG_STATE_HOME=/home/you/.state XDG_CONFIG_HOME=/home/you/.config DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/bus "$@"
}

node "$program" serve --data /run/service --port 0 >/run/service.txt 2>&1 &
until_done grep -q '^http' /run/service.txt
url=$(grep '^http' /run/service.txt)

# Whose drive, its profile, its directory, and more options. Each has a state of its own, as they share an account.
drive() {
  who=$1 profile=$2 directory=$3
  shift 3
  "$who" node "$program" login "$profile" --url "$url" --no-keyring </run/service/token >/dev/null 2>&1
  "$who" sh -c 'node "$0" mount "$1:$2" --min-free 1MB --state-dir "$HOME/.state-$1" "$3"' \
    "$program" "$profile" "$directory" "${1:---umask=022}" >/dev/null
}
drive as_user home /home/you/drive
drive as_user dotted /home/you/.hidden/drive
drive as_user media /media/drive
drive as_user run /run/media/nobody/drive
drive as_user elsewhere /mnt/hidden
drive as_user listed /mnt/listed
drive as_root shared /media/shared --allow-other

dbus-daemon --system --nofork --nopidfile >/dev/null 2>&1 &
until_done test -e /run/dbus/system_bus_socket
/usr/libexec/udisks2/udisksd >/dev/null 2>&1 &
as_user dbus-daemon --session --nofork --address=unix:path=/run/user/bus >/dev/null 2>&1 &
until_done test -e /run/user/bus

# Name, path and first icon of each mount, as GIO tells them.
told() {
  as_user env "$@" gio mount --list --detail |
    sed -nE 's/^ *Mount\([0-9]+\): (.*) -> file:(.*)/\1 \2/p; s/^ *themed icons: *\[([^]]*).*/\1/p' |
    awk '/ \/\//{place=$0; next} place!=""{print place, $1; place=""}' | sort
}
with_gvfs='home ///home/you/drive folder-remote
listed ///mnt/listed folder-remote
media ///media/drive folder-remote
run ///run/media/nobody/drive folder-remote
shared ///media/shared folder-remote'
is_told() { [ "$(told)" = "$with_gvfs" ]; }
until_done is_told
echo 'With gvfs:'
told
echo 'Without:'
told GIO_USE_VFS=local GIO_USE_VOLUME_MONITOR=unix

mkfifo -m 666 /run/display
Xvfb -displayfd 3 -ac -screen 0 900x440x24 -nolisten tcp -nolisten unix -noreset 3>/run/display >/dev/null 2>&1 &
read -r display </run/display
export DISPLAY=":$display"
is_shown() { [ -n "$(xdotool search --onlyvisible --name "$1")" ]; }
look() {
  manager=$1 title=$2
  as_user "$manager" /home/you >/dev/null 2>&1 &
  until_done is_shown "$title"
  xdotool search --onlyvisible --name "$title" windowsize --sync 900 440
  sleep 3
  scrot --overwrite "$pictures/$manager.png"
  kill $!
}
look thunar '^you - Thunar$'
look pcmanfm '^you$'

# What the eject button does: all is sent, and the drive ends.
echo content | as_user tee /home/you/drive/a.txt >/dev/null
as_user gio mount --unmount /home/you/drive
is_left() { grep -q 'Left; everything is stored' /home/you/.state-home/logs/*; }
until_done is_left
echo "Look at them: $2"
