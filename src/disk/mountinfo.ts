/** A mounted file system, from `/proc/self/mountinfo` (proc(5)). */
export interface Mount {
  /** As in the `mnt_id` of `/proc/PID/fdinfo`. */
  readonly id: number
  /** The device number of the file system, as `/sys/class/bdi` names it: `0:52`. */
  readonly device: string
  readonly mountpoint: string
  /** Kind of file system, such as `ext4` or `fuse.sshfs`. */
  readonly type: string
  /** What is mounted, such as `/dev/sda1` or `bagfs`. */
  readonly source: string
  /** The user whose process answers, of a FUSE mount. */
  readonly uid?: number
}

/** Reads the kernel's table of mounts; of several on one directory the last one is the one that shows. */
export function parseMountinfo(text: string): readonly Mount[] {
  return text.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const [id, , device = '', , mountpoint] = before.split(' ')
    const [type = '', source = '', options = ''] = after.split(' ')
    const uid = /(?:^|,)user_id=(\d+)/.exec(options)?.[1]
    return mountpoint === undefined
      ? []
      : [
          {
            id: Number(id),
            device,
            mountpoint: decode(mountpoint),
            type,
            source: decode(source),
            ...(uid === undefined ? {} : { uid: Number(uid) }),
          },
        ]
  })
}

/** The kernel writes blanks, tabs, line ends and backslashes in octal. */
function decode(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_whole, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )
}
