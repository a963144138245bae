#!/usr/bin/env python3
"""Mounts as mount(8) of util-linux 2.39 and newer does: by fsopen(2), to which a type behind a dot means nothing."""
import ctypes
import os
import sys

FSOPEN, FSCONFIG, FSMOUNT, MOVE_MOUNT = 430, 431, 432, 429
SET_FLAG, SET_STRING, CREATE = 0, 1, 6
FROM_EMPTY_PATH = 4
HERE = -100
#: Of the mount, and of no matter to the file system.
ATTRIBUTES = {"nosuid": 2, "nodev": 4}

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *args):
    result = libc.syscall(number, *args)
    if result < 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    return result


def main():
    # mount -i -t TYPE -o OPTIONS SOURCE DIRECTORY
    kind, options, source, directory = sys.argv[3], sys.argv[5], sys.argv[6], sys.argv[7]
    system = call(FSOPEN, kind.encode(), 0)
    call(FSCONFIG, system, SET_STRING, b"source", source.encode(), 0)
    attributes = 0
    for option in options.split(","):
        name, _, value = option.partition("=")
        if name in ATTRIBUTES:
            attributes |= ATTRIBUTES[name]
        elif value:
            call(FSCONFIG, system, SET_STRING, name.encode(), value.encode(), 0)
        elif name != "rw":
            call(FSCONFIG, system, SET_FLAG, name.encode(), None, 0)
    call(FSCONFIG, system, CREATE, None, None, 0)
    mount = call(FSMOUNT, system, 0, attributes)
    call(MOVE_MOUNT, mount, b"", HERE, directory.encode(), FROM_EMPTY_PATH)


main()
