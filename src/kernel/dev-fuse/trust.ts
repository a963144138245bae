import type { Clock } from '../../domain/clock.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import { inTurns } from '../../domain/turns.ts'
import type { Drive } from '../../drive/drive.ts'
import type { Attributes } from '../../drive/tree/attributes.ts'
import type { NewsListener } from '../../drive/tree/news.ts'
import { ROOT } from '../../drive/tree/nodes.ts'
import { digestOf } from './digest.ts'
import { NOT_TRUSTED, OF_KERNEL, type Lookups } from './lookups.ts'
import type { NodeIds, NamePlace } from './node-ids.ts'
import type { Notices } from './notices.ts'
import type { OpenHandles } from './open-handles.ts'

/** How long the kernel may go by what the news do not tell of, in ms: as long as libfuse has it. */
const UNTOLD_MS = 1_000
/** A thread of the kernel may be this late to take up an answer, in ms: then it comes behind a notice that followed it. */
const LATE_MS = [100, 1_000]
/** How long an answer waits for the kernel to hear of what changed before it, in ms. */
const HEARING_MS = 50
/** Names that are looked at between two looks at the clock. */
const NAMES_PER_LOOK = 64

interface TrustDeps {
  readonly drive: Drive
  readonly lookups: Lookups
  readonly ids: NodeIds
  readonly handles: OpenHandles
  readonly notices: Notices
  readonly clock: Clock
  readonly log: Logger
}

/**
 * What the kernel may go by without asking, and for how long. The drive tells what may be other than before; that is
 * compared with what the kernel was told, and where it differs the kernel is told to forget it.
 */
export class KernelTrust implements NewsListener {
  readonly #deps: TrustDeps
  readonly #names = new Set<string>()
  #isAll = false
  #looking: Promise<void> | undefined
  #isScheduled = false
  /** Counts what may have changed the names of the root. */
  #rootVersion = 0
  /** Whether the kernel may go by attributes, or names, that it has of the root. */
  #isRootTold = false
  /** Of directories: of when the kernel has the names, and until when it goes by what they lead to; `forgetDirectory` removes. */
  readonly #directories = new Map<NodeId, { readonly version: string; readonly untilMs: number }>()

  constructor(deps: TrustDeps) {
    this.#deps = deps
    deps.drive.now.listen(this)
  }

  root(): void {
    this.#isAll = true
    this.#noteRoot()
  }

  names(names: Iterable<string>): void {
    for (const name of names) this.#names.add(name)
    this.#noteRoot()
  }

  content(node: NodeId): void {
    const { ids, clock } = this.#deps
    this.#forgetAttributes(ids.inKernel(node), clock.now())
  }

  inside(top: NodeId): void {
    this.#forgetInside(this.#deps.ids.inKernel(top))
  }

  #noteRoot(): void {
    this.#rootVersion += 1
    if (this.#isScheduled) return
    this.#isScheduled = true
    // Once for all that comes in one go. What is being answered now is told by then, and compared.
    setImmediate(() => {
      this.#look()
    })
  }

  /** How long the kernel may go by what it is told of a node of the drive under a name, in ms. */
  ofEntry({ node }: Attributes, { parent, name }: NamePlace): number {
    const { drive } = this.#deps
    return drive.now.isSteady(node, parent === ROOT ? name : undefined) ? this.#ms() : UNTOLD_MS
  }

  /** True for a time that is trusted because the news tell of changes. */
  isTold(ms: number): boolean {
    return ms > UNTOLD_MS
  }

  /** How long the kernel may go by attributes of a node that it asks for, in ms: changes are found by its name. */
  ofAttributes(node: NodeId): number {
    const { drive, lookups, ids } = this.#deps
    if (node === ROOT) {
      this.#isRootTold = true
      return this.#ms()
    }
    const isTold = lookups.told(node)?.isNameTrusted === true
    return isTold && drive.now.isSteady(ids.inDrive(node)) ? this.#ms() : UNTOLD_MS
  }

