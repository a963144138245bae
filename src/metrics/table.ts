import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

interface MetricRow {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly labels: readonly string[]
}

/** In seconds: from a read of the page cache to an upload that hangs. */
const BUCKETS = [
  0.000_01, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300,
]

/** All that is served: the only place where it is written down. docs/METRICS.md is checked against it. */
const METRICS = {
  bagfs_operation_duration_seconds: {
    type: 'histogram',
    help: 'Time from a question of the kernel to its answer.',
    labels: ['operation'],
  },
  bagfs_operation_errors_total: {
    type: 'counter',
    help: 'Operations that failed, by the errno that the program saw.',
    labels: ['operation', 'error'],
  },
  bagfs_service_requests_total: {
    type: 'counter',
    help: 'Requests to the service, by the status of the answer, or none.',
    labels: ['endpoint', 'status'],
  },
  bagfs_service_request_duration_seconds: {
    type: 'histogram',
    help: 'Time from a request to the head of its answer, or to its failure.',
    labels: ['endpoint'],
  },
  bagfs_service_errors_total: {
    type: 'counter',
    help: 'Requests that got no answer, or not all of it, by the code of the error.',
    labels: ['endpoint', 'code'],
  },
  bagfs_service_sent_bytes_total: {
    type: 'counter',
    help: 'Bytes of bodies of requests.',
    labels: ['endpoint'],
  },
  bagfs_service_received_bytes_total: {
    type: 'counter',
    help: 'Bytes of bodies of answers.',
    labels: ['endpoint'],
  },
  bagfs_uploads: { type: 'gauge', help: 'Uploads under way.', labels: [] },
  bagfs_downloads: { type: 'gauge', help: 'Downloads under way.', labels: [] },
  bagfs_cache_bytes: {
    type: 'gauge',
    help: 'Content of bags on the local disk, in part or whole.',
    labels: [],
  },
  bagfs_cache_limit_bytes: {
    type: 'gauge',
    help: 'Most that the cache may take.',
    labels: [],
  },
  bagfs_cache_bags: { type: 'gauge', help: 'Bags with content in the cache.', labels: [] },
  bagfs_cache_hits_total: {
    type: 'counter',
    help: 'Reads of content of bags that the cache answered.',
    labels: [],
  },
  bagfs_cache_misses_total: {
    type: 'counter',
    help: 'Reads of content of bags that waited for the service.',
    labels: [],
  },
  bagfs_outbox_changes: {
    type: 'gauge',
    help: 'Changes that the service does not have yet: waiting, failed (tried again) or stuck (wait for a person).',
    labels: ['state'],
  },
  bagfs_outbox_bytes: {
    type: 'gauge',
    help: 'Content of the changes that the service does not have yet.',
    labels: [],
  },
  bagfs_outbox_failures: {
    type: 'gauge',
    help: 'Changes of which the last try failed, by the code of the error.',
    labels: ['code'],
  },
  bagfs_listing_bags: { type: 'gauge', help: 'Records of the last listing.', labels: [] },
  bagfs_listing_age_seconds: {
    type: 'gauge',
    help: 'Time since the last listing was asked for.',
    labels: [],
  },
  bagfs_trash_bytes: {
    type: 'gauge',
    help: 'Deleted and replaced content that is kept on the local disk.',
    labels: [],
  },
  bagfs_trash_items: { type: 'gauge', help: 'Items of the trash.', labels: [] },
} as const satisfies Record<string, MetricRow>

type MetricName = keyof typeof METRICS
type MetricOf<Name extends MetricName> = {
  counter: Counter
  gauge: Gauge
  histogram: Histogram
}[(typeof METRICS)[Name]['type']]
export type MadeMetrics = { readonly [Name in MetricName]: MetricOf<Name> }

/** Makes each metric of the table in `registry`. */
export function makeMetrics(registry: Registry): MadeMetrics {
  const made = Object.entries<MetricRow>(METRICS).map(([name, { type, help, labels }]) => {
    const settings = { name, help, labelNames: labels, registers: [registry] }
    if (type === 'counter') return [name, new Counter(settings)]
    if (type === 'gauge') return [name, new Gauge(settings)]
    return [name, new Histogram({ ...settings, buckets: BUCKETS })]
  })
  return Object.fromEntries(made) as MadeMetrics
}
