import type { FaultRule } from './fault-proxy.ts'

export const UPLOAD = { method: 'POST', path: /upload/ }

/** The service takes no upload for now, and says so. */
export const BUSY: FaultRule = {
  match: UPLOAD,
  fault: { answer: { status: 503, body: '{"detail":"busy"}' } },
}
