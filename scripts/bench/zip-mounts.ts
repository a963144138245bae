import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import type { Places } from './bagfs-subject.ts'
import type { Processes } from './processes.ts'
import type { Mount } from './subject.ts'

/** Programs of Debian that mount one zip, read-only here. */
export type ZipMounter = 'fuse-zip' | 'archivemount'

const OPTIONS: Record<ZipMounter, readonly string[]> = {
  'fuse-zip': ['-f', '-r'],
  archivemount: ['-f', '-o', 'readonly'],
}

/** Mounts a zip; resolves as soon as the kernel has it. */
export async function mountZip(
  processes: Processes,
  places: Places,
  mounter: ZipMounter,
  zip: string,
): Promise<Mount> {
  const path = mkdtempSync(join(places.disk, `${mounter}-`))
  return processes.mount(mounter, [...OPTIONS[mounter], zip, path], path)
}
