#!/usr/bin/env python3
"""Has a command mount what is used first, as systemd does for x-systemd.automount, and prints what the user of it saw.

automount.py DIRECTORY PROGRAM COMMAND...: PROGRAM uses the directory, COMMAND mounts it.
"""
import fcntl
import os
import struct
import subprocess
import sys

#: Linux, include/uapi/linux/auto_fs.h
READY, FAIL, CATATONIC = 0x9360, 0x9361, 0x9362
MOUNTED_DIRECTLY = 5

directory, program, command = sys.argv[1], sys.argv[2], sys.argv[3:]
requests, pipe = os.pipe()
options = f"fd={pipe},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
subprocess.run(
    ["mount", "-i", "-t", "autofs", "-o", options, "automount", directory],
    check=True,
    pass_fds=[pipe],
)
trap = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)

# In a group of its own: the kernel lets that of the automounter pass.
user = subprocess.Popen(["sh", "-c", program], start_new_session=True, close_fds=True)
kind, token = struct.unpack_from("=4xiI", os.read(requests, 512))
assert kind == MOUNTED_DIRECTLY, kind
try:
    code = subprocess.run(command, check=False, timeout=60).returncode
except subprocess.TimeoutExpired:
    code = 124
fcntl.ioctl(trap, READY if code == 0 else FAIL, token)
if code != 0:
    # What still waits is told that nothing comes.
    fcntl.ioctl(trap, CATATONIC, 0)
sys.exit(code or user.wait())
