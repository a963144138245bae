import { join } from 'node:path'
import { execa } from 'execa'

/**
 * Opens, reads, maps and closes a file through many descriptors, while another machine replaces, cuts and extends it.
 * Each version begins with its number. What is open stays the version that it is: by read, by map, also when the
 * descriptor of a map is closed. A later open never finds an older version.
 */
const PROGRAM = `
import errno, mmap, os, random, sys, time
ours, theirs, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
r = random.Random(seed)
versions, files, maps = {}, [], []
newest, seen, opens, replaced = 0, 0, 0, 0

def replace():
    global newest, replaced
    before = versions.get(newest, b'')
    newest += 1
    replaced += 1
    head = b'%015d\\n' % newest
    kind = r.choice(['whole', 'cut', 'append'])
    if kind == 'whole' or len(before) < 32:
        now = head + r.randbytes(r.randrange(0, 300_000))
        fd = os.open(theirs, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(fd, now)
    else:
        fd = os.open(theirs, os.O_RDWR)
        os.pwrite(fd, head, 0)
        if kind == 'cut':
            length = r.randrange(16, len(before) + 1)
            os.ftruncate(fd, length)
            now = head + before[16:length]
        else:
            more = r.randbytes(r.randrange(1, 5000))
            os.pwrite(fd, more, len(before))
            now = head + before[16:] + more
    os.close(fd)
    versions[newest] = now

def check(what, got, wanted, where):
    if got != wanted:
        at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
        sys.exit(f'{what} of {where}: {len(got)} bytes for {len(wanted)}, other from {at} on')

def open_file():
    global seen, opens
    fd = os.open(ours, os.O_RDONLY)
    whole = os.pread(fd, 1_000_000, 0)
    version = int(whole[:15])
    if version < seen: sys.exit(f'version {version} after {seen}')
    seen = version
    opens += 1
    check('open', whole, versions[version], version)
    if os.fstat(fd).st_size != len(whole): sys.exit('fstat tells another size')
    files.append((fd, version))

def close_file():
    if files: os.close(files.pop(r.randrange(len(files)))[0])

def read_some():
    if not files: return
    fd, version = r.choice(files)
    at, length = r.randrange(0, len(versions[version]) + 100), r.choice([1, 100, 4096, 70_000])
    check('read', os.pread(fd, length, at), versions[version][at:at + length], (version, at))

def map_some():
    if not files: return
    fd, version = r.choice(files)
    maps.append((mmap.mmap(fd, len(versions[version]), mmap.MAP_SHARED, mmap.PROT_READ), version))
    if len(maps) > 4: maps.pop(0)[0].close()

def read_map():
    if not maps: return
    m, version = r.choice(maps)
    at = r.randrange(0, len(m))
    check('map', m[at:at + 5000], versions[version][at:at + 5000], (version, at))

def drop():
    if not files: return
    os.posix_fadvise(r.choice(files)[0], 0, 0, os.POSIX_FADV_DONTNEED)

def write():
    try: os.close(os.open(ours, r.choice([os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND])))
    except OSError as e:
        if e.errno == errno.EROFS: return
        raise
    sys.exit('it can be opened for writing')

replace()
# The other machine sees it within the time to live of its listing.
until = time.monotonic() + 30
while not os.path.exists(ours) and time.monotonic() < until: time.sleep(0.01)
for step in range(count):
    choice = r.random()
    if choice < 0.08 and len(files) < 6:
        open_file()
    elif choice < 0.15: close_file()
    elif choice < 0.18: map_some()
    elif choice < 0.19: drop()
    elif choice < 0.195: write()
    elif choice < 0.199 and replaced < count / 100: replace()
    elif choice < 0.4: read_map()
    else: read_some()
print(f'{count} operations, {opens} opens, {replaced} versions')
`

/** Rejects with the first difference. */
export async function readAtRandom(
  drives: { readonly ours: string; readonly theirs: string },
  { count, seed }: { readonly count: number; readonly seed: number },
): Promise<string> {
  const paths = [drives.ours, drives.theirs].map((path) => join(path, 'changing.bin'))
  const args = ['-c', PROGRAM, ...paths, `${count}`, `${seed}`]
  const { exitCode, stdout, stderr } = await execa('python3', args, { reject: false })
  if (exitCode !== 0) throw new Error(`seed ${seed}: ${stderr}`)
  return stdout
}
