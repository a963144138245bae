import { checkEncoding, checkTypedName } from '../../domain/names.ts'
import type { NodeId } from '../../domain/ids.ts'
import { IN_HEADER, UNIQUE_AT } from './structures.ts'
import { MalformedMessage } from './structure.ts'

/** What a message needs to have for an answer to find its request. */
const ANSWERABLE_BYTES = UNIQUE_AT + 8

/** A question of the kernel. */
export interface KernelRequest {
  readonly opcode: number
  /** Its number, which the answer carries. */
  readonly unique: bigint
  readonly node: NodeId
  /** The thread that asks; 0 when it is in no namespace of ours. */
  readonly pid: number
  /** The user that asks. */
  readonly uid: number
  readonly gid: number
  /** What follows the header. It is the kernel's again once the operation has returned: what is kept is copied. */
  readonly body: Buffer
  /** A name in the directory `node` that the operation is about, once it has taken it from the body: for the log and for traces. */
  name: string | undefined
  /** The other name of an operation that has two, such as the new one of a rename. */
  newName: string | undefined
}

/** The number of a message that is long enough to have one. */
export function uniqueOf(message: Buffer): bigint | undefined {
  return message.length < ANSWERABLE_BYTES ? undefined : message.readBigUInt64LE(UNIQUE_AT)
}

/** Takes a message apart; throws `MalformedMessage`. */
export function parseRequest(message: Buffer): KernelRequest {
  const { length, opcode, node, pid, uid, gid } = IN_HEADER.decode(message)
  if (length !== message.length) {
    throw new MalformedMessage(`The message has ${message.length} bytes and says ${length}.`)
  }
  return {
    opcode,
    unique: message.readBigUInt64LE(UNIQUE_AT),
    node: node as NodeId,
    pid,
    uid,
    gid,
    body: message.subarray(IN_HEADER.size),
    name: undefined,
    newName: undefined,
  }
}

/** The texts of a body, each ended by NUL; throws `MalformedMessage` when there are fewer, `bad-encoding` for what is not UTF-8. */
export function readTexts<Count extends 1 | 2>(
  body: Buffer,
  start: number,
  count: Count,
): Count extends 1 ? readonly [string] : readonly [string, string] {
  const texts: string[] = []
  let at = start
  while (texts.length < count) {
    const end = body.indexOf(0, at)
    if (end <= at) throw new MalformedMessage('A name is empty or has no end.')
    const text = body.toString('utf8', at, end)
    checkEncoding(text)
    texts.push(text)
    at = end + 1
  }
  return texts as unknown as Count extends 1 ? readonly [string] : readonly [string, string]
}

/**
 * As `readTexts`: names in directories, the first of them in the one that the request has. Throws `name-too-long`, too,
 * and `bad-name` for what the kernel never asks for.
 */
export function readNames<Count extends 1 | 2>(
  request: KernelRequest,
  start: number,
  count: Count,
): Count extends 1 ? readonly [string] : readonly [string, string] {
  const names = readTexts(request.body, start, count)
  request.name = names[0]
  request.newName = names[1]
  for (const name of names) checkTypedName(name)
  return names
}
