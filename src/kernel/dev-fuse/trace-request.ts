import { posix } from 'node:path'
import type { NodeId } from '../../domain/ids.ts'
import type { EndedOperation, OperationTracer } from '../operation-watch.ts'
import type { KernelAnswer } from './answer.ts'
import { changesLength } from './attribute-operations.ts'
import { pathOfNode, type KnownNodes } from './node-paths.ts'
import type { OpcodeName } from './opcodes.ts'
import type { KernelRequest } from './request.ts'
import { MalformedMessage } from './structure.ts'
import { READ_IN, RENAME2_IN, RENAME_IN, SETATTR_IN, WRITE_IN, WRITE_OUT } from './structures.ts'

/** To be told how an operation has ended; without an answer it failed. */
export type RequestTrace = (
  ended: Pick<EndedOperation, 'operation' | 'tookMs' | 'error'>,
  answer: KernelAnswer | undefined,
) => void

/**
 * Notes what an operation is about. To be called before it runs: afterwards the body is the kernel's again, and the node
 * may be gone. The names are those that the operation takes from the body.
 */
export function traceRequest(
  known: KnownNodes,
  tracer: OperationTracer,
  opcode: OpcodeName,
  request: KernelRequest,
): RequestTrace {
  const tell = tracer.began(request.pid === 0 ? undefined : request.pid)
  const path = pathOfNode(known, request.node)
  const { newParent, ...figures } = figuresOf(opcode, request.body)
  const into = newParent === undefined ? undefined : pathOfNode(known, newParent as NodeId)
  return (ended, answer) => {
    const { name, newName } = request
    const to = newName === undefined ? undefined : within(into, newName)
    const bytes = answer === undefined ? undefined : bytesOf(opcode, answer)
    const subject = { path: name === undefined ? path : within(path, name), to, ...figures }
    tell({ ...ended, ...subject, bytes })
  }
}

function within(directory: string | undefined, name: string): string | undefined {
  return directory === undefined ? undefined : posix.join(directory, name)
}

interface Figures {
  readonly offset?: number
  readonly size?: number
  readonly newParent?: number
}

const FIGURES: Partial<Record<OpcodeName, (body: Buffer) => Figures>> = {
  READ: (body) => rangeOf(READ_IN.decode(body)),
  WRITE: (body) => rangeOf(WRITE_IN.decode(body)),
  SETATTR: (body) => {
    const { valid, size } = SETATTR_IN.decode(body)
    return changesLength(valid) ? { size } : {}
  },
  RENAME: (body) => ({ newParent: RENAME_IN.decode(body).newParent }),
  RENAME2: (body) => ({ newParent: RENAME2_IN.decode(body).newParent }),
}

function rangeOf({ offset, size }: { readonly offset: number; readonly size: number }): Figures {
  return { offset, size }
}

/** A body that cannot be read is the operation's to refuse. */
function figuresOf(opcode: OpcodeName, body: Buffer): Figures {
  try {
    return FIGURES[opcode]?.(body) ?? {}
  } catch (error) {
    if (error instanceof MalformedMessage) return {}
    throw error
  }
}

function bytesOf(opcode: OpcodeName, answer: KernelAnswer): number | undefined {
  const [part] = 'parts' in answer ? answer.parts : []
  if (part === undefined) return undefined
  if (opcode === 'READ') return part.length
  return opcode === 'WRITE' ? WRITE_OUT.decode(Buffer.from(part)).size : undefined
}
