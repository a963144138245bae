import { Registry } from 'prom-client'
import type { DriveStatus } from '../control/protocol.ts'
import { isOwed } from '../control/status.ts'
import type { DriveErrorCode } from '../domain/errors.ts'
import type { OperationWatch } from '../kernel/operation-watch.ts'
import type { Endpoint, WireMeter } from '../service/wire-meter.ts'
import { MeanTime } from './mean-time.ts'
import { makeMetrics, type MadeMetrics } from './table.ts'

/** Those that move no content; the time of an upload tells nothing of who is slow. */
const SHORT_REQUESTS: ReadonlySet<Endpoint> = new Set(['account', 'delete', 'import', 'list'])
/** Those that wait neither for content nor for the service to have stored it. */
const LOCAL_OPERATIONS: ReadonlySet<string> = new Set([
  'getattr',
  'readdir',
  'readdirplus',
  'write',
])

/**
 * The figures of one drive. What passes by is counted as it passes; what there is, is looked up in the drive's
 * status when the figures are asked for.
 */
export class Metrics implements OperationWatch, WireMeter {
  readonly #registry = new Registry()
  readonly #made: MadeMetrics = makeMetrics(this.#registry)
  #sentBytes = 0
  #receivedBytes = 0
  readonly #serviceTime = new MeanTime()
  readonly #driveTime = new MeanTime()

  get contentType(): string {
    return this.#registry.contentType
  }

  ended(operation: string, tookMs: number, error: string | undefined): void {
    this.#made.bagfs_operation_duration_seconds.observe({ operation }, tookMs / 1000)
    if (LOCAL_OPERATIONS.has(operation)) this.#driveTime.note(tookMs)
    if (error !== undefined) this.#made.bagfs_operation_errors_total.inc({ operation, error })
  }

  /** Bytes of all requests and answers, for the drive's status. */
  traffic(): NonNullable<DriveStatus['traffic']> {
    return { sentBytes: this.#sentBytes, receivedBytes: this.#receivedBytes }
  }

  /** How long the service and this machine take of late, for the drive's status. */
  pace(): NonNullable<DriveStatus['pace']> {
    const [serviceMs, driveMs] = [this.#serviceTime.ms, this.#driveTime.ms]
    return {
      ...(serviceMs === undefined ? {} : { serviceMs }),
      ...(driveMs === undefined ? {} : { driveMs }),
    }
  }

  sent(endpoint: Endpoint, bytes: number): void {
    this.#sentBytes += bytes
    this.#made.bagfs_service_sent_bytes_total.inc({ endpoint }, bytes)
  }

  received(endpoint: Endpoint, bytes: number): void {
    this.#receivedBytes += bytes
    this.#made.bagfs_service_received_bytes_total.inc({ endpoint }, bytes)
  }

  answered(endpoint: Endpoint, status: string, tookMs: number): void {
    this.#made.bagfs_service_requests_total.inc({ endpoint, status })
    this.#made.bagfs_service_request_duration_seconds.observe({ endpoint }, tookMs / 1000)
    if (SHORT_REQUESTS.has(endpoint)) this.#serviceTime.note(tookMs)
  }

  failed(endpoint: Endpoint, code: DriveErrorCode): void {
    this.#made.bagfs_service_errors_total.inc({ endpoint, code })
  }

  /** The figures as Prometheus reads them. */
  text(status: DriveStatus): Promise<string> {
    this.#lookUp(status)
    return this.#registry.metrics()
  }

  #lookUp({ cache, listing, trash, uploads, downloads, outbox }: DriveStatus): void {
    const made = this.#made
    made.bagfs_uploads.set(uploads.length)
    made.bagfs_downloads.set(downloads.length)
    made.bagfs_cache_bytes.set(cache.bytes)
    made.bagfs_cache_limit_bytes.set(cache.maxBytes)
    made.bagfs_cache_bags.set(cache.bags)
    made.bagfs_cache_hits_total.reset()
    made.bagfs_cache_hits_total.inc(cache.hits ?? 0)
    made.bagfs_cache_misses_total.reset()
    made.bagfs_cache_misses_total.inc(cache.misses ?? 0)
    made.bagfs_listing_bags.set(listing.records)
    // There is no age before the first listing.
    made.bagfs_listing_age_seconds.set(listing.ageMs === null ? NaN : listing.ageMs / 1000)
    made.bagfs_trash_bytes.set(trash?.bytes ?? 0)
    made.bagfs_trash_items.set(trash?.items ?? 0)
    this.#lookUpOutbox(outbox.filter(isOwed))
  }

  #lookUpOutbox(owed: DriveStatus['outbox']): void {
    const { bagfs_outbox_changes: changes, bagfs_outbox_failures: failures } = this.#made
    for (const state of ['waiting', 'failed', 'stuck']) changes.set({ state }, 0)
    failures.reset()
    for (const { failure } of owed) {
      changes.inc({ state: stateOf(failure) })
      if (failure !== undefined) failures.inc({ code: failure.code })
    }
    const bytes = owed.reduce((sum, item) => sum + (item.bytes ?? 0), 0)
    this.#made.bagfs_outbox_bytes.set(bytes)
  }
}

function stateOf(failure: DriveStatus['outbox'][number]['failure']): string {
  if (failure === undefined) return 'waiting'
  return failure.waitsForUser ? 'stuck' : 'failed'
}
