import { z } from 'zod'

const optional = <Schema extends z.ZodType>(schema: Schema) => z.exactOptional(schema)

/** What still waits in the outbox while the drive leaves. */
const leavingProgress = z.object({
  /** Intents that the service has not confirmed. */
  waiting: z.number(),
  /** Bytes of staged content that are still to be sent. */
  waitingBytes: z.number(),
  /** Speed of late, once it is known. */
  bytesPerSecond: optional(z.number()),
  /** Why the oldest one waits, when its last try failed. */
  failure: optional(z.string()),
})

/** A line of the answer to `POST /leave`: progress, and at last how it ended. */
export const leavingEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('progress'), progress: leavingProgress }),
  z.object({ type: z.literal('left'), waiting: z.number() }),
  z.object({ type: z.literal('busy'), message: z.string(), hint: optional(z.string()) }),
])

const failure = z.object({
  code: z.string(),
  message: z.string(),
  atMs: z.number(),
  tries: z.number(),
  waitsForUser: z.boolean(),
})

/** A change that the service does not have, or has not confirmed. Times in ms since the epoch. */
export const outboxItem = z.object({
  id: z.string(),
  name: z.string(),
  kind: z.enum(['put', 'delete']),
  phase: z.enum(['held', 'local', 'waiting', 'confirmed']),
  isFolder: optional(z.boolean()),
  bytes: optional(z.number()),
  /** In plain words, as `user.bagfs.state` has them. */
  state: z.string(),
  failure: optional(failure),
  nextTryAtMs: optional(z.number()),
})

/** Content of the trash. Times in ms since the epoch. */
export const trashItem = z.object({
  bagId: z.string(),
  name: z.string(),
  why: z.enum(['deleted', 'replaced']),
  isFolder: z.boolean(),
  length: z.number(),
  deletedAtMs: z.number(),
})

/** The body of what is asked about some changes or items, by ids or names. */
export const wantedItems = z.object({ ids: z.array(z.string()) })

/** The body of what is asked about the content of one change, by its id or name. */
export const wantedContent = z.object({ id: z.string() })

/** The body of what is asked about one item of the trash, by its id or name; `name` is the new one. */
export const wantedRestore = z.object({
  id: z.string(),
  name: optional(z.string()),
  replace: z.boolean(),
})

/** A name of the root that is kept on this machine, see `PinReport` of the drive; the answer to `POST /pin`. */
export const pin = z.object({
  name: z.string(),
  bytes: z.number(),
  hereBytes: z.number(),
  state: z.enum(['here', 'coming', 'waits', 'no-room', 'missing']),
  lacks: optional(z.enum(['cache-size', 'disk'])),
  reason: optional(z.string()),
})

/** The answer to `POST /unpin`. */
export const unpinned = z.object({ name: z.string() })

