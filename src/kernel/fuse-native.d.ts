/** The part of fuse-native 2.2.6 that the bridge uses, as read in its index.js. */
declare module 'fuse-native' {
  namespace Fuse {
    type Reply = (result: number) => void

    interface Stat {
      readonly mode: number
      readonly uid: number
      readonly gid: number
      readonly size: number
      readonly nlink: number
      readonly ino: number
      readonly blksize: number
      readonly blocks: number
      readonly atime: number
      readonly mtime: number
      readonly ctime: number
    }

    interface StatFs {
      readonly bsize: number
      readonly frsize: number
      readonly blocks: number
      readonly bfree: number
      readonly bavail: number
      readonly files: number
      readonly ffree: number
      readonly favail: number
      readonly fsid: number
      readonly flag: number
      readonly namemax: number
    }

    /** Results are 0 or a count; errors are negative errnos. */
    interface PathHandlers {
      init(reply: Reply): void
      statfs(path: string, reply: (result: number, stat?: StatFs) => void): void
      getattr(path: string, reply: (result: number, stat?: Stat) => void): void
      fgetattr(path: string, fd: number, reply: (result: number, stat?: Stat) => void): void
      flush(path: string, fd: number, reply: Reply): void
      fsync(path: string, datasync: number, fd: number, reply: Reply): void
      fsyncdir(path: string, datasync: number, fd: number, reply: Reply): void
      /** With one of its arrays for each name, as PatchedFuse hands them on; fuse-native makes them of stats. */
      readdir(
        path: string,
        reply: (result: number, names?: readonly string[], stats?: readonly Uint32Array[]) => void,
      ): void
      truncate(path: string, size: number, reply: Reply): void
      ftruncate(path: string, fd: number, size: number, reply: Reply): void
      utimens(path: string, atimeMs: number, mtimeMs: number, reply: Reply): void
      readlink(path: string, reply: (result: number, target?: string) => void): void
      chown(path: string, uid: number, gid: number, reply: Reply): void
      chmod(path: string, mode: number, reply: Reply): void
      mknod(path: string, mode: number, device: number, reply: Reply): void
      setxattr(
        path: string,
        name: string,
        value: Buffer,
        position: number,
        flags: number,
        reply: Reply,
      ): void
      getxattr(
        path: string,
        name: string,
        position: number,
        reply: (result: number, value?: Buffer) => void,
      ): void
      listxattr(path: string, reply: (result: number, names?: readonly string[]) => void): void
      removexattr(path: string, name: string, reply: Reply): void
      open(path: string, flags: number, reply: (result: number, fd?: number) => void): void
      read(
        path: string,
        fd: number,
        buffer: Buffer,
        length: number,
        position: number,
        reply: Reply,
      ): void
      write(
        path: string,
        fd: number,
        buffer: Buffer,
        length: number,
        position: number,
        reply: Reply,
      ): void
      release(path: string, fd: number, reply: Reply): void
      create(path: string, mode: number, reply: (result: number, fd?: number) => void): void
      unlink(path: string, reply: Reply): void
      rename(from: string, to: string, reply: Reply): void
      link(from: string, to: string, reply: Reply): void
      symlink(target: string, path: string, reply: Reply): void
      mkdir(path: string, mode: number, reply: Reply): void
      rmdir(path: string, reply: Reply): void
    }

    interface Options {
      readonly timeout?: number | false
      readonly fsname?: string
      readonly subtype?: string
      readonly allowOther?: boolean
      readonly autoCache?: boolean
      readonly defaultPermissions?: boolean
    }
  }

  type NativeHandler = (locals: Buffer, opcode: number, ...values: unknown[]) => void

  class Fuse {
    constructor(mountpoint: string, operations: Partial<Fuse.PathHandlers>, options?: Fuse.Options)
    mount(callback: (error: Error | null) => void): void
    /** Unmounts by `Fuse.unmount` and lets the event loop end. */
    close(callback: (error: Error | null) => void): void
    static unmount: (mountpoint: string, callback: (error: Error | null) => void) => void
    protected _handlers: (NativeHandler | undefined)[]
    protected ops: Partial<Fuse.PathHandlers>
  }

  export = Fuse
}
