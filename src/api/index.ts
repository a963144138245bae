/**
 * bagfs as a library: a client of the storage service, and drives mounted within this process.
 *
 * ```ts
 * import { connect, mount } from 'bagfs'
 * ```
 *
 * @packageDocumentation
 */
export { connect } from './connect.ts'
export type { Client, ConnectOptions, PutOptions } from './connect.ts'
export type { UploadContent } from './upload-content.ts'
export { mount } from './mount.ts'
export type { MountHandle, UnmountOptions, UnmountProgress } from './mount.ts'
export type { MountOptions } from './mount-options.ts'
export type {
  DownloadUnderWay,
  MountStatus,
  StatusError,
  UploadUnderWay,
  WaitingChange,
} from './mount-status.ts'
export { DriveError, isDriveError } from '../domain/errors.ts'
export type { DriveErrorCode, DriveErrorFacts } from '../domain/errors.ts'
export type { BagId } from '../domain/ids.ts'
export type { Logger, LogFields } from '../domain/logger.ts'
export type { Account, BagRecord } from '../domain/record.ts'
export type {
  CallOptions,
  Download,
  DownloadLimits,
  DownloadOptions,
  UploadOptions,
} from '../service/storage-service.ts'
