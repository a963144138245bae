import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isInstalled, type Processes } from './processes.ts'
import type { Mount } from './subject.ts'

/** A program that mounts one zip. */
export interface ZipMounter {
  readonly name: string
  mount(zip: string): Promise<Mount>
}

/** Those of Debian's that are installed; says which are not. */
export function zipMounters(processes: Processes, disk: string): readonly ZipMounter[] {
  const known = [
    { name: 'fuse-zip', args: ['-f', '-r'] },
    { name: 'archivemount', args: ['-f', '-o', 'readonly'] },
  ]
  return known.flatMap(({ name, args }) => {
    if (!isInstalled(name)) {
      console.error(`${name} is missing: its column stays empty.`)
      return []
    }
    const mount = async (zip: string): Promise<Mount> => {
      const path = mkdtempSync(join(disk, `${name}-`))
      const running = await processes.mount(name, [...args, zip, path], path)
      const leave = async (): Promise<void> => {
        await processes.unmount(running, path)
        rmSync(path, { recursive: true, force: true })
      }
      return { path, pid: running.pid, leave }
    }
    return [{ name, mount }]
  })
}