/** The answer to `GET /status`. */
export const driveStatus = z.object({
  version: z.literal(1),
  mountpoint: z.string(),
  pid: z.number(),
  /** The name of its account here; missing where it was mounted without one, and by earlier versions. */
  profile: optional(z.string()),
  service: z.string(),
  account: z.string(),
  mode: z.enum(['through', 'back', 'read-only']),
  /** What talks to the kernel; a drive of an earlier version does not tell. */
  bridge: optional(z.enum(['fuse-native', 'dev-fuse'])),
  /** Whether the kernel reads cached files by itself, and why not; a drive of an earlier version does not tell. */
  passthrough: optional(z.object({ active: z.boolean(), reason: optional(z.string()) })),
  listing: z.object({
    /** Null while there is none. */
    ageMs: z.number().nullable(),
    records: z.number(),
    lastError: optional(z.object({ code: z.string(), message: z.string(), atMs: z.number() })),
    /** How late it showed what was stored, at most, since the mount; missing before that was seen. Older drives do not tell. */
    lagMs: optional(z.number()),
    /** Whether it has the folder NAME as NAME or as NAME.zip; missing before that was learned. Older drives do not tell. */
    folderNames: optional(z.enum(['plain', 'zipped'])),
  }),
  cache: z.object({
    bytes: z.number(),
    maxBytes: z.number(),
    bags: z.number(),
    /** Reads since the mount: those that it answered, and those that waited for the service. Older drives do not tell. */
    hits: optional(z.number()),
    misses: optional(z.number()),
  }),
  uploads: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      sentBytes: z.number(),
      totalBytes: z.number(),
      percent: z.number(),
    }),
  ),
  downloads: z.array(
    z.object({
      bagId: z.string(),
      name: optional(z.string()),
      receivedBytes: z.number(),
      totalBytes: optional(z.number()),
    }),
  ),
  outbox: z.array(outboxItem),
  /**
   * Names that were changed here and on another machine; `other` is what that machine's version shows as.
   * A drive of an earlier version does not tell.
   */
  conflicts: optional(z.array(z.object({ name: z.string(), other: z.string(), atMs: z.number() }))),
  /**
   * What folders were stored without; without a path all that was not changed here. A drive of an earlier version
   * does not tell.
   */
  leftOut: optional(z.array(z.object({ folder: z.string(), path: optional(z.string()) }))),
  /**
   * Folders that refused changes, because their new version does not fit beside the old one; older
   * drives do not tell.
   */
  refused: optional(
    z.array(z.object({ name: z.string(), neededBytes: z.number(), leftBytes: z.number() })),
  ),
  /**
   * What was deleted or replaced and is kept on this machine; what had to go before its time, and what could not be
   * kept, since it was mounted. A drive of an earlier version does not tell.
   */
  trash: optional(
    z.object({
      items: z.number(),
      bytes: z.number(),
      keptMs: z.number(),
      givenUp: z.number(),
      notKept: z.number(),
    }),
  ),
  /**
   * Bytes of the account as `df` tells them, by what was heard last: `free` is less what waits. Missing before the
   * service has told, and from a drive of an earlier version.
   */
  space: optional(z.object({ capacity: z.number(), free: z.number() })),
  /** Bytes that went to and came from the service since it was mounted; an earlier version does not tell. */
  traffic: optional(z.object({ sentBytes: z.number(), receivedBytes: z.number() })),
  /**
   * Of late, in ms: the mean time of a short request to the service, and of an operation that this machine answers by
   * itself. Missing before the first, and from a drive of an earlier version.
   */
  pace: optional(z.object({ serviceMs: optional(z.number()), driveMs: optional(z.number()) })),
  /** What is pinned, in the order in which it was. A drive of an earlier version does not tell. */
  pins: optional(z.array(pin)),
  /** Directories of changes that could not be read and were set aside; older drives do not tell. */
  damaged: z.array(z.string()).default([]),
  /** What is being written and takes room of the account, the largest first; an earlier version does not tell. */
  room: z.array(z.object({ name: z.string(), bytes: z.number() })).default([]),
})

const list = <Schema extends z.ZodType>(schema: Schema) => z.array(schema).readonly()

/** The answer to `GET /explain`; see `Explanation` of the drive. */
export const explanation = z.object({
  path: z.string(),
  what: z.enum(['drive', 'file', 'folder', 'directory', 'link', 'special', 'made-up', 'missing']),
  state: optional(z.string()),
  bagId: optional(z.string()),
  bytes: optional(z.number()),
  places: list(z.enum(['service', 'cache', 'part-in-cache', 'outbox', 'this-machine', 'trash'])),
  cached: optional(z.object({ bytes: z.number(), isDownloading: z.boolean() })),
  isListed: optional(z.boolean()),
  hasOlder: optional(z.boolean()),
  name: optional(
    z.object({
      service: z.string(),
      why: list(z.enum(['coded', 'cut', 'zip', 'older'])),
      others: list(z.string()),
    }),
  ),
  folder: optional(z.string()),
  changes: list(outboxItem),
  waitsFor: list(outboxItem),
  conflicts: list(z.object({ name: z.string(), other: z.string(), atMs: z.number() })),
  leftOut: list(z.object({ folder: z.string(), path: optional(z.string()) })),
  refused: optional(z.object({ name: z.string(), neededBytes: z.number(), leftBytes: z.number() })),
  inTrash: list(trashItem),
  pin: optional(pin),
  unreadable: optional(z.string()),
  outage: optional(z.string()),
  madeUp: optional(z.enum(['control', 'change', 'trash', 'bags', 'bag', 'volume'])),
})

const unreadable = z.object({ bagId: z.string(), reason: z.string() })

/** What `bagfs cache verify` found. */
export const verifyReport = z.object({
  good: z.number(),
  unknown: z.number(),
  bad: z.array(z.string()),
  unreadable: z.array(unreadable),
})

