#!/bin/sh
# Takes the pictures of docs/tour.md into docs/pictures: a drive in Thunar, and a copy into it which the service does not
# have yet. Needs what scripts/setup.sh --tests installs, and scrot. Look at them before they are committed.
set -eu
cd "$(dirname "$0")/.."
repository=$PWD
pictures=$repository/docs/pictures

for program in scrot Xvfb xdotool xclip thunar dbus-daemon; do
  command -v "$program" >/dev/null || {
    echo "screenshots: $program is missing." >&2
    exit 1
  }
done

# The name of the home shows in the pictures.
work=$(mktemp -d)
export HOME="$work/you" XDG_RUNTIME_DIR="$work/run" XDG_CONFIG_HOME="$work/you/.config" XDG_STATE_HOME="$work/state"
export NO_AT_BRIDGE=1 GIO_USE_VFS=local GSETTINGS_BACKEND=memory LC_ALL=C.UTF-8
drive=$HOME/drive
started=''

bagfs() { node "$repository/dist/main.js" "$@"; }
is_mounted() { grep -q " $drive " /proc/self/mounts; }

# The home goes only once nothing is mounted in it.
clean() {
  code=$?
  trap - EXIT
  for pid in $started; do kill -KILL "$pid" 2>/dev/null || true; done
  if is_mounted; then bagfs umount --now "$drive" >/dev/null 2>&1 || true; fi
  if is_mounted; then
    echo "screenshots: still mounted, and left as it is: $drive" >&2
    exit 1
  fi
  rm -rf --one-file-system "$work"
  exit "$code"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts a program, and reads the first line that it writes to descriptor 3.
start() {
  pipe=$work/pipe
  rm -f "$pipe"
  mkfifo "$pipe"
  "$@" 3>"$pipe" >/dev/null 2>&1 &
  started="$! $started"
  read -r line <"$pipe"
}

# Until a command succeeds, or it has failed for a minute.
until_done() {
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ]; then
      echo "screenshots: this never came: $*" >&2
      exit 1
    fi
    sleep 0.2
  done
}

window() { xdotool search --onlyvisible --name "$1" | tail -n 1; }
is_shown() { [ -n "$(window "$1")" ]; }

# A picture that is the same twice in a row: nothing is drawn any more.
is_still() {
  scrot --overwrite "$work/before.png"
  sleep 0.5
  scrot --overwrite "$work/after.png"
  cmp -s "$work/before.png" "$work/after.png"
}

take() {
  until_done is_still
  cp "$work/after.png" "$pictures/$1.png"
}

mkdir -p "$drive" "$HOME/Music" "$XDG_CONFIG_HOME/gtk-3.0" \
  "$XDG_CONFIG_HOME/xfce4/xfconf/xfce-perchannel-xml" "$pictures"
mkdir -m 700 "$XDG_RUNTIME_DIR"

# Thunar warns of root in a bar of its own; a reader of the tour is not root. Its path in buttons begins at the home.
cat >"$XDG_CONFIG_HOME/gtk-3.0/gtk.css" <<'CSS'
infobar, infobar * { min-height: 0; padding: 0; margin: 0; border: 0; font-size: 0; color: transparent; background: none; }
infobar { -GtkInfoBar-content-area-border: 0; -GtkInfoBar-action-area-border: 0; }
CSS
cat >"$XDG_CONFIG_HOME/xfce4/xfconf/xfce-perchannel-xml/thunar.xml" <<'XML'
<channel name="thunar" version="1.0">
  <property name="last-location-bar" type="string" value="ThunarLocationButtons"/>
</channel>
XML

node "$repository/dist/main.js" serve --data "$work/service" --port 0 >"$work/service.txt" 2>&1 &
service=$!
started="$service $started"
until_done grep -q '^http' "$work/service.txt"
bagfs login tour --url "$(grep '^http' "$work/service.txt")" --no-keyring <"$work/service/token" >/dev/null
bagfs mount "$drive" --min-free 1MB >/dev/null
for folder in Letters Recipes; do
  mkdir "$drive/$folder"
  echo "$folder" >"$drive/$folder/First.md"
done
for name in Budget.ods Minutes.odt Notes.md letter.txt; do echo "$name" >"$drive/$name"; done
head -c 40000000 /dev/urandom >"$HOME/Music/Concert.flac"
bagfs sync >/dev/null

start Xvfb -displayfd 3 -screen 0 720x440x24 -nolisten tcp -noreset
export DISPLAY=":$line"
start dbus-daemon --session --nofork --print-address=3
export DBUS_SESSION_BUS_ADDRESS="$line"
thunar "$drive" >/dev/null 2>&1 &
started="$! $started"
until_done is_shown '^drive - Thunar$'
xdotool windowsize --sync "$(window '^drive - Thunar$')" 720 440
take drive

# The service stands still, so that the copy waits for it in the picture.
kill -STOP "$service"
printf 'copy\nfile://%s' "$HOME/Music/Concert.flac" |
  xclip -in -selection clipboard -target x-special/gnome-copied-files
xdotool windowfocus --sync "$(window '^drive - Thunar$')" key --clearmodifiers ctrl+v
until_done is_shown '^File Operation Progress$'
xdotool windowmove --sync "$(window '^File Operation Progress$')" 135 180
take copy
kill -CONT "$service"
echo "Look at them: $pictures"
