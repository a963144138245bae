import { constants } from 'node:os'
import { posix } from 'node:path'
import { deferred } from '../../domain/deferred.ts'
import { DriveError } from '../../domain/errors.ts'
import type { Clock } from '../../domain/clock.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { BridgeDeps, BridgeSettings, PassthroughState } from '../bridge.ts'
import { logFailure } from '../log-failure.ts'
import { OpenDescriptors } from '../open-descriptors.ts'
import type { KernelAnswer } from './answer.ts'
import type { BackingFiles } from './backing-files.ts'
import type { ShareRange } from '../../drive/tree/share-range.ts'
import type { SeekExtent } from './libc.ts'
import type { Channel } from './channel.ts'
import type { Operations } from './context.ts'
import { DirectoryHandles } from './directory-handles.ts'
import { NodeIds } from './node-ids.ts'
import { pathOfNode, type KnownNodes } from './node-paths.ts'
import { encodeAnswer, encodeRefusal } from './encode-reply.ts'
import { heldDirectories } from './held-directories.ts'
import { isToStop } from './is-to-stop.ts'
import { Lookups } from './lookups.ts'
import { isNegotiated, knowsExpiry, negotiate } from './negotiation.ts'
import { Notices } from './notices.ts'
import { opcodeName, type OpcodeName } from './opcodes.ts'
import { OpenHandles } from './open-handles.ts'
import { allOperations } from './operations.ts'
import { Passthrough, whyNoPassthrough } from './passthrough.ts'
import { ReadBuffers } from './read-buffers.ts'
import { parseRequest, uniqueOf, type KernelRequest } from './request.ts'
import { MalformedMessage } from './structure.ts'
import { BATCH_FORGET_IN, FORGET_IN, FORGET_ONE, INTERRUPT_IN } from './structures.ts'
import { KernelTrust } from './trust.ts'
import { traceRequest } from './trace-request.ts'
import { WaitingRequests } from './waiting-requests.ts'
import { watchedOperations } from './watched-operations.ts'

const { errno } = constants

export interface SessionDeps extends BridgeDeps {
  readonly channel: Channel
  readonly clock: Clock
  readonly backingFiles: BackingFiles
  readonly seek: SeekExtent
  readonly share: ShareRange
  readonly isToStop?: (pid: number) => boolean
}

/** A request as the log has it, with the path that it is about, where it is about one. */
interface Logged {
  readonly operation: string
  readonly path?: string
}

/** One mount's talk with the kernel: takes its messages, and gives each request exactly one answer. */
export class Session {
  readonly #deps: SessionDeps
  readonly #operations: Operations
  readonly #ids = new NodeIds()
  readonly #lookups = new Lookups(this.#ids)
  readonly #handles = new OpenHandles()
  readonly #passthrough: Passthrough
  readonly #notices: Notices
  readonly #trust: KernelTrust
  readonly #waiting: WaitingRequests
  readonly #ready = deferred()
  #isReady = false

