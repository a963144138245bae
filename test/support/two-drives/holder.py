"""Programs that use mounted drives: carries out one operation on files for each line of JSON.

Each has a thread of its own, so that one that hangs holds up no other. Paths lead from a directory that was opened
when the drive was mounted: once the drive is dead they are errors, and never mean the directory below the mount.
"""

import errno
import json
import os
import sys
import threading

FLAGS = {
    'r': os.O_RDONLY,
    'r+': os.O_RDWR,
    'w': os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    'a': os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}
CHUNK = 1 << 20

roots = {}
printing = threading.Lock()


def read_open(fd):
    parts = []
    while part := os.pread(fd, CHUNK, sum(map(len, parts))):
        parts.append(part)
    return b''.join(parts).decode('latin-1')


def read_file(path, root):
    fd = os.open(path, os.O_RDONLY, dir_fd=root)
    try:
        return read_open(fd)
    finally:
        os.close(fd)


def list_names(path, root):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def read_below(path, root, found):
    """Content by path; None for what cannot be read."""
    try:
        try:
            found[path] = read_file(path, root)
        except IsADirectoryError:
            for name in list_names(path, root):
                read_below(path + '/' + name, root, found)
    except OSError:
        found[path] = None


def read_tree(root, prefix):
    found = {}
    for name in list_names('.', root):
        if name.startswith(prefix):
            read_below(name, root, found)
    return found


def write_all(fd, text):
    data = text.encode('latin-1')
    while data:
        data = data[os.write(fd, data):]


def write_at(fd, text, at):
    data = text.encode('latin-1')
    while data:
        count = os.pwrite(fd, data, at)
        data, at = data[count:], at + count


def open_root(root, path):
    roots[root] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)


OPERATIONS = {
    'enter': lambda root, path: open_root(root, path),
    'exit': lambda root: os.close(roots.pop(root)),
    'open': lambda root, path, flags: os.open(path, FLAGS[flags], 0o644, dir_fd=roots[root]),
    'size': lambda fd: os.fstat(fd).st_size,
    'write': write_all,
    'writeAt': write_at,
    'truncate': os.ftruncate,
    'readOpen': read_open,
    'sync': os.fsync,
    'close': os.close,
    'read': lambda root, path: read_file(path, roots[root]),
    'stat': lambda root, path: os.stat(path, dir_fd=roots[root]).st_size,
    'names': lambda root: list_names('.', roots[root]),
    'tree': lambda root, prefix: read_tree(roots[root], prefix),
    'mkdir': lambda root, path: os.mkdir(path, dir_fd=roots[root]),
    'remove': lambda root, path: os.unlink(path, dir_fd=roots[root]),
    'rename': lambda root, path, to: os.rename(
        path, to, src_dir_fd=roots[root], dst_dir_fd=roots[root]
    ),
}


def carry_out(asked):
    answer = {'id': asked['id']}
    try:
        answer['value'] = OPERATIONS[asked['op']](*asked['with'])
    except OSError as error:
        answer['error'] = errno.errorcode.get(error.errno, str(error))
    except Exception as error:
        answer['error'] = repr(error)
    with printing:
        print(json.dumps(answer), flush=True)


for line in sys.stdin:
    threading.Thread(target=carry_out, args=(json.loads(line),), daemon=True).start()
# What hangs must not keep this process.
os._exit(0)