const problem = { message: z.string(), code: z.string(), hint: optional(z.string()) }

/** Why a request was refused. */
export const refusal = z.object(problem)

/** A line of the answer to `POST /sync`. */
export const syncEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('progress'), waiting: z.number() }),
  /**
   * `left` is what the service does not have all the same, each with its failure; `beingWritten` has the paths of
   * files that programs still write.
   */
  z.object({
    type: z.literal('synced'),
    left: z.array(outboxItem),
    beingWritten: z.array(z.string()).default([]),
  }),
  z.object({ type: z.literal('refused'), ...problem }),
])

const warmUpProgress = z.object({
  bags: z.number(),
  ofBags: z.number(),
  bytes: z.number(),
  ofBytes: z.number(),
})

/** A line of the answer to `POST /warmup`. */
export const warmUpEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('progress'), progress: warmUpProgress }),
  z.object({
    type: z.literal('warm'),
    bags: z.number(),
    bytes: z.number(),
    failed: list(z.object({ name: z.string(), reason: z.string() })),
  }),
  z.object({ type: z.literal('refused'), ...problem }),
])

/** An operation of the drive that has ended, with what is known of it. Offsets and sizes are in bytes. */
const tracedOperation = z.object({
  type: z.literal('operation'),
  /** When it ended, in ms since the epoch. */
  atMs: z.number(),
  operation: z.string(),
  /** From the root of the drive, with a slash before it. */
  path: z.string().optional(),
  /** Where a rename leads. */
  to: z.string().optional(),
  offset: z.number().optional(),
  /** What was asked for, or the length that the file was to get. */
  size: z.number().optional(),
  /** Name of the errno that the program saw; without it the operation succeeded. */
  error: z.string().optional(),
  /** What was read or written. */
  bytes: z.number().optional(),
  tookMs: z.number(),
  /** Of the process that asked, and the name of its program. */
  pid: z.number().optional(),
  program: z.string().optional(),
})

/** A line of the answer to `POST /trace`; `left` is the last one of a drive that leaves. */
export const traceEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('begun') }),
  tracedOperation,
  /** So many operations are not told here, because those before them were not read in time. */
  z.object({ type: z.literal('lost'), count: z.number() }),
  z.object({ type: z.literal('left') }),
])

/** The answer to `POST /refresh`. */
export const refreshed = z.object({ records: z.number() })

/** A line of the answer to `POST /cache/verify`. */
export const verifyEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('progress'), checked: z.number() }),
  z.object({ type: z.literal('verified'), report: verifyReport }),
  z.object({ type: z.literal('refused'), ...problem }),
])

export type LeavingProgress = z.infer<typeof leavingProgress>
export type LeavingEvent = z.infer<typeof leavingEvent>
export type WireItem = z.infer<typeof outboxItem>
export type WirePin = z.infer<typeof pin>
export type WireTrashItem = z.infer<typeof trashItem>

/** Which operations a trace tells: those that all of these hold for. */
export interface TraceFilter {
  /** Names, as the bridge has them; all without any. */
  readonly operations: readonly string[]
  /** What the path begins with, or the path that a rename leads to. */
  readonly path?: string
  /** Of the process that asks, or of its thread. */
  readonly pid?: number
  /** It took longer. */
  readonly slowMs?: number
  /** A process of which nothing is told. */
  readonly without?: number
}

/** How a sync ended. */
export interface Synced {
  /** What could not be sent. */
  readonly left: readonly WireItem[]
  /** Paths of files that programs still write: these are sent when they are closed. */
  readonly beingWritten: readonly string[]
}

export type DriveStatus = z.infer<typeof driveStatus>
export type TracedOperation = z.infer<typeof tracedOperation>
export type TraceEvent = z.infer<typeof traceEvent>
export type WarmUpEvent = z.infer<typeof warmUpEvent>
export type WireWarmUpProgress = z.infer<typeof warmUpProgress>
export type WireWarmedUp = Omit<Extract<WarmUpEvent, { type: 'warm' }>, 'type'>
export type WireExplanation = z.infer<typeof explanation>
export type WireReport = z.infer<typeof verifyReport>
export type Refusal = z.infer<typeof refusal>
export type SyncEvent = z.infer<typeof syncEvent>
export type VerifyEvent = z.infer<typeof verifyEvent>
