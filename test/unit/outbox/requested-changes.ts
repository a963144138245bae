import type { Intent, PutIntent } from '../../../src/intents/intent.ts'
import type { Workshop } from './workshop.ts'

/** Requests that change something, in their order, as `POST upload` and `DELETE`. */
export function requestedChanges({ service }: Workshop): readonly string[] {
  return service.proxy.requests
    .filter(({ method }) => method !== 'GET')
    .map(({ method, path }) => (method === 'POST' ? `POST ${path.split('/').at(-1)}` : method))
}

export function putOf({ outbox }: Workshop, id: Intent['id']): PutIntent {
  const intent = outbox.get(id)
  if (intent?.kind !== 'put') throw new Error('There is no such put.')
  return intent
}