  #ms(): number {
    return Math.max(UNTOLD_MS, this.#deps.drive.now.trust())
  }

  /** The kernel has moved a name itself. What the drive has there may be other than what it moved. */
  noteMoved(place: NamePlace): void {
    this.#deps.notices.takeBack(place)
    if (place.parent === ROOT) this.names([place.name])
  }

  /** These names have changed, and the kernel has not heard of it: it gave the request up that changed them. */
  noteUnheard(places: readonly NamePlace[]): void {
    const { lookups } = this.#deps
    for (const place of places) {
      const node = lookups.at(place)
      const isDirectory = node !== undefined && lookups.nameOf(node)?.kind === 'directory'
      if (node !== undefined) this.#forgetName(place, node, isDirectory)
      this.#forgetNames(place.parent)
    }
    this.#noteRoot()
  }

  /** How long the kernel may go by the absence of a name, in ms; 0 for not at all. It is not told when that ends. */
  ofAbsence({ parent, name }: NamePlace): number {
    const { drive, ids } = this.#deps
    return Math.min(UNTOLD_MS, drive.now.ofAbsence(ids.inDrive(parent), name))
  }

  /** What the names of a directory are of; undefined where the kernel is not to keep them. */
  directoryVersion(node: NodeId): string | undefined {
    const { drive, ids } = this.#deps
    const version = drive.now.directoryVersion(ids.inDrive(node))
    return node === ROOT ? `${this.#rootVersion}` : version
  }

  /** The kernel reads the names of a directory from the beginning, and may keep them. */
  noteRead(node: NodeId, version: string | undefined): void {
    if (node === ROOT) this.#isRootTold = true
    if (version === undefined) this.#directories.delete(node)
    else this.#directories.set(node, { version, untilMs: this.#deps.clock.now() + this.#ms() })
  }

  /**
   * True when the kernel may go on with the names that it has of a directory: they are those of now, and it knows what they
   * lead to. Else it would ask for each by itself, and of all at once where it reads the names anew.
   */
  hasNames(node: NodeId): boolean {
    const { drive, clock } = this.#deps
    const known = this.#directories.get(node)
    if (known === undefined || known.untilMs <= clock.now()) return false
    // The kernel's clock may have stood still while the machine slept.
    return drive.now.isFresh() && known.version === this.directoryVersion(node)
  }

  /** The kernel knows the node no more, or has names of it without what they lead to. */
  forgetDirectory(node: NodeId): void {
    this.#directories.delete(node)
  }

  /**
   * Resolves when the kernel has heard of all that has changed, or after a moment. Undefined when it has. For requests
   * that hold no directory: a notice may wait for those that do.
   */
  heard(): Promise<void> | undefined {
    if (this.#isScheduled) this.#look()
    return this.#deps.notices.isQuiet ? undefined : this.#deps.notices.heard(HEARING_MS)
  }

  #look(): void {
    this.#isScheduled = false
    const { drive, notices } = this.#deps
    for (const top of drive.now.outdated()) this.inside(top)
    if (this.#isRootTold) notices.forgetDirectory(ROOT)
    this.#isRootTold = false
    if (this.#isAll) {
      this.#lookAtAll()
      return
    }
    const names = [...this.#names]
    this.#names.clear()
    for (const name of names) for (const other of drive.now.related(name)) this.#check(other)
    for (const name of names) this.#check(name)
  }

  #lookAtAll(): void {
    this.#looking ??= inTurns(this.#checkAll(), NAMES_PER_LOOK)
      .catch((error: unknown) => {
        this.#deps.log.error({ error: String(error) }, 'The kernel may go by what has changed.')
      })
      .finally(() => {
        this.#looking = undefined
        if (this.#isAll) this.#lookAtAll()
      })
  }

  *#checkAll(): Generator<undefined, void> {
    this.#isAll = false
    this.#names.clear()
    for (const name of [...this.#deps.lookups.namesIn(ROOT)]) {
      this.#check(name)
      yield
    }
  }

  /** Compares what the kernel was told of a name of the root with what it means now. */
  #check(name: string): void {
    const place = { parent: ROOT, name }
    const node = this.#deps.lookups.at(place)
    if (node === undefined) return
    const now = this.#deps.drive.now.named(name)
    this.#checkNode(place, node, now === 'unknown' ? undefined : now)
  }

  #checkNode(place: NamePlace, node: NodeId, now: Attributes | undefined): void {
    const { ids, lookups } = this.#deps
    const known = lookups.nameOf(node)
    if (known === undefined || lookups.told(node)?.isNameTrusted !== true) return
    const isSame = now !== undefined && ids.inKernel(now.node) === node
    if (!isSame) this.#forgetName(place, node)
    else if (now.kind === known.kind) this.#checkAttributes(node, now)
    // What was a folder is one again once it is looked at, or is found to be none by its attributes.
    else this.#forgetName(place, node, now.kind === 'directory')
  }

