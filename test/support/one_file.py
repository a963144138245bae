"""Random operations on one file of a drive, against the same on bytes in memory.

python3 one_file.py FILE SEED OPERATIONS [no-zero-range] - ends with 1 at the first difference, and prints the
operations before it. A tmpfs has no FALLOC_FL_ZERO_RANGE.
"""

import collections
import ctypes
import mmap
import os
import random
import sys

LARGEST = 256 * 1024
LONGEST = 64 * 1024
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 0x01, 0x02, 0x10

path, seed, operations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chosen = random.Random(seed)
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
modes = (KEEP_SIZE | PUNCH_HOLE, ZERO_RANGE, KEEP_SIZE | ZERO_RANGE)[: 1 if "no-zero-range" in sys.argv else None]
last = collections.deque(maxlen=30)
model = bytearray()
fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)


def span(limit):
    start = chosen.randrange(limit)
    return start, chosen.randint(1, min(LONGEST, limit - start))


def fill(end):
    if end > len(model):
        model.extend(bytes(end - len(model)))


def check(what, found, expected):
    if found != expected:
        at = next((n for n, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), "the end")
        raise SystemExit(f"{what}: {len(found)} bytes in place of {len(expected)}, other from {at} on\n" + "\n".join(last))


def read():
    start, length = span(LARGEST)
    last.append(f"read {start} {length}")
    check("read", os.pread(fd, length, start), bytes(model[start : start + length]))


def write():
    start, length = span(LARGEST)
    last.append(f"write {start} {length}")
    content = chosen.randbytes(length)
    fill(start)
    model[start : start + length] = content
    if os.pwrite(fd, content, start) != length:
        raise SystemExit("A write was short.")


def append():
    length = chosen.randint(1, LONGEST)
    if len(model) + length > LARGEST:
        return cut()
    last.append(f"append {length}")
    content = chosen.randbytes(length)
    model.extend(content)
    end = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(end, content)
    os.close(end)


def cut():
    length = chosen.randrange(LARGEST)
    last.append(f"truncate {length}")
    fill(length)
    del model[length:]
    if chosen.random() < 0.5:
        os.ftruncate(fd, length)
    else:
        os.truncate(path, length)


def map_and_read():
    if not model:
        return
    start, length = span(len(model))
    last.append(f"map and read {start} {length}")
    with mmap.mmap(fd, len(model), prot=mmap.PROT_READ) as mapped:
        check("mapped read", mapped[start : start + length], bytes(model[start : start + length]))


def map_and_write():
    if not model:
        return
    start, length = span(len(model))
    last.append(f"map and write {start} {length}")
    content = chosen.randbytes(length)
    model[start : start + length] = content
    with mmap.mmap(fd, len(model)) as mapped:
        mapped[start : start + length] = content
        if chosen.random() < 0.5:
            mapped.flush()


def punch():
    start, length = span(LARGEST)
    mode = chosen.choice(modes)
    last.append(f"fallocate {mode} {start} {length}")
    if libc.fallocate(fd, mode, start, length) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")
    if mode == ZERO_RANGE:
        fill(start + length)
    end = min(start + length, len(model))
    if start < end:
        model[start:end] = bytes(end - start)


def copy_within():
    if len(model) < 2:
        return
    middle = len(model) // 2
    length = chosen.randint(1, min(LONGEST, middle))
    start = chosen.randint(0, middle - length)
    to = chosen.randint(middle, LARGEST - length)
    last.append(f"copy {start} {length} to {to}")
    content = bytes(model[start : start + length])
    fill(to)
    model[to : to + length] = content
    done = 0
    while done < length:
        done += os.copy_file_range(fd, fd, length - done, start + done, to + done)


def forget():
    last.append("forget")
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def reopen():
    global fd
    last.append("close and open")
    os.close(fd)
    fd = os.open(path, os.O_RDWR)


def run():
    kinds = [read] * 30 + [write] * 20 + [append] * 3 + [cut] * 8 + [map_and_read] * 15
    kinds += [map_and_write] * 12 + [punch] * 6 + [copy_within] * 5 + [forget]
    for number in range(operations):
        chosen.choice(kinds)()
        if number % 1_000 == 999:
            reopen()
        size = os.fstat(fd).st_size
        if size != len(model):
            raise SystemExit(f"size {size} in place of {len(model)}\n" + "\n".join(last))
    forget()
    check("the whole", os.pread(fd, LARGEST + 1, 0), bytes(model))
    os.close(fd)


run()
