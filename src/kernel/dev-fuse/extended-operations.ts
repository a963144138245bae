import { constants } from 'node:os'
import { isOfTheSystem } from '../extended-operations.ts'
import { DONE, type KernelAnswer } from './answer.ts'
import type { Operations, SessionContext } from './context.ts'
import { onNode } from './entries.ts'
import { readTexts } from './request.ts'
import { MalformedMessage } from './structure.ts'
import { GETXATTR_IN, GETXATTR_OUT, SETXATTR_IN } from './structures.ts'

const { errno } = constants

/** XATTR_CREATE and XATTR_REPLACE. */
const MUST: Readonly<Partial<Record<number, 'make' | 'replace'>>> = { 1: 'make', 2: 'replace' }

export function extendedOperations(context: SessionContext): Operations {
  const { drive } = context
  return {
    GETXATTR: async ({ node, body }) => {
      const { size } = GETXATTR_IN.decode(body)
      const [name] = readTexts(body, GETXATTR_IN.size, 1)
      if (isOfTheSystem(name)) return { errno: errno.EOPNOTSUPP }
      const value = await onNode(context, node, (now) => drive.extended.get(now, name))
      return fill(size, value)
    },
    LISTXATTR: async ({ node, body }) => {
      const { size } = GETXATTR_IN.decode(body)
      const names = await onNode(context, node, (now) => drive.extended.list(now))
      return fill(size, Buffer.from(names.map((name) => `${name}\0`).join('')))
    },
    SETXATTR: async ({ node, body }) => {
      const { size, flags } = SETXATTR_IN.decode(body)
      const [name] = readTexts(body, SETXATTR_IN.size, 1)
      const start = body.length - size
      if (start <= SETXATTR_IN.size) throw new MalformedMessage('The value is not all there.')
      const value = Buffer.from(body.subarray(start))
      const must = MUST[flags]
      const how = must === undefined ? {} : { must }
      await onNode(context, node, (now) => drive.extended.set(now, name, value, how))
      return DONE
    },
    REMOVEXATTR: async ({ node, body }) => {
      const [name] = readTexts(body, 0, 1)
      await onNode(context, node, (now) => drive.extended.remove(now, name))
      return DONE
    },
  }
}

/** The value when it fits, its length when only that was asked for, else ERANGE (xattr(7)). */
function fill(room: number, value: Buffer): KernelAnswer {
  if (room === 0) return { parts: [GETXATTR_OUT.encode({ size: value.length })] }
  return value.length > room ? { errno: errno.ERANGE } : { parts: [value] }
}
