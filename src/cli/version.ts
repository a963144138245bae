import { existsSync, readFileSync } from 'node:fs'

/** Seen from the built program, and from this file. */
const PLACES = ['../package.json', '../../package.json']

/** The version in package.json. */
export function readVersion(): string {
  const places = PLACES.map((place) => new URL(place, import.meta.url))
  const found = places.find((place) => existsSync(place))
  if (found === undefined) throw new Error('There is no package.json beside the program.')
  return (JSON.parse(readFileSync(found, 'utf8')) as { readonly version: string }).version
}
