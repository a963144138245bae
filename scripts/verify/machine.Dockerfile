# A machine with systemd, a user `ada` with sudo, and a clone of bagfs in her home, to do there what the docs say.
# CONTRIBUTING.md has the commands.
FROM node:22-trixie-slim
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    systemd systemd-sysv dbus dbus-user-session libpam-systemd polkitd sudo procps \
  && useradd --create-home --shell /bin/bash ada \
  && echo 'ada ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/ada \
  && echo 'Defaults env_keep += "NODE_EXTRA_CA_CERTS"' >> /etc/sudoers.d/ada \
  && { printenv | grep '^NODE_EXTRA_CA_CERTS=' >> /etc/environment || true; }
COPY --chown=ada . /home/ada/bagfs
STOPSIGNAL SIGRTMIN+3
CMD ["/sbin/init"]