  #checkAttributes(node: NodeId, now: Attributes): void {
    const { lookups, handles } = this.#deps
    const told = lookups.told(node)
    if (told === undefined || told.digest === NOT_TRUSTED || told.digest === digestOf(now)) return
    // What is written through the kernel is known to it.
    if (told.digest === OF_KERNEL && handles.of(node) !== undefined) return
    this.#forgetAttributes(node, told.atMs)
  }

  #forgetAttributes(node: NodeId, atMs: number): void {
    const { lookups, notices, handles, log } = this.#deps
    const forget = (): void => {
      notices.forgetAttributes(node).catch((error: unknown) => {
        log.warn({ error: String(error) }, 'The kernel takes no notice.')
      })
    }
    lookups.tell(node, { digest: NOT_TRUSTED, atMs })
    forget()
    this.#ifLate(atMs, () => {
      // A program that has it open reads by the size that the kernel asks for: a notice on the way has the answer refused.
      // What came before a notice the kernel refuses by itself, since it has the node.
      const isOpen = handles.of(node) !== undefined
      if (!isOpen && lookups.told(node)?.digest === NOT_TRUSTED) forget()
    })
  }

  /**
   * The kernel goes by a name that leads to something else, and is not told so: that takes a lock. It is made to ask for the
   * attributes, and told `stale` then, which has it look for the name. So it is for `open` anyway. Only while the file is
   * open its attributes are to be had, and nothing below a file is asked for: then the kernel is told.
   */
  #forgetName(place: NamePlace, node: NodeId, isFolderNow = false): void {
    const { lookups, notices, handles } = this.#deps
    this.#forgetAttributes(node, lookups.told(node)?.atMs ?? 0)
    lookups.noteWrongName(node)
    if (isFolderNow || handles.of(node) !== undefined) notices.forgetName(place)
  }

  /** Once more, soon and later, for an answer that the kernel may not have taken up yet. */
  #ifLate(atMs: number, again: () => void): void {
    const { clock } = this.#deps
    const sinceMs = clock.now() - atMs
    for (const ms of LATE_MS) if (sinceMs < ms) clock.after(ms, again)
  }

  /** All names below a directory may lead to others. */
  #forgetInside(top: NodeId): void {
    const { lookups } = this.#deps
    this.#forgetNames(top)
    for (const node of lookups.below(top)) {
      const known = lookups.nameOf(node)
      if (known === undefined) continue
      if (known.kind === 'directory') this.#forgetNames(node)
      if (lookups.told(node)?.isNameTrusted !== true) continue
      this.#forgetName({ parent: known.parent, name: known.name }, node)
    }
  }

  /** The names of a directory that the kernel has read. */
  #forgetNames(directory: NodeId): void {
    if (this.#directories.delete(directory)) this.#deps.notices.forgetDirectory(directory)
  }
}
