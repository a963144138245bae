import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OPCODES } from '../../../../src/kernel/dev-fuse/opcodes.ts'
import { MalformedMessage, Structure } from '../../../../src/kernel/dev-fuse/structure.ts'
import * as wire from '../../../../src/kernel/dev-fuse/structures.ts'

/** Sizes in bytes of the structures in the kernel's header; INIT_IN is the beginning of one that has grown. */
const SIZES: Readonly<Record<string, number>> = {
  IN_HEADER: 40,
  OUT_HEADER: 16,
  ENTRY_OUT: 128,
  ATTR_OUT: 104,
  INIT_IN: 16,
  INIT_IN_MORE: 4,
  INIT_OUT: 64,
  FORGET_IN: 8,
  BATCH_FORGET_IN: 8,
  FORGET_ONE: 16,
  GETATTR_IN: 16,
  SETATTR_IN: 88,
  MKNOD_IN: 16,
  MKDIR_IN: 8,
  RENAME_IN: 8,
  RENAME2_IN: 16,
  LINK_IN: 8,
  OPEN_IN: 8,
  CREATE_IN: 16,
  OPEN_OUT: 16,
  BACKING_MAP: 16,
  CLONE_RANGE: 32,
  RELEASE_IN: 24,
  FLUSH_IN: 24,
  FSYNC_IN: 16,
  READ_IN: 40,
  WRITE_IN: 40,
  WRITE_OUT: 8,
  FALLOCATE_IN: 32,
  COPY_FILE_RANGE_IN: 56,
  COPY_FILE_RANGE_OUT: 8,
  LSEEK_IN: 24,
  LSEEK_OUT: 8,
  STATFS_OUT: 80,
  SETXATTR_IN: 8,
  GETXATTR_IN: 8,
  GETXATTR_OUT: 8,
  INTERRUPT_IN: 8,
  DIRENT: 24,
  NOTIFY_INVAL_ENTRY: 16,
  NOTIFY_INVAL_INODE: 24,
}

const structures = Object.entries(wire).filter(
  (each): each is [string, Structure<Record<string, 'u32'>>] => each[1] instanceof Structure,
)

describe('the structures of the protocol', () => {
  it('are all as long as the kernel has them', () => {
    expect(Object.fromEntries(structures.map(([name, { size }]) => [name, size]))).toEqual(SIZES)
  })

  it.each(structures)(
    '%s comes back as it was, and touches nothing beside it',
    (_name, structure) => {
      const names = Object.keys(structure.decode(Buffer.alloc(structure.size)))
      const values = fc.record(
        Object.fromEntries(names.map((name) => [name, fc.integer({ min: 0, max: 0xffff })])),
      )
      fc.assert(
        fc.property(values, fc.integer({ min: 0, max: 9 }), (given, start) => {
          const bytes = Buffer.alloc(start + structure.size + 4, 0xee)
          bytes.fill(0, start, start + structure.size)
          structure.encodeInto(given, bytes, start)
          expect(structure.decode(bytes, start)).toEqual(given)
          const around = [bytes.subarray(0, start), bytes.subarray(start + structure.size)]
          expect(Buffer.concat(around)).toEqual(Buffer.alloc(start + 4, 0xee))
        }),
      )
    },
  )

  it.each(structures)(
    '%s is not read where the message ends before it does',
    (_name, structure) => {
      expect(() => structure.decode(Buffer.alloc(structure.size - 1))).toThrow(MalformedMessage)
      expect(() => structure.decode(Buffer.alloc(structure.size), 1)).toThrow(MalformedMessage)
    },
  )

  it('carry wide numbers, negative ones too', () => {
    const wide = new Structure({ one: 'u64', other: 'i64' })
    const numbers = fc.record({
      one: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
      other: fc.integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }),
    })
    fc.assert(
      fc.property(numbers, (values) => {
        const bytes = wide.encode(values)
        expect(wide.decode(bytes)).toEqual(values)
        expect(bytes.readBigUInt64LE(0)).toBe(BigInt(values.one))
        expect(bytes.readBigInt64LE(8)).toBe(BigInt(values.other))
      }),
    )
  })

  it('have the fields where the kernel has them', () => {
    const bytes = Buffer.from(Uint8Array.from({ length: 128 }, (_, index) => index))
    const at = (offset: number): number => bytes.readUInt32LE(offset)
    expect(wire.IN_HEADER.decode(bytes)).toMatchObject({ opcode: at(4), uid: at(24), pid: at(32) })
    expect(wire.ENTRY_OUT.decode(bytes)).toMatchObject({
      entryValidNs: at(32),
      mode: at(100),
      nlink: at(104),
      blksize: at(120),
    })
    expect(wire.SETATTR_IN.decode(bytes)).toMatchObject({
      atimeNs: at(56),
      mode: at(68),
      uid: at(76),
    })
    expect(wire.INIT_OUT.decode(bytes)).toMatchObject({
      maxWrite: at(20),
      timeGranularityNs: at(24),
      flags2: at(32),
      maxStackDepth: at(36),
    })
    expect(wire.OPEN_OUT.decode(bytes)).toMatchObject({ flags: at(8), backingId: at(12) })
    expect(wire.STATFS_OUT.decode(bytes)).toMatchObject({ bsize: at(40), frsize: at(48) })
    expect(wire.READ_IN.decode(bytes)).toMatchObject({ size: at(16), flags: at(32) })
  })
})

const HEADER = '/usr/include/linux/fuse.h'

describe.runIf(existsSync(HEADER))('the operations', () => {
  it('have the numbers of the header of this machine', () => {
    const text = readFileSync(HEADER, 'utf8')
    const [, list = ''] = /enum fuse_opcode \{(.*?)\};/s.exec(text) ?? []
    const known: Readonly<Record<string, number>> = OPCODES
    const found = Array.from(list.matchAll(/\bFUSE_(\w+)\s*=\s*(\d+)/g), ([, name, number]) => ({
      name: name ?? '',
      number: Number(number),
    })).filter(({ name }) => name in known)
    expect(found.length).toBeGreaterThan(40)
    for (const { name, number } of found)
      expect({ name, number }).toEqual({ name, number: known[name] })
  })
})