  constructor(deps: SessionDeps, settings: BridgeSettings) {
    const { drive, log, clock, channel, watch, backingFiles, seek, share } = deps
    this.#deps = deps
    const reason = whyNoPassthrough(settings)
    this.#passthrough = new Passthrough(
      log,
      reason === undefined ? { files: backingFiles } : { reason },
    )
    this.#waiting = new WaitingRequests({
      clock,
      isToStop: deps.isToStop ?? isToStop,
      onGivenUp: (unique) => {
        channel.answer(encodeRefusal(unique, errno.EINTR))
        this.#notices.goOn()
      },
    })
    const isHeld = (directory: NodeId): boolean => this.#waiting.hold(directory)
    this.#notices = new Notices({ channel, clock, log, isHeld })
    const known = {
      drive,
      log,
      clock,
      lookups: this.#lookups,
      ids: this.#ids,
      handles: this.#handles,
      notices: this.#notices,
    }
    this.#trust = new KernelTrust(known)
    const operations = allOperations({
      ...known,
      settings,
      seek,
      share,
      trust: this.#trust,
      passthrough: this.#passthrough,
      directories: new DirectoryHandles(),
      buffers: new ReadBuffers(),
      descriptors: new OpenDescriptors({ clock }),
    })
    this.#operations =
      watch === undefined
        ? operations
        : watchedOperations(operations, watch, (...asked) => traceRequest(this.#known, ...asked))
  }

  get #known(): KnownNodes {
    return { drive: this.#deps.drive, ids: this.#ids, lookups: this.#lookups }
  }

  /** Resolves when the kernel and this agree on a version; rejects `usage` when they cannot. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  get passthrough(): PassthroughState {
    return this.#passthrough.state
  }

  /** Nodes that the kernel knows, those of them that are open, and requests that wait. */
  get load(): { readonly nodes: number; readonly open: number; readonly waiting: number } {
    return { nodes: this.#lookups.size, open: this.#handles.size, waiting: this.#waiting.size }
  }

  /** Takes a message, which is the kernel's again when this returns. */
  receive(message: Buffer): void {
    try {
      this.#take(parseRequest(message))
    } catch (error) {
      const unique = uniqueOf(message)
      this.#noteMalformed({ operation: 'unknown' }, error)
      if (unique !== undefined) this.#refuse(unique, errno.EIO)
    }
  }

  #take(request: KernelRequest): void {
    const { opcode, unique, body } = request
    const operation = opcodeName(opcode)
    if (operation === undefined) {
      this.#deps.log.warn({ opcode }, 'An operation of the kernel that is not known.')
      this.#refuse(unique, errno.ENOSYS)
      return
    }
    try {
      if (this.#takeUnanswered(operation, request)) return
    } catch (error) {
      this.#noteMalformed(this.#logged(operation, request), error)
      return
    }
    if (this.#waiting.has(unique)) {
      this.#deps.log.warn({ operation }, 'A request that has the number of another one.')
      return
    }
    if (operation === 'INIT') this.#run(request, operation, () => this.#begin(body))
    else if (!this.#isReady) this.#refuse(unique, errno.EIO)
    else this.#run(request, operation, this.#operations[operation])
  }

  /** What the kernel expects no answer to; false for all else. */
  #takeUnanswered(operation: OpcodeName, { node, body }: KernelRequest): boolean {
    switch (operation) {
      case 'FORGET':
        this.#forget(node, FORGET_IN.decode(body).lookups)
        return true
      case 'BATCH_FORGET':
        this.#forgetMany(body)
        return true
      case 'INTERRUPT':
        INTERRUPT_IN.decode(body)
        this.#waiting.interrupt(body.readBigUInt64LE())
        return true
      case 'NOTIFY_REPLY':
        throw new MalformedMessage('Nothing of the kernel was asked for.')
      default:
        return false
    }
  }

  #forgetMany(body: Buffer): void {
    const { count } = BATCH_FORGET_IN.decode(body)
    for (let index = 0; index < count; index += 1) {
      const one = FORGET_ONE.decode(body, BATCH_FORGET_IN.size + index * FORGET_ONE.size)
      this.#forget(one.node as NodeId, one.lookups)
    }
  }

  #forget(node: NodeId, lookups: number): void {
    if (this.#lookups.forget(node, lookups)) this.#trust.forgetDirectory(node)
  }

  #begin(body: Buffer): KernelAnswer {
    const agreed = negotiate(body, { passthrough: this.#passthrough.isWanted })
    if (agreed === undefined) {
      this.#ready.reject(
        new DriveError('usage', 'This kernel is too old for --bridge dev-fuse.', {
          hint: 'It needs Linux 5.4 or newer. Use --bridge fuse-native.',
        }),
      )
      return { errno: errno.EPROTO }
    }
    if (!isNegotiated(body)) return { parts: [agreed.answer] }
    this.#notices.mayExpire = knowsExpiry(body)
    const onDelivered = (): void => {
      this.#isReady = true
      this.#passthrough.agreed(agreed.hasPassthrough)
      this.#ready.resolve()
    }
    return { parts: [agreed.answer], onDelivered }
  }

  #run(
    request: KernelRequest,
    operation: OpcodeName,
    task: ((request: KernelRequest) => KernelAnswer | Promise<KernelAnswer>) | undefined,
  ): void {
    const { unique } = request
    if (task === undefined) {
      this.#deps.log.debug({ operation }, 'This is left to the kernel.')
      this.#refuse(unique, errno.ENOSYS)
      return
    }
    let answer: KernelAnswer | Promise<KernelAnswer>
    try {
      answer = task(request)
    } catch (error) {
      answer = this.#failure(this.#logged(operation, request), error)
    }
    if (answer instanceof Promise) this.#answerLater(request, operation, answer)
    else this.#answer(unique, answer)
  }

  #answerLater(request: KernelRequest, operation: OpcodeName, later: Promise<KernelAnswer>): void {
    const directories = heldDirectories(this.#lookups, operation, request)
    const waiting = this.#waiting.add({ ...request, directories })
    later
      .catch((error: unknown) => this.#failure(this.#logged(operation, request), error))
      .then((answer) => {
        this.#logRefusal(operation, request, answer)
        if (this.#waiting.take(waiting)) this.#answer(waiting.unique, answer)
        else if (!('errno' in answer)) answer.onLost?.()
        this.#notices.goOn()
      })
      .catch((error: unknown) => {
        logFailure(this.#deps.log, { ...this.#logged(operation, request) }, error)
      })
  }

  #logRefusal(operation: OpcodeName, request: KernelRequest, answer: KernelAnswer): void {
    if ('errno' in answer || answer.standsFor === undefined) return
    logFailure(this.#deps.log, { ...this.#logged(operation, request) }, answer.standsFor)
  }

  #answer(unique: bigint, answer: KernelAnswer): void {
    if ('errno' in answer) {
      this.#refuse(unique, answer.errno)
      return
    }
    const isDelivered = this.#deps.channel.answer(encodeAnswer(unique, answer.parts))
    if (isDelivered) answer.onDelivered?.()
    else answer.onLost?.()
  }

  #refuse(unique: bigint, code: number): void {
    this.#deps.channel.answer(encodeRefusal(unique, code))
  }

  #logged(operation: OpcodeName, { node, name }: KernelRequest): Logged {
    const named = { operation: operation.toLowerCase() }
    const path = pathOfNode(this.#known, node)
    if (path === undefined) return named
    return { ...named, path: name === undefined ? path : posix.join(path, name) }
  }

  #failure(logged: Logged, error: unknown): KernelAnswer {
    if (error instanceof MalformedMessage) {
      this.#noteMalformed(logged, error)
      return { errno: errno.EIO }
    }
    return { errno: logFailure(this.#deps.log, { ...logged }, error) }
  }

  #noteMalformed(logged: Logged, error: unknown): void {
    if (error instanceof MalformedMessage) {
      this.#deps.log.warn({ ...logged }, `A message that cannot be read: ${error.message}`)
    } else {
      logFailure(this.#deps.log, { ...logged }, error)
    }
  }
}
