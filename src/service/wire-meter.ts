import type { DriveErrorCode } from '../domain/errors.ts'

/** The seven calls of docs/SERVICE.md, as figures name them. */
export type Endpoint =
  'upload_file' | 'upload_folder' | 'import' | 'download' | 'delete' | 'list' | 'account'

/** Is told of what goes over the wire, request by request. */
export interface WireMeter {
  /** Bytes of bodies, as they go and come. */
  sent(endpoint: Endpoint, bytes: number): void
  received(endpoint: Endpoint, bytes: number): void
  /** The head of an answer is here; `none` is the status of a request that gets none. */
  answered(endpoint: Endpoint, status: string, tookMs: number): void
  /** There was no answer, or it broke off. */
  failed(endpoint: Endpoint, code: DriveErrorCode): void
}
